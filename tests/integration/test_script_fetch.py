"""lua/fetch.lua: READY tasks of many shards go to one consumer, payloads included."""

from __future__ import annotations

from typing import Any

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Shard
from django_redq.broker.delivery import FetchItem
from django_redq.broker.keys import SUSPECTS_CONSUMER
from tests.integration.worlds import (
    DELIVERED,
    GROUP,
    ME,
    Dead,
    Garbage,
    Here,
    Ready,
    Running,
    record,
)

pytestmark = pytest.mark.every_server

LAST_CHANCE = "1 1 2 - []"
"""The state of a task that has lost a worker and has one run left."""


def fetch(
    here: Here, limit: int = 10, *, alone: bool = False, also: tuple[int, ...] = ()
) -> list[FetchItem]:
    numbers = (here.shard.number, *also)
    shards = [Shard(here.shard.namespace, "email", number, GROUP) for number in numbers]
    return here.run(calls.fetch(shards, ME, limit, alone=alone))


def brought(items: list[FetchItem]) -> list[tuple[Any, ...]]:
    """The deliveries: (shard, what, task, entry, count, record)."""
    return [
        (item.shard, one.what, one.task_id, one.entry_id, one.count, one.record)
        for item in items
        for one in item.deliveries
    ]


def task(task_id: str, entry_id: str, what: str = "task", **more: Any) -> tuple[Any, ...]:
    found = {"shard": 0, "count": 1, "record": record(task_id).encode(), **more}
    return found["shard"], what, task_id, entry_id, found["count"], found["record"]


PARKED = FetchItem("email", 0, parked_for=0.0)
"""What the parked neighbour shows of itself, but for the time."""


@pytest.fixture
def quiet(here: Here) -> Here:
    """Nothing is parked."""
    here.seed()
    here.client.hdel(here.keys.meta, "suspects")
    return here


def test_fetch_delivers_task_payload_and_state_together(here: Here) -> None:
    here.seed(Ready("t", "3-2", state="1 0 3 1-9 [7]"))
    here.client.hdel(here.keys.meta, "suspects")
    before = here.world()

    items = fetch(here)

    assert len(items) == 1
    assert brought(items) == [task("ready", "3-1"), task("t", "3-2")]
    states = [one.state for one in items[0].deliveries]
    assert [(state.attempts, state.failures) for state in states] == [(0, b""), (1, b"[7]")]
    assert here.world() == before - {f"group default {DELIVERED}"} | {
        "group default 3-2",
        "pending 3-1 me-1 1",
        "pending 3-2 me-1 1",
        "consumer me-1",
    }
    assert here.heard() == []


def test_fetch_sent_twice_brings_nothing_more(quiet: Here) -> None:
    fetch(quiet)
    before = quiet.world()

    assert fetch(quiet) == []

    assert quiet.changes(before) == []


def test_fetch_serves_many_shards_up_to_one_limit(quiet: Here) -> None:
    other, third = Here(quiet.redq, 1), Here(quiet.redq, 2)
    other.seed(Ready("a", "3-1"), Ready("b", "3-2"), neighbours=False)
    third.seed(Ready("c", "3-1"), neighbours=False)

    items = fetch(quiet, limit=2, also=(1, 2))
    rest = fetch(quiet, limit=10, also=(1, 2))

    assert brought(items) == [task("ready", "3-1"), task("a", "3-1", shard=1)]
    assert brought(rest) == [task("b", "3-2", shard=1), task("c", "3-1", shard=2)]
    for one in (other, third):
        one.close()


def test_fetch_of_nothing_only_looks(here: Here) -> None:
    here.seed()
    before = here.world()

    [item] = fetch(here, limit=0)

    assert item.parked_for is not None
    assert here.changes(before) == []


def test_fetch_makes_the_group_at_the_beginning_of_the_stream(here: Here) -> None:
    here.seed(Ready("t", "3-2"), neighbours=False)
    here.client.xgroup_destroy(here.keys.stream, GROUP)

    assert brought(fetch(here)) == [task("t", "3-2")]

    assert {"group default 3-2", "pending 3-2 me-1 1"} <= here.world()


def test_fetch_makes_stream_and_group_where_there_is_nothing(here: Here) -> None:
    assert fetch(here) == []

    assert here.world() - {"consumer me-1"} == {"group default 0-0"}


def test_fetch_after_everything_was_wiped_finds_what_came_in_since(here: Here) -> None:
    here.seed()
    fetch(here)
    here.wipe()
    here.run(calls.enqueue(here.shard, [calls.Submission("email", 0, "t", "", b'"payload":1}')]))

    assert [row[2] for row in brought(fetch(here))] == ["t"]


def test_fetch_delivers_running_tasks_again_after_the_group_was_destroyed(here: Here) -> None:
    """Measured, and why a consumer adopts what it runs already."""
    here.seed(Running("t", "2-1", count=1), neighbours=False)
    here.client.xgroup_destroy(here.keys.stream, GROUP)

    assert brought(fetch(here)) == [task("t", "2-1", count=1)]


def test_fetch_brings_garbage_as_an_entry_without_a_task(here: Here) -> None:
    here.seed(Garbage("3-2", (("colour", "red"),)), neighbours=False)
    here.client.hset(here.keys.payload, "", "nobody's")
    before = here.world()

    assert brought(fetch(here)) == [task("", "3-2", record=None)]

    assert here.world() == before - {f"group default {DELIVERED}"} | {
        "group default 3-2",
        "pending 3-2 me-1 1",
        "consumer me-1",
    }


def test_fetch_takes_an_id_that_is_no_text_for_garbage(here: Here) -> None:
    here.seed(Garbage("3-2", (("id", b"\xff\xfe"),)), neighbours=False)

    assert brought(fetch(here)) == [task("", "3-2", record=None)]

    assert not here.client.exists(here.keys.entry)


def test_fetch_notes_no_place_for_an_entry_without_a_task(here: Here) -> None:
    here.seed(Garbage("3-2", (("id", "nobody"),)), neighbours=False)

    assert brought(fetch(here)) == [task("nobody", "3-2", record=None)]

    assert not here.client.exists(here.keys.entry)


def test_fetch_brings_a_task_whose_payload_was_removed(quiet: Here) -> None:
    quiet.client.hdel(quiet.keys.payload, "ready")

    assert brought(fetch(quiet)) == [task("ready", "3-1", record=None)]


def test_fetch_notes_the_place_of_a_task_that_had_lost_it(quiet: Here) -> None:
    before = quiet.world()
    quiet.client.hdel(quiet.keys.entry, "ready")

    assert brought(fetch(quiet)) == [task("ready", "3-1")]

    assert not {line for line in before if line.startswith("entry ")} - quiet.world()


@pytest.mark.parametrize("place", ["3-9", "dlq 4-1", "rubbish", "2-1 after 3-1"])
def test_fetch_tells_a_second_entry_from_the_task_itself(quiet: Here, place: str) -> None:
    quiet.client.hset(quiet.keys.entry, "ready", place)

    assert brought(fetch(quiet)) == [task("ready", "3-1", "second", record=None)]

    assert f"entry ready {place}" in quiet.world()


@pytest.mark.parametrize("note", [" 5000000000000", " after 1-7"])
def test_fetch_knows_a_place_with_a_note(quiet: Here, note: str) -> None:
    quiet.client.hset(quiet.keys.entry, "ready", f"3-1{note}")

    assert brought(fetch(quiet)) == [task("ready", "3-1")]


# --- big payloads


def test_fetch_leaves_records_out_once_a_reply_is_big_enough(here: Here) -> None:
    big = b'{"at":1,"payload":"%s"}' % (b"x" * 300 * 1024)
    here.seed(*(Ready(f"t{number}", f"3-{number}") for number in range(1, 7)), neighbours=False)
    for number in range(1, 7):
        here.client.hset(here.keys.payload, f"t{number}", big)

    items = fetch(here)

    # 1 MiB is passed by the fourth.
    assert brought(items) == [
        *(task(f"t{number}", f"3-{number}", record=big) for number in range(1, 5)),
        *(task(f"t{number}", f"3-{number}", "later", record=None) for number in (5, 6)),
    ]
    wanted = [(here.shard, one.task_id) for one in items[0].deliveries if one.what == "later"]
    assert here.broker.load_records(wanted) == [big, big]


def test_fetch_delivers_a_single_record_of_any_size(here: Here) -> None:
    huge = b'{"at":1,"payload":"%s"}' % (b"x" * 2 * 1024 * 1024)
    here.seed(Ready("t", "3-1"), Ready("u", "3-2", state="1 0 3 1-9 [7]"), neighbours=False)
    here.client.hset(here.keys.payload, "t", huge)

    items = fetch(here)

    assert brought(items) == [
        task("t", "3-1", record=huge),
        task("u", "3-2", "later", record=None),
    ]
    assert items[0].deliveries[1].state.attempts == 1


def test_fetch_counts_the_bytes_of_all_shards_together(here: Here) -> None:
    huge = b'{"at":1,"payload":"%s"}' % (b"x" * 1024 * 1024)
    other = Here(here.redq, 1)
    here.seed(Ready("t", "3-1"), neighbours=False)
    here.client.hset(here.keys.payload, "t", huge)
    other.seed(Ready("u", "3-1"), neighbours=False)

    assert brought(fetch(here, also=(1,))) == [
        task("t", "3-1", record=huge),
        task("u", "3-1", "later", shard=1, record=None),
    ]
    other.close()


# --- suspects


def test_fetch_parks_the_last_delivery_of_a_task_that_lost_a_worker(here: Here) -> None:
    here.seed(Ready("t", "3-1", state=LAST_CHANCE), Ready("u", "3-2"), neighbours=False)
    before = here.world()

    items = fetch(here)

    assert brought(items) == [task("u", "3-2")]
    assert items[1:] == [PARKED]
    assert here.world() == before - {f"group default {DELIVERED}"} | {
        "group default 3-2",
        "pending 3-1 _suspects 0",
        "pending 3-2 me-1 1",
        "consumer _suspects",
        "consumer me-1",
        "meta suspects 1",
    }


@pytest.mark.parametrize("state", ["0 1 2 - []", "1 0 2 - []", "1 1 3 - []", "rubbish"])
def test_fetch_parks_nothing_that_has_a_run_to_spare_or_lost_none(here: Here, state: str) -> None:
    here.seed(Ready("t", "3-1", state=state), neighbours=False)

    assert brought(fetch(here)) == [task("t", "3-1")]


def test_fetch_tells_how_long_the_oldest_suspect_has_waited(here: Here) -> None:
    here.seed(
        Running("t", "1-0", owner=SUSPECTS_CONSUMER, idle=3_600_000, state=LAST_CHANCE),
    )
    before = here.world()

    items = fetch(here, limit=0)

    assert [item.parked_for // 3600 for item in items if item.parked_for] == [1]
    assert here.changes(before) == []


def test_fetch_hands_a_suspect_only_to_a_process_that_holds_nothing(here: Here) -> None:
    here.seed()

    busy = fetch(here)

    assert brought(busy) == [task("ready", "3-1")]
    assert "pending 1-2 _suspects 1" in here.world()


def test_fetch_takes_a_suspect_alone(here: Here) -> None:
    here.seed()
    before = here.world()

    items = fetch(here, alone=True)

    assert brought(items) == [task("parked", "1-2", "suspect", count=2)]
    assert items[0].deliveries[0].is_last_chance
    assert here.world() == before - {"pending 1-2 _suspects 1", "meta suspects 1"} | {
        "pending 1-2 me-1 2",
        "meta suspects 0",
        "consumer me-1",
    }


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_fetch_takes_nothing_from_other_shards_beside_a_suspect(
    here: Here, order: tuple[int, int]
) -> None:
    other = Here(here.redq, 1)
    here.seed()
    other.seed(Ready("a", "3-1"), neighbours=False)
    shards = [Shard(here.shard.namespace, "email", number, GROUP) for number in order]

    items = here.run(calls.fetch(shards, ME, 10, alone=True))

    assert brought(items) == [task("parked", "1-2", "suspect", count=2)]
    assert other.row("3-1") is None
    assert here.row("3-1") is None
    other.close()


def test_fetch_of_a_suspect_alone_brings_nothing(here: Here) -> None:
    here.seed(Ready("t", "3-1", state=LAST_CHANCE), neighbours=False)

    assert fetch(here) == [PARKED]


def test_fetch_looks_for_suspects_only_where_some_are_counted(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.meta, "suspects", 0)

    assert brought(fetch(here, alone=True)) == [task("ready", "3-1")]

    assert "meta suspects 0" in here.world()


def test_fetch_takes_one_suspect_at_a_time(here: Here) -> None:
    here.seed(Running("t", "1-3", owner=SUSPECTS_CONSUMER, state=LAST_CHANCE))
    here.client.hset(here.keys.meta, "suspects", 2)

    first, second = fetch(here, alone=True), fetch(here, alone=True)

    assert brought(first) == [task("parked", "1-2", "suspect", count=2)]
    assert brought(second) == [task("t", "1-3", "suspect", count=2)]


def test_what_was_parked_by_a_fetch_is_delivered_for_the_first_time(here: Here) -> None:
    here.seed(Ready("t", "3-1", state=LAST_CHANCE), neighbours=False)
    fetch(here)

    [item] = fetch(here, alone=True)

    assert brought([item]) == [task("t", "3-1", "suspect", count=1)]
    assert item.deliveries[0].attempt == 2


def test_fetch_looks_no_further_for_suspects_that_are_not_there(here: Here) -> None:
    here.seed()
    here.client.xack(here.keys.stream, GROUP, "1-2")

    assert brought(fetch(here, alone=True)) == [task("ready", "3-1")]

    assert not here.client.hexists(here.keys.meta, "suspects")


def test_fetch_forgets_a_suspect_whose_entry_is_gone_and_goes_on(here: Here) -> None:
    here.seed()
    here.client.xdel(here.keys.stream, "1-2")

    assert brought(fetch(here, alone=True)) == [task("ready", "3-1")]

    assert here.row("1-2") is None
    assert "meta suspects 0" in here.world()


def test_fetch_takes_a_suspect_without_a_payload(here: Here) -> None:
    here.seed()
    here.client.hdel(here.keys.payload, "parked")

    assert brought(fetch(here, alone=True)) == [
        task("parked", "1-2", "suspect", count=2, record=None)
    ]


# --- what one shard must not do to the others


def test_fetch_takes_nothing_from_a_paused_shard(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.meta, "paused", 1)
    other = Here(here.redq, 1)
    other.seed(Ready("a", "3-1"), neighbours=False)
    before = here.world()

    items = fetch(here, also=(1,))

    assert items[0] == FetchItem("email", 0, paused=True)
    assert brought(items) == [task("a", "3-1", shard=1)]
    assert not {line for line in before if not line.startswith("1/")} - here.world()
    assert fetch(here, alone=True) == [FetchItem("email", 0, paused=True)]
    other.close()


@pytest.mark.parametrize("name", ["stream", "payload", "state", "entry", "meta"])
@pytest.mark.parametrize("bad", [0, 1])
def test_a_key_of_another_type_strands_no_other_shard(here: Here, name: str, bad: int) -> None:
    other = Here(here.redq, 1)
    here.seed(Ready("t", "3-1"), neighbours=False)
    other.seed(Ready("u", "3-1"), neighbours=False)
    here.client.set(here.redq.key("email", bad, name), "somebody's own")

    items = fetch(here, also=(1,))

    good = 1 - bad
    assert brought(items) == [task("u" if good else "t", "3-1", shard=good)]
    [trouble] = [item for item in items if item.error]
    assert trouble.shard == bad
    assert "WRONGTYPE" in str(trouble.error)
    other.close()


def test_a_shard_that_was_mended_gives_back_what_it_had_stranded(here: Here) -> None:
    here.seed(Ready("t", "3-1"), neighbours=False)
    here.client.rename(here.keys.entry, here.keys.kept)
    here.client.set(here.keys.entry, "somebody's own")
    fetch(here)

    here.client.rename(here.keys.kept, here.keys.entry)

    page = here.run(calls.pending_page(here.shard, owner=ME))
    assert [row.delivery.task_id for row in page.rows] == ["t"]


def test_fetch_of_a_shard_that_is_served_after_the_limit_was_reached_takes_nothing(
    quiet: Here,
) -> None:
    other = Here(quiet.redq, 1)
    other.seed(Ready("a", "3-1"), neighbours=False)

    fetch(quiet, limit=1, also=(1,))

    assert "1/stream 3-1 id=a" in quiet.world()
    assert other.row("3-1") is None
    other.close()


def test_fetch_brings_a_dead_letters_old_entry_as_second(here: Here) -> None:
    here.seed(Dead("t", "4-2"), Garbage("3-2", (("id", "t"),)))
    here.client.hdel(here.keys.meta, "suspects")

    assert brought(fetch(here)) == [
        task("ready", "3-1"),
        task("t", "3-2", "second", record=None),
    ]

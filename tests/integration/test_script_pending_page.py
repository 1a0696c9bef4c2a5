"""lua/pending_page.lua: pages through what consumers hold, for those who recover and adopt."""

from __future__ import annotations

import pytest
import redis

from django_redq.broker import calls
from django_redq.broker.calls import PendingPage
from tests.integration.worlds import (
    GROUP,
    ME,
    OTHER,
    Garbage,
    Here,
    Running,
    record,
)

pytestmark = pytest.mark.every_server

IDLE = 30_000
Shown = tuple[str, str, int, bool, str, str, bytes | None]


def shown(page: PendingPage) -> list[Shown]:
    """(entry, owner, count, in the stream, task, what, record) of each row."""
    return [
        (
            row.delivery.entry_id,
            row.owner,
            row.delivery.count,
            row.in_stream,
            row.delivery.task_id,
            row.delivery.what,
            row.delivery.record,
        )
        for row in page.rows
    ]


def row(task_id: str, entry_id: str, owner: str = OTHER, count: int = 1) -> Shown:
    return entry_id, owner, count, True, task_id, "task", record(task_id).encode()


def test_pending_page_shows_what_everybody_holds_but_the_suspects_consumer(here: Here) -> None:
    here.seed(Running("t", "2-1", state="1 0 3 1-9 [7]"))
    before = here.world()

    page = here.run(calls.pending_page(here.shard))

    assert shown(page) == [row("theirs", "1-1", count=2), row("t", "2-1", owner=ME)]
    assert page.rows[1].delivery.state.failures == b"[7]"
    assert page.cursor is None
    assert here.changes(before) == []
    assert here.heard() == []


def test_pending_page_shows_what_one_consumer_holds(here: Here) -> None:
    here.seed(Running("t", "2-1"))

    assert shown(here.run(calls.pending_page(here.shard, owner=ME))) == [row("t", "2-1", owner=ME)]


def test_pending_page_leaves_out_what_was_renewed_lately(here: Here) -> None:
    here.seed(
        Running("old", "2-1", owner=OTHER, idle=IDLE),
        Running("young", "2-2", owner=OTHER),
        Running("older", "2-3", owner=OTHER, idle=IDLE + 1),
    )

    page = here.run(calls.pending_page(here.shard, min_idle_ms=IDLE))

    assert shown(page) == [row("old", "2-1"), row("older", "2-3")]


def test_pending_page_shows_nothing_of_a_paused_queue(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hset(here.keys.meta, "paused", 1)

    assert here.run(calls.pending_page(here.shard)) == PendingPage((), None)
    assert shown(here.run(calls.pending_page(here.shard, owner=ME))) == [row("t", "2-1", owner=ME)]


def test_pending_page_follows_a_long_list_page_by_page(here: Here) -> None:
    names = [(f"t{number}", f"2-{number}") for number in range(1, 6)]
    here.seed(*(Running(*name, owner=OTHER) for name in names), neighbours=False)

    pages, start = [], "-"
    while start:
        page = here.run(calls.pending_page(here.shard, start=start, limit=2))
        pages.append(shown(page))
        start = page.cursor or ""

    rows = [row(*name) for name in names]
    assert pages == [rows[:2], rows[2:4], rows[4:]]


def test_pending_page_comes_by_old_entries_behind_many_young_ones(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls.recover, "PENDING_SCAN", 2)
    young = [Running(f"t{number}", f"2-{number}", owner=OTHER) for number in range(1, 5)]
    here.seed(*young, Running("old", "2-5", owner=OTHER, idle=IDLE), neighbours=False)

    first = here.run(calls.pending_page(here.shard, min_idle_ms=IDLE))
    assert (first.rows, first.cursor) == ((), "(2-2")
    second = here.run(calls.pending_page(here.shard, min_idle_ms=IDLE, start=first.cursor))
    assert (second.rows, second.cursor) == ((), "(2-4")
    third = here.run(calls.pending_page(here.shard, min_idle_ms=IDLE, start=second.cursor))
    assert shown(third) == [row("old", "2-5")]
    assert third.cursor is None


def test_pending_page_ends_a_page_once_it_is_big_enough(here: Here) -> None:
    big = b'{"at":1,"payload":"%s"}' % (b"x" * 600 * 1024)
    names = [(f"t{number}", f"2-{number}") for number in range(1, 4)]
    here.seed(*(Running(*name, owner=OTHER) for name in names), neighbours=False)
    for task_id, _ in names:
        here.client.hset(here.keys.payload, task_id, big)

    page = here.run(calls.pending_page(here.shard))
    rest = here.run(calls.pending_page(here.shard, start=page.cursor or ""))

    assert [one.delivery.task_id for one in page.rows] == ["t1", "t2"]
    assert [one.delivery.task_id for one in rest.rows] == ["t3"]


def test_pending_page_shows_rows_that_stand_for_no_task_as_such(here: Here) -> None:
    here.seed(
        Garbage("2-1", (("colour", "red"),), owner=OTHER),
        Running("gone", "2-2", owner=OTHER),
        Running("second", "2-3", owner=OTHER),
        Running("bare", "2-4", owner=OTHER),
        Running("lost", "2-5", owner=OTHER),
        neighbours=False,
    )
    here.client.xdel(here.keys.stream, "2-2")
    here.client.hset(here.keys.entry, "second", "3-9")
    here.client.hdel(here.keys.payload, "bare")
    here.client.hdel(here.keys.entry, "lost")

    assert shown(here.run(calls.pending_page(here.shard))) == [
        ("2-1", OTHER, 1, True, "", "task", None),
        ("2-2", OTHER, 1, False, "", "task", None),
        ("2-3", OTHER, 1, True, "second", "second", None),
        ("2-4", OTHER, 1, True, "bare", "task", None),
        row("lost", "2-5"),
    ]


@pytest.mark.parametrize("place", ["dlq 4-1", "rubbish"])
def test_pending_page_takes_an_entry_that_is_not_the_tasks_place_for_a_second(
    here: Here, place: str
) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)
    here.client.hset(here.keys.entry, "t", place)

    [found] = here.run(calls.pending_page(here.shard)).rows

    assert found.delivery.what == "second"


@pytest.mark.parametrize("note", [" 5000000000000", " after 1-7"])
def test_pending_page_knows_a_place_with_a_note(here: Here, note: str) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)
    here.client.hset(here.keys.entry, "t", f"2-1{note}")

    [found] = here.run(calls.pending_page(here.shard)).rows

    assert found.delivery.what == "task"


def test_pending_page_is_empty_where_stream_or_group_are_gone(here: Here) -> None:
    here.seed()
    here.client.xgroup_destroy(here.keys.stream, GROUP)
    assert here.run(calls.pending_page(here.shard)) == PendingPage((), None)

    here.wipe()
    assert here.run(calls.pending_page(here.shard, owner=ME)) == PendingPage((), None)
    assert here.world() == set()


def test_pending_page_does_not_hide_that_the_stream_is_of_another_type(here: Here) -> None:
    here.client.set(here.keys.stream, "somebody's own")

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        here.run(calls.pending_page(here.shard))


def test_pending_page_leaves_a_count_of_what_is_parked(here: Here) -> None:
    here.seed(Running("u", "1-3", owner="_suspects"))
    here.client.hset(here.keys.meta, "suspects", 2)

    here.run(calls.pending_page(here.shard))

    assert here.client.hget(here.keys.meta, "suspects") == b"2"


@pytest.mark.parametrize("count", [None, "0", "rubbish"])
def test_pending_page_counts_what_is_parked_where_that_was_forgotten(
    here: Here, count: str | None
) -> None:
    here.seed()
    here.client.hdel(here.keys.meta, "suspects")
    if count is not None:
        here.client.hset(here.keys.meta, "suspects", count)

    here.run(calls.pending_page(here.shard))

    assert here.client.hget(here.keys.meta, "suspects") == b"1"
    [item] = here.run(calls.fetch([here.shard], ME, 1, alone=True))
    assert [one.task_id for one in item.deliveries] == ["parked"]

"""lua/release.lua: what was not run is handed back, at the tail, the attempt not spent."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Call, Settled
from django_redq.broker.state import State
from tests.integration.worlds import (
    DELIVERED,
    ME,
    NEXT,
    Blow,
    Here,
    Ready,
    Running,
    not_mine,
    tampered,
)

pytestmark = pytest.mark.every_server

OF_ENTRY = {"entry t 2-1", "pending 2-1 me-1 1", "stream 2-1 id=t"}


def release(
    here: Here, *tokens: tuple[str, str], state: State | None = None
) -> Call[list[Settled]]:
    unstarted = [(here.mine(*token), state) for token in tokens or [("t", "2-1")]]
    return calls.release(here.shard, ME, unstarted)


def test_release_puts_the_task_at_the_tail_under_a_new_entry(here: Here) -> None:
    here.seed(Running("t", "2-1", state="0 1 3 - []"))
    before = here.world()

    assert here.run(release(here)) == [Settled.DONE]

    assert here.world() == before - OF_ENTRY | {
        f"entry t {NEXT[0]} after 2-1",
        f"stream {NEXT[0]} id=t",
    }
    assert here.heard() == [("wake", "0")]


def test_release_keeps_the_deliveries_before_this_one_in_the_state(here: Here) -> None:
    here.seed(Running("t", "2-1", count=3, state="0 1 5 - []"))
    before = here.world()
    third, spent = here.mine("t", "2-1", count=3), State(2, lost=True, allowed=5)

    assert here.run(calls.release(here.shard, ME, [(third, spent)])) == [Settled.DONE]

    gone = {"entry t 2-1", "pending 2-1 me-1 3", "stream 2-1 id=t", "state t 0 1 5 - []"}
    assert here.world() == before - gone | {
        f"entry t {NEXT[0]} after 2-1",
        f"stream {NEXT[0]} id=t",
        "state t 2 1 5 - ",
    }


def test_what_was_released_is_delivered_as_a_first_time(here: Here) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)
    here.run(release(here))

    [item] = here.run(calls.fetch([here.shard], "next-1", 5, alone=False))

    assert [(one.task_id, one.entry_id, one.count, one.what) for one in item.deliveries] == [
        ("t", NEXT[0], 1, "task")
    ]


@not_mine
def test_release_changes_nothing_of_a_task_that_is_not_mine_any_more(
    here: Here, blow: Blow
) -> None:
    here.seed(Running("t", "2-1"))
    blow(here)
    before = here.world()

    assert here.run(release(here, state=State(1))) == [Settled.STALE]

    assert here.changes(before) == []
    assert here.heard() == []


@tampered
def test_release_keeps_the_task_whatever_was_taken_from_it(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1"))
    blow(here)
    before = here.world()

    assert here.run(release(here)) == [Settled.DONE]

    # A stream that was dropped begins anew, with an ID that nobody knows beforehand.
    entry_id = here.client.xrevrange(here.keys.stream, count=1)[0][0].decode()
    assert here.world() == before - OF_ENTRY | {
        f"entry t {entry_id} after 2-1",
        f"stream {entry_id} id=t",
    }


def test_release_sent_twice_finds_its_own_work_done(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(release(here))
    before = here.world()
    here.heard()

    assert here.run(release(here)) == [Settled.BEFORE]

    assert here.changes(before) == []
    assert here.heard() == []


def test_release_sent_twice_does_not_take_the_task_from_its_next_owner(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(release(here))
    here.hand_over(NEXT[0], "other-2")
    before = here.world()

    assert here.run(release(here)) == [Settled.BEFORE]

    assert here.changes(before) == []


def test_release_after_everything_was_wiped_brings_nothing_back(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.wipe()

    assert here.run(release(here)) == [Settled.BEFORE]

    assert here.world() == set()


def test_release_leaves_a_new_task_of_the_same_id_alone(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    before = here.world()

    assert here.run(release(here)) == [Settled.STALE]

    assert here.changes(before) == []


def test_release_without_a_payload_leaves_the_finding_to_the_next_fetch(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hdel(here.keys.payload, "t")

    assert here.run(release(here)) == [Settled.DONE]

    assert f"stream {NEXT[0]} id=t" in here.world()


def test_release_answers_for_each_task_of_a_batch(here: Here) -> None:
    here.seed(Running("t", "2-1"), Running("u", "2-2", owner="other-2"))
    before = here.world()

    batch = release(here, ("u", "2-2"), ("t", "2-1"), ("v", "2-3"))
    assert here.run(batch) == [Settled.STALE, Settled.DONE, Settled.BEFORE]

    assert here.world() == before - OF_ENTRY | {
        f"entry t {NEXT[0]} after 2-1",
        f"stream {NEXT[0]} id=t",
    }
    assert f"group default {DELIVERED}" in here.world()

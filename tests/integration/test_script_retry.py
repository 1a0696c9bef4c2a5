"""lua/retry.lua: a failed attempt that gets another goes back, after its delay or at once."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Call, Settled
from django_redq.broker.state import State
from tests.integration.worlds import (
    ME,
    NEXT,
    NOW,
    Blow,
    Here,
    Running,
    Scheduled,
    not_mine,
    record,
    tampered,
)

pytestmark = pytest.mark.every_server

FAILED = State(1, lost=False, allowed=3, came_from=b"2-1", failures=b"[]")
OF_ENTRY = {"pending 2-1 me-1 1", "stream 2-1 id=t"}


def retry(
    here: Here, delay_ms: int = 1500, *tokens: tuple[str, str], now: str = str(NOW)
) -> Call[list[Settled]]:
    failed = [
        (here.mine(task_id, entry_id), delay_ms, State(1, False, 3, entry_id.encode(), b"[]"))
        for task_id, entry_id in tokens or [("t", "2-1")]
    ]
    return calls.retry(here.shard, ME, failed, now)


@pytest.mark.parametrize("delay_ms", [1, 1500])
def test_retry_schedules_the_task_after_its_delay(here: Here, delay_ms: int) -> None:
    here.seed(Running("t", "2-1"))
    before = here.world()

    assert here.run(retry(here, delay_ms)) == [Settled.DONE]

    assert here.world() == before - OF_ENTRY - {"entry t 2-1"} | {
        f"delay t {NOW + delay_ms}",
        "state t 1 0 3 2-1 []",
        "meta retried 1",
    }
    assert here.heard() == [("due", f"0 {NOW + delay_ms}")]


def test_retry_without_a_delay_makes_the_task_ready_at_the_tail(here: Here) -> None:
    here.seed(Running("t", "2-1", state="0 1 3 - []"))
    before = here.world()

    assert here.run(retry(here, 0)) == [Settled.DONE]

    assert here.world() == before - OF_ENTRY - {"entry t 2-1", "state t 0 1 3 - []"} | {
        f"entry t {NEXT[0]}",
        f"stream {NEXT[0]} id=t",
        "state t 1 0 3 2-1 []",
        "meta retried 1",
    }
    assert here.heard() == [("wake", "0")]


def test_retry_counts_its_delay_from_redis_own_clock(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    earliest = here.clock() + 1500

    here.run(retry(here, now=""))

    due = here.client.zscore(here.keys.delay, "t")
    assert earliest <= due <= here.clock() + 1500
    assert here.heard() == [("due", f"0 {due:.0f}")]


@not_mine
def test_retry_changes_nothing_of_a_task_that_is_not_mine_any_more(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1", state="0 1 3 - []"))
    blow(here)
    before = here.world()

    assert here.run(retry(here)) == [Settled.STALE]

    assert here.changes(before) == []
    assert here.heard() == []


@tampered
@pytest.mark.parametrize("delay_ms", [0, 1500])
def test_retry_keeps_the_task_whatever_was_taken_from_it(
    here: Here, blow: Blow, delay_ms: int
) -> None:
    here.seed(Running("t", "2-1"))
    blow(here)
    before = here.world()

    assert here.run(retry(here, delay_ms)) == [Settled.DONE]

    # A stream that was dropped begins anew, with an ID that nobody knows beforehand.
    entry_id = (here.client.hget(here.keys.entry, "t") or b"").decode()
    place = {f"entry t {entry_id}", f"stream {entry_id} id=t"} if delay_ms == 0 else set()
    due = set() if delay_ms == 0 else {f"delay t {NOW + 1500}"}
    told = {"state t 1 0 3 2-1 []", "meta retried 1"}
    assert here.world() == before - OF_ENTRY - {"entry t 2-1"} | place | due | told


def test_retry_sent_twice_finds_its_own_work_done(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(retry(here))
    before = here.world()
    here.heard()

    assert here.run(retry(here)) == [Settled.BEFORE]

    assert here.changes(before) == []
    assert here.heard() == []


def test_retry_sent_twice_does_not_disturb_the_attempt_that_it_led_to(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(retry(here, 0))
    here.hand_over(NEXT[0], ME)
    before = here.world()

    assert here.run(retry(here, 0)) == [Settled.BEFORE]

    assert here.changes(before) == []


def test_retry_sent_twice_after_the_task_was_done_brings_nothing_back(here: Here) -> None:
    here.seed(neighbours=True)
    before = here.world()

    assert here.run(retry(here)) == [Settled.BEFORE]

    assert here.changes(before) == []


def test_retry_after_everything_was_wiped_brings_nothing_back(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.wipe()

    assert here.run(retry(here)) == [Settled.BEFORE]

    assert here.world() == set()


def test_retry_without_a_payload_leaves_the_finding_to_the_next_fetch(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hdel(here.keys.payload, "t")

    assert here.run(retry(here, 0)) == [Settled.DONE]

    assert {f"entry t {NEXT[0]}", f"stream {NEXT[0]} id=t"} <= here.world()
    assert f"payload t {record('t')}" not in here.world()


def test_retry_answers_for_each_task_of_a_batch(here: Here) -> None:
    here.seed(Running("t", "2-1"), Running("u", "2-2", owner="other-2"), Running("w", "2-4"))
    before = here.world()
    batch = retry(here, 0, ("u", "2-2"), ("t", "2-1"), ("v", "2-3"), ("w", "2-4"))

    assert here.run(batch) == [Settled.STALE, Settled.DONE, Settled.BEFORE, Settled.DONE]

    gone = {"pending 2-4 me-1 1", "stream 2-4 id=w", "entry t 2-1", "entry w 2-4"} | OF_ENTRY
    assert here.world() == before - gone | {
        f"entry t {NEXT[0]}",
        f"entry w {NEXT[1]}",
        f"stream {NEXT[0]} id=t",
        f"stream {NEXT[1]} id=w",
        "state t 1 0 3 2-1 []",
        "state w 1 0 3 2-4 []",
        "meta retried 2",
    }
    assert here.heard() == [("wake", "0")]


def test_retry_tells_no_scheduler_of_what_is_not_the_first_one_due(here: Here) -> None:
    here.seed(Running("t", "2-1"), Scheduled("sooner", NOW + 1))

    here.run(retry(here))

    assert here.heard() == []


def test_retry_tells_of_the_soonest_of_a_batch(here: Here) -> None:
    here.seed(Running("t", "2-1"), Running("u", "2-2"), Running("w", "2-3"))
    failed = [
        (here.mine("t", "2-1"), 300, FAILED),
        (here.mine("u", "2-2"), 100, FAILED),
        (here.mine("w", "2-3"), 200, FAILED),
    ]

    here.run(calls.retry(here.shard, ME, failed, str(NOW)))

    assert here.heard() == [("due", f"0 {NOW + 100}")]


def test_retry_tells_of_tasks_that_are_due_at_the_same_time(here: Here) -> None:
    here.seed(Running("u", "2-1"), Running("t", "2-2"))

    here.run(retry(here, 1500, ("u", "2-1"), ("t", "2-2")))

    assert here.heard() == [("due", f"0 {NOW + 1500}")]

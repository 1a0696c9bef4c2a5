"""lua/cancel.lua: a task that has not begun is taken out, whole."""

from __future__ import annotations

import pytest

from django_redq.broker import calls, operator_calls
from django_redq.broker.keys import SUSPECTS_CONSUMER
from tests.integration.worlds import (
    FAR,
    GROUP,
    OTHER,
    Dead,
    Here,
    Ready,
    Running,
    Scheduled,
    record,
)

pytestmark = pytest.mark.every_server

STATE = "1 0 3 1-9 []"


def cancel(here: Here) -> bool:
    return here.run(operator_calls.cancel(here.shard, "t"))


def test_cancel_takes_a_scheduled_task_out(here: Here) -> None:
    here.seed(Scheduled("t", state=STATE))
    before = here.world()

    assert cancel(here) is True

    assert here.world() == before - {
        f"delay t {FAR}",
        f"payload t {record('t')}",
        f"state t {STATE}",
    }
    assert here.heard() == []


def test_cancel_takes_a_ready_task_out(here: Here) -> None:
    here.seed(Ready("t", "3-2", state=STATE))
    before = here.world()

    assert cancel(here) is True

    assert here.world() == before - {
        "stream 3-2 id=t",
        "entry t 3-2",
        f"payload t {record('t')}",
        f"state t {STATE}",
    }


def test_cancel_takes_a_handed_back_task_out(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.hset(here.keys.entry, "t", "3-2 after 2-1")
    before = here.world()

    assert cancel(here) is True

    assert here.world() == before - {
        "stream 3-2 id=t",
        "entry t 3-2 after 2-1",
        f"payload t {record('t')}",
    }


def test_cancel_takes_a_parked_suspect_out(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=SUSPECTS_CONSUMER, state="1 1 2 - []"))
    before = here.world()

    assert cancel(here) is True

    assert here.world() == before - {
        "stream 2-1 id=t",
        "pending 2-1 _suspects 1",
        "entry t 2-1",
        f"payload t {record('t')}",
        "state t 1 1 2 - []",
    }


def test_cancel_works_before_any_consumer_made_the_group(here: Here) -> None:
    here.seed(Ready("t", "3-2"), neighbours=False)
    here.client.xgroup_destroy(here.keys.stream, GROUP)

    assert cancel(here) is True

    assert here.world() == set()


def test_cancel_leaves_a_running_task(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER))
    before = here.world()

    assert cancel(here) is False

    assert here.changes(before) == []


def test_cancel_leaves_a_dead_task(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    before = here.world()

    assert cancel(here) is False

    assert here.changes(before) == []


def test_cancel_of_an_unknown_id_changes_nothing(here: Here) -> None:
    here.seed()
    before = here.world()

    assert cancel(here) is False

    assert here.changes(before) == []


@pytest.mark.parametrize("seed", [Scheduled("t"), Ready("t", "3-2")])
def test_cancel_sent_twice_finds_nothing(here: Here, seed: Scheduled | Ready) -> None:
    here.seed(seed)
    cancel(here)
    before = here.world()

    assert cancel(here) is False

    assert here.changes(before) == []


@pytest.mark.parametrize("place", ["rubbish", "", "dlq rubbish", "9-9"])
def test_cancel_bears_a_garbled_place(here: Here, place: str) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.hset(here.keys.entry, "t", place)
    before = here.world()

    assert cancel(here) is False

    assert here.changes(before) == []


def test_cancel_leaves_a_task_to_the_janitor_whose_stream_was_dropped(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.delete(here.keys.stream)
    before = here.world()

    assert cancel(here) is False

    assert here.changes(before) == []


def test_a_fetch_after_cancel_forgets_that_something_was_parked(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=SUSPECTS_CONSUMER), neighbours=False)
    here.client.hset(here.keys.meta, "suspects", 1)
    cancel(here)

    here.run(calls.fetch([here.shard], "me-1", 1, alone=False))

    assert not here.client.exists(here.keys.meta)

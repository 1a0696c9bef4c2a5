"""lua/inspect.lua: where one task is and what has happened to it."""

from __future__ import annotations

import pytest

from django_redq.broker import operator_calls
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.operator_calls import Snapshot
from django_redq.task import TaskState
from tests.integration.worlds import (
    FAR,
    GROUP,
    OTHER,
    Dead,
    Here,
    Ready,
    Running,
    Scheduled,
    Seed,
    record,
)

pytestmark = pytest.mark.every_server

STATE = "1 1 5 1-9 [7]"
RECORD = record("t").encode()


def inspect(here: Here) -> Snapshot | None:
    return here.run(operator_calls.inspect(here.shard, "t"))


def snapshot(
    state: TaskState, *, due: int | None = None, attempts: int = 1, consumer: str | None = None
) -> Snapshot:
    return Snapshot(state, RECORD, due, attempts, True, b"[7]", consumer)


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (Scheduled("t", state=STATE), snapshot(TaskState.SCHEDULED, due=FAR)),
        (Ready("t", "3-2", state=STATE), snapshot(TaskState.READY)),
        (
            Running("t", "2-1", owner=OTHER, count=2, state=STATE),
            snapshot(TaskState.RUNNING, attempts=3, consumer=OTHER),
        ),
        (
            Running("t", "2-1", owner=SUSPECTS_CONSUMER, state=STATE),
            snapshot(TaskState.READY, attempts=2),
        ),
        (Dead("t", "4-2", state=STATE), snapshot(TaskState.DEAD)),
    ],
    ids=["scheduled", "ready", "running", "parked", "dead"],
)
def test_inspect_tells_where_a_task_is(here: Here, seed: Seed, expected: Snapshot) -> None:
    here.seed(seed)
    before = here.world()

    assert inspect(here) == expected

    assert here.changes(before) == []
    assert here.heard() == []


def test_inspect_knows_a_fresh_task(here: Here) -> None:
    here.seed(Ready("t", "3-2"))

    assert inspect(here) == Snapshot(TaskState.READY, RECORD, None, 0, False, b"", None)


def test_inspect_knows_a_handed_back_task(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hset(here.keys.entry, "t", "2-1 after 1-5")

    assert inspect(here) == Snapshot(TaskState.RUNNING, RECORD, None, 1, False, b"", "me-1")


def test_inspect_finds_nothing_of_an_unknown_id(here: Here) -> None:
    here.seed()

    assert inspect(here) is None


def test_inspect_knows_a_task_before_any_consumer_made_the_group(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.xgroup_destroy(here.keys.stream, GROUP)

    assert inspect(here) == Snapshot(TaskState.READY, RECORD, None, 0, False, b"", None)


def test_inspect_tells_of_a_task_whose_payload_is_missing(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hdel(here.keys.payload, "t")

    assert inspect(here) == Snapshot(TaskState.RUNNING, None, None, 1, False, b"", "me-1")


@pytest.mark.parametrize("place", ["rubbish", "", "dlq rubbish", "9-9", None])
def test_inspect_takes_a_task_without_a_place_for_ready(here: Here, place: str | None) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.hdel(here.keys.entry, "t")
    if place is not None:
        here.client.hset(here.keys.entry, "t", place)

    found = inspect(here)

    assert found is not None
    assert found.record == RECORD
    # 'dlq ' begins the place of a dead task, whatever follows.
    dead = place is not None and place.startswith("dlq ")
    assert found.state is (TaskState.DEAD if dead else TaskState.READY)


def test_inspect_bears_a_garbled_state(here: Here) -> None:
    here.seed(Ready("t", "3-2", state="rubbish"))

    found = inspect(here)

    assert found is not None
    assert (found.attempts, found.worker_lost, found.failures) == (0, False, b"")


def test_inspect_bears_a_due_time_that_never_comes(here: Here) -> None:
    here.seed()
    here.client.zadd(here.keys.delay, {"later": "inf"})

    found = here.run(operator_calls.inspect(here.shard, "later"))

    assert found is not None
    assert (found.state, found.due) == (TaskState.SCHEDULED, None)

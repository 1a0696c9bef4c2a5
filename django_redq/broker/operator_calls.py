"""What people and web requests ask for: layout, cancel, inspect, pause, dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django_redq.broker.calls import Call, Shard, text
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.state import decode_state
from django_redq.task import TaskState

LAYOUT = "1"
"""Version of the keys' layout, written to ``meta``."""


@dataclass(frozen=True, slots=True)
class Declared:
    """How a queue is laid out in Redis."""

    layout: str
    shards: str
    group: str


def declare(shard: Shard, shards: int) -> Call[Declared]:
    """Writes the layout down where none is; answers what stands."""
    return Call(
        "declare",
        (shard.keys.meta,),
        (LAYOUT, shards, shard.group),
        lambda reply: Declared(*(text(one) for one in reply)),
    )


def cancel(shard: Shard, task_id: str) -> Call[bool]:
    """Takes a SCHEDULED or READY task out; False where it is neither."""
    keys = shard.keys
    return Call(
        "cancel",
        (keys.delay, keys.payload, keys.state, keys.entry, keys.stream),
        (shard.group, SUSPECTS_CONSUMER, task_id),
        lambda reply: reply == 1,
    )


def run_now(shard: Shard, task_id: str) -> Call[bool]:
    """A SCHEDULED task becomes READY; False where it is not scheduled."""
    keys = shard.keys
    return Call(
        "run_now",
        (keys.delay, keys.entry, keys.stream),
        (task_id, shard.wake, shard.number),
        lambda reply: reply == 1,
    )


def pause(shard: Shard, *, paused: bool) -> Call[bool]:
    """Pauses or resumes one shard; True where that changed it."""
    return Call(
        "pause", (shard.keys.meta,), (int(paused), shard.wake, shard.number), lambda r: r == 1
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One task as it is in Redis."""

    state: TaskState
    record: bytes | None
    due: int | None
    """When it is due, ms since the epoch (SCHEDULED)."""
    attempts: int
    worker_lost: bool
    failures: bytes
    consumer: str | None


def inspect(shard: Shard, task_id: str) -> Call[Snapshot | None]:
    """Where a task is; None where there is none of this ID."""
    keys = shard.keys
    return Call(
        "inspect",
        (keys.delay, keys.payload, keys.state, keys.entry, keys.stream, keys.dlq),
        (shard.group, task_id),
        _snapshot,
    )


def _snapshot(reply: Any) -> Snapshot | None:
    record, raw_state, due, place, holder, deliveries, _letter = reply
    if record is None and not place:
        return None
    past, consumer = decode_state(raw_state), text(holder)
    if consumer == SUSPECTS_CONSUMER:
        consumer = ""
    return Snapshot(
        state=_where(due, place, consumer),
        record=record,
        due=int(float(due)) if due and float(due) != float("inf") else None,
        attempts=past.attempts + deliveries,
        worker_lost=past.lost,
        failures=past.failures,
        consumer=consumer or None,
    )


def _where(due: bytes, place: bytes, consumer: str) -> TaskState:
    if due:
        return TaskState.SCHEDULED
    if place.startswith(b"dlq "):
        return TaskState.DEAD
    return TaskState.RUNNING if consumer else TaskState.READY


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one dead letter."""

    due: int | None
    """When it runs, ms since the epoch; None where it was not replayed."""
    missing: bool = False
    """It has no payload."""


def replay(
    shard: Shard, letters: Iterable[tuple[str, str]], when: str, now: str
) -> Call[list[Replayed]]:
    """Takes (task ID, entry ID in the dlq or '') pairs back into the queue."""
    keys = shard.keys
    args = [part for letter in letters for part in letter]
    return Call(
        "replay",
        (keys.delay, keys.payload, keys.state, keys.entry, keys.stream, keys.dlq, keys.groups),
        (now, shard.wake, shard.due, shard.number, when, *args),
        lambda reply: [_replayed(one) for one in reply],
    )


def replay_edited(
    shard: Shard, letter: tuple[str, str], record: bytes, when: str, now: str
) -> Call[Replayed]:
    """As :func:`replay`, of one letter, whose task gets another record."""
    keys = shard.keys
    return Call(
        "replay_edited",
        (keys.delay, keys.payload, keys.state, keys.entry, keys.stream, keys.dlq, keys.groups),
        (now, shard.wake, shard.due, shard.number, when, *letter, record),
        _replayed,
    )


def _replayed(one: bytes) -> Replayed:
    return Replayed(int(one)) if one.isdigit() else Replayed(None, missing=one == b"missing")


def discard(shard: Shard, letters: Iterable[tuple[str, str]]) -> Call[list[bool]]:
    """Removes (task ID, entry ID in the dlq or '') pairs for good; a tombstone is ('', entry ID)."""
    keys = shard.keys
    args = [part for letter in letters for part in letter]
    return Call(
        "discard",
        (keys.payload, keys.state, keys.entry, keys.dlq, keys.meta, keys.groups),
        tuple(args),
        lambda reply: [one == 1 for one in reply],
    )

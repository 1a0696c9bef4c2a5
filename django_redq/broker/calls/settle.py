"""The ends of a delivery: ack, retry, dead letter, release; and keeping it until then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from django_redq.broker.calls.call import Call, Shard, text
from django_redq.broker.delivery import Delivery
from django_redq.broker.state import State

KEPT_DONE = 10_000
"""Entries a shard of the stream of done tasks, under STREAM_RETENTION keep; about, not exactly."""
KEPT_PAYLOAD_AGE = 7 * 24 * 3600 * 1000
"""How long, in ms, payloads of done tasks stay under PAYLOAD_CLEANUP never."""


class Settled(IntEnum):
    """What a settling script answers for a task."""

    STALE = 0
    """Somebody else owns it; nothing was changed."""
    DONE = 1
    BEFORE = 2
    """It was settled before, by this call's first try or with the task itself."""


def _read_settled(reply: Sequence[int]) -> list[Settled]:
    return [Settled(one) for one in reply]


def ack(
    shard: Shard,
    consumer: str,
    done: Iterable[Delivery],
    now: str,
    *,
    retention: str,
    cleanup: str,
) -> Call[list[Settled]]:
    """Tasks that succeeded go."""
    keys = shard.keys
    head = (shard.group, consumer, now, retention, cleanup, KEPT_DONE, KEPT_PAYLOAD_AGE)
    return Call(
        "ack",
        (
            keys.stream,
            keys.payload,
            keys.state,
            keys.entry,
            keys.meta,
            keys.done,
            keys.kept,
            keys.meter,
        ),
        (*head, *_tokens(done)),
        _read_settled,
    )


def _tokens(deliveries: Iterable[Delivery]) -> Iterable[Any]:
    for one in deliveries:
        yield from (one.task_id, one.entry_id, one.count)


def retry(
    shard: Shard, consumer: str, failed: Iterable[tuple[Delivery, int, State]], now: str
) -> Call[list[Settled]]:
    """Failed attempts that get another one, each after its delay in ms, with its new state."""
    keys = shard.keys
    args: list[Any] = [shard.group, consumer, now, shard.wake, shard.due, shard.number]
    for one, delay_ms, state in failed:
        args += (one.task_id, one.entry_id, one.count, delay_ms, state.encode())
    return Call(
        "retry",
        (keys.stream, keys.delay, keys.state, keys.entry, keys.meta, keys.meter),
        tuple(args),
        _read_settled,
    )


@dataclass(frozen=True, slots=True)
class Letter:
    """What a dead letter says."""

    reason: str
    kind: str
    error: str
    exception_type: str
    traceback: str
    attempts: int
    key: str = ""
    """The task's idempotency key."""


def dead_letter(
    shard: Shard,
    owner: str,
    dead: Delivery,
    state: State,
    letter: Letter,
    now: str,
    *,
    min_idle_ms: int = 0,
) -> Call[tuple[Settled, str]]:
    """A task that gets no further attempt; ``min_idle_ms`` where it is a vanished owner's.

    Reads as what became of it, and the entry ID of the letter that was written for it.
    """
    keys = shard.keys
    head = (shard.group, owner, now, min_idle_ms, dead.task_id, dead.entry_id, dead.count)
    words = (letter.reason, letter.kind, letter.error, letter.exception_type, letter.traceback)
    return Call(
        "dead_letter",
        (
            keys.stream,
            keys.payload,
            keys.state,
            keys.entry,
            keys.dlq,
            keys.meta,
            keys.groups,
            keys.meter,
        ),
        (*head, state.encode(), *words, letter.attempts, letter.key),
        lambda reply: (Settled(reply[0]), text(reply[1])),
    )


def release(
    shard: Shard, consumer: str, unstarted: Iterable[tuple[Delivery, State | None]]
) -> Call[list[Settled]]:
    """Deliveries handed back unrun, with their new state where it changes."""
    keys = shard.keys
    args: list[Any] = [shard.group, consumer, shard.wake, shard.number]
    for one, state in unstarted:
        args += (one.task_id, one.entry_id, one.count, state.encode() if state else b"")
    return Call("release", (keys.stream, keys.state, keys.entry), tuple(args), _read_settled)


class Renewed(IntEnum):
    """What a renewal answers for a task."""

    LOST = 0
    """Somebody else has it."""
    KEPT = 1
    GONE = 2
    """It is settled, or was wiped from Redis."""


def renew(
    shard: Shard, consumer: str, held: Iterable[Delivery], now: str, *, hold_ms: int
) -> Call[list[Renewed]]:
    """Keeps what the consumer holds; ``hold_ms`` is how long a task without entry is kept."""
    keys = shard.keys
    return Call(
        "renew",
        (keys.stream, keys.payload, keys.entry),
        (shard.group, consumer, now, hold_ms, *_tokens(held)),
        lambda reply: [Renewed(one) for one in reply],
    )

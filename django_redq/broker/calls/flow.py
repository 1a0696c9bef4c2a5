"""The way in and on: enqueue, promote, fetch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django_redq.broker.calls.call import (
    MAX_SCRIPT_BYTES,
    Call,
    Shard,
    Submission,
    read_delivery,
)
from django_redq.broker.delivery import FetchItem
from django_redq.broker.keys import SUSPECTS_CONSUMER


def enqueue(shard: Shard, tasks: Iterable[Submission], now: str = "") -> Call[list[bool]]:
    """New tasks in. Reads as: True, it is in; False, another task of this ID exists."""
    keys = shard.keys
    args: list[Any] = [now, shard.wake, shard.due, shard.number]
    for task in tasks:
        args += (task.task_id, task.when, task.body)
    return Call(
        "enqueue",
        (keys.delay, keys.payload, keys.entry, keys.stream),
        tuple(args),
        lambda reply: [one == 1 for one in reply],
    )


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a promote did to a shard. Times are ms since the epoch, by the scripts' clock."""

    held: bool
    """The lease is ours."""
    moved: int
    lapses_in: float | None
    """Where it is not: ms until the other instance's lease lapses."""
    next_due: float | None
    """When the first one left is due; None: nothing is scheduled."""
    now: float


def promote(
    shard: Shard, instance: str, lease_ttl_ms: int, limit: int, now: str
) -> Call[Promotion]:
    """Lease and due tasks of one shard in one step."""
    keys = shard.keys
    return Call(
        "promote",
        (keys.lease, keys.delay, keys.entry, keys.stream),
        (now, instance, lease_ttl_ms, limit, shard.wake, shard.number),
        _promotion,
    )


def _promotion(reply: Any) -> Promotion:
    held, number, next_due, now = reply
    if held == 1:
        return Promotion(
            held=True, moved=number, lapses_in=None, next_due=_due(next_due), now=float(now)
        )
    return Promotion(held=False, moved=0, lapses_in=max(number, 0), next_due=None, now=float(now))


def _due(raw: bytes) -> float | None:
    return float(raw) if raw else None


@dataclass(frozen=True, slots=True)
class Heads:
    """When the first task of each shard is due (None: nothing is scheduled), and what time it is."""

    due: list[float | None]
    now: float


def heads(shards: Sequence[Shard], now: str) -> Call[Heads]:
    """The first due time of each shard."""
    keys = tuple(shard.keys.delay for shard in shards)
    return Call(
        "heads",
        keys,
        (now,),
        lambda reply: Heads([_due(one) for one in reply[1:]], float(reply[0])),
    )


def release_lease(shard: Shard, instance: str) -> Call[bool]:
    """Gives the lease up; False where it was not ours."""
    return Call(
        "lease_release", (shard.keys.lease,), (instance, shard.due, shard.number), lambda r: r == 1
    )


def fetch(
    shards: Sequence[Shard], consumer: str, limit: int, *, alone: bool
) -> Call[list[FetchItem]]:
    """Up to ``limit`` READY tasks of all these shards together.

    ``alone``: the process holds nothing, so a suspect may be handed over (by itself).
    """
    keys: list[str] = []
    for shard in shards:
        of = shard.keys
        keys += (of.stream, of.payload, of.state, of.entry, of.meta, of.meter)
    groups = (shard.group for shard in shards)
    head = (consumer, SUSPECTS_CONSUMER, limit, MAX_SCRIPT_BYTES, int(alone))
    return Call(
        "fetch",
        tuple(keys),
        (*head, *groups),
        lambda reply: [_fetch_item(shards[at - 1], what, rest) for at, what, rest in reply],
    )


def _fetch_item(shard: Shard, what: bytes, detail: Any) -> FetchItem:
    if what == b"rows":
        rows = tuple(read_delivery(shard, *row) for row in detail)
        return FetchItem(shard.queue, shard.number, rows)
    if what == b"suspects":
        return FetchItem(shard.queue, shard.number, parked_for=detail / 1000)
    if what == b"paused":
        return FetchItem(shard.queue, shard.number, paused=True)
    error = detail.decode(errors="replace")
    return FetchItem(shard.queue, shard.number, error=error)

"""Read-only: how full a queue is, who works on it, who schedules it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_redq.broker import faults
from django_redq.broker.calls import Call, Shard, text
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.meter import HOUR, Reading
from django_redq.broker.sync import Broker

MAX_CALLS = 64
"""Shards that are asked in one round trip."""


@dataclass(frozen=True, slots=True)
class ShardConsumer:
    """A consumer as a shard's group knows it."""

    name: str
    running: int
    """Tasks that it holds."""
    idle: float
    """Seconds since it last asked for tasks or renewed what it holds."""


@dataclass(frozen=True, slots=True)
class ShardStats:
    """One shard as of one moment."""

    shard: int
    scheduled: int
    ready: int
    running: int
    dead: int
    """Dead letters that lie there now."""
    oldest_ready_age: float | None
    """Seconds that the first READY task has waited; None where none is READY."""
    lateness: float | None
    """Seconds since the first SCHEDULED task was due; None where none is due."""
    lease_holder: str | None
    """The scheduler that serves the shard."""
    paused: bool
    succeeded: int
    """Tasks acknowledged so far."""
    retried: int
    """Failed runs so far that were given another."""
    died: int
    """Tasks dead-lettered so far."""
    consumers: tuple[ShardConsumer, ...]


def shard_stats(shard: Shard, now: str) -> Call[tuple[ShardStats, Reading]]:
    """How full a shard is and who works on it, and its meter's last hour."""
    keys = shard.keys
    return Call(
        "shard_stats",
        (keys.delay, keys.stream, keys.dlq, keys.lease, keys.meta, keys.meter),
        (now, shard.group, SUSPECTS_CONSUMER, HOUR.bytes[1]),
        lambda reply: (
            _shard_stats(shard.number, *reply[:-2]),
            Reading(int(reply[-2]), reply[-1]),
        ),
    )


def _shard_stats(
    number: int,
    scheduled: int,
    late: bytes,
    entries: int,
    parked: int,
    waited: bytes,
    dead: int,
    owner: bytes,
    counters: Sequence[bytes | None],
    consumers: Sequence[Any],
) -> ShardStats:
    paused, succeeded, retried, died = counters
    seen = tuple(
        ShardConsumer(text(name), pending, max(idle, 0) / 1000) for name, pending, idle in consumers
    )
    # Rows whose entry was deleted are nobody's task, so there may be more of them than entries.
    running = min(sum(one.running for one in seen), entries - min(parked, entries))
    return ShardStats(
        shard=number,
        scheduled=scheduled,
        ready=entries - running,
        running=running,
        dead=dead,
        oldest_ready_age=_seconds(waited) if entries > running else None,
        lateness=_seconds(late),
        lease_holder=text(owner) or None,
        paused=paused is not None,
        succeeded=_whole(succeeded),
        retried=_whole(retried),
        died=_whole(died),
        consumers=seen,
    )


def _seconds(raw: bytes) -> float | None:
    return int(raw) / 1000 if raw else None


def _whole(raw: bytes | None) -> int:
    return int(raw) if raw is not None and raw.isdigit() else 0


def run_all(broker: Broker, batch: Sequence[Call[Any]]) -> list[Any]:
    """Runs the calls, a bounded number in a round trip.

    Raises:
        Exception: the first that one of them was answered with.
    """
    replies: list[Any] = []
    for start in range(0, len(batch), MAX_CALLS):
        replies += broker.run_many(batch[start : start + MAX_CALLS])
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def run_some(broker: Broker, batch: Sequence[Call[Any]]) -> list[Any]:
    """As :func:`run_all`, but for each call that fails its exception stands among the replies."""
    replies: list[Any] = []
    for start in range(0, len(batch), MAX_CALLS):
        some = batch[start : start + MAX_CALLS]
        try:
            replies += broker.run_many(some)
        except faults.REDIS_ERRORS as error:
            replies += [error] * len(some)
    return replies


def run(broker: Broker, batch: Sequence[Call[Any]], *, partial: bool) -> list[Any]:
    """The replies; with ``partial`` those that fail are exceptions among them.

    Raises:
        Exception: the first that a call was answered with; with ``partial`` only if all failed.
    """
    if not partial:
        return run_all(broker, batch)
    replies = run_some(broker, batch)
    if replies and all(isinstance(reply, Exception) for reply in replies):
        raise replies[0]
    return replies

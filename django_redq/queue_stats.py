"""How full a queue is, who works on it, and what happened lately, added up over its shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_redq.broker.beats import About, Beat, seen
from django_redq.broker.calls import Call, Shard
from django_redq.broker.inspector import ShardStats, run, shard_stats
from django_redq.broker.meter import HOUR, Activity, Reading, added_up
from django_redq.broker.sync import Broker
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS, QueueConfig

ALIVE = 20.0
"""Seconds without a sign of life, of which one comes every 5, after which a consumer is not counted
as alive."""


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task in a consumer's hands."""

    task_id: str
    kind: str
    started_at: datetime
    """When the consumer took it, in UTC, by its own clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenConsumer:
    """A consumer of a queue, alive or not long gone."""

    name: str
    running: int
    """Tasks that it holds."""
    idle: float | None
    """Seconds since it last asked for tasks or renewed what it holds; None: it never did."""
    last_seen: float
    """Seconds since its last sign of life."""
    alive: bool
    host: str
    """Empty, as the rest is None, of one that told nothing of itself."""
    pid: int | None
    version: str
    """Of django-redq."""
    started_at: datetime | None
    """In UTC, by its own clock."""
    concurrency: int | None
    tasks: tuple[RunningTask, ...]
    """Some of those that it holds, the longest running first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """A queue's shards added up. Each shard is as of one moment, so no task is counted twice."""

    queue: str
    scheduled: int
    ready: int
    running: int
    dead: int
    """Dead letters that lie there now."""
    succeeded: int
    """Tasks acknowledged since the queue was first used."""
    retried: int
    """Failed runs since then that were given another."""
    died: int
    """Tasks dead-lettered since then, replayed ones included."""
    oldest_ready_age: float | None
    """Seconds that the first READY task has waited; None where none is READY."""
    lateness: float | None
    """Seconds since the first SCHEDULED task was due; None where none is due. Beyond a second or
    two, no scheduler keeps up."""
    paused: bool
    """Whether it, or a shard of it, is paused."""
    consumers: tuple[SeenConsumer, ...]
    """Those that Redis knows, by name; those long dead are forgotten in time."""
    lease_holders: tuple[str, ...]
    """The schedulers that serve it, by name."""
    last_hour: tuple[Activity, ...]
    """Minute by minute, the oldest first."""
    shards: tuple[ShardStats, ...]
    unreachable: tuple[int, ...] = ()
    """Shards that did not answer, and are in no number here."""


def read_stats(
    broker: Broker, queue: QueueConfig, shards: Sequence[Shard], now: str, *, partial: bool
) -> QueueStats:
    """Asks every shard, in one round trip where they are not many.

    Raises:
        redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard does.
    """
    batch: list[Call[Any]] = [*(shard_stats(shard, now) for shard in shards), seen(shards[0], now)]
    *replies, beats = run(broker, batch, partial=partial)
    answered = [reply for reply in replies if not isinstance(reply, Exception)]
    if not answered:
        raise replies[0]
    return _sum(
        queue,
        [stats for stats, _ in answered],
        [lately for _, lately in answered],
        {} if isinstance(beats, Exception) else beats,
        {shard.number for shard in shards} - {stats.shard for stats, _ in answered},
    )


def _sum(
    queue: QueueConfig,
    shards: Sequence[ShardStats],
    lately: Sequence[Reading],
    beats: Mapping[str, Beat],
    unreachable: set[int],
) -> QueueStats:
    return QueueStats(
        queue=queue.name,
        scheduled=sum(one.scheduled for one in shards),
        ready=sum(one.ready for one in shards),
        running=sum(one.running for one in shards),
        dead=sum(one.dead for one in shards),
        succeeded=sum(one.succeeded for one in shards),
        retried=sum(one.retried for one in shards),
        died=sum(one.died for one in shards),
        oldest_ready_age=_longest(one.oldest_ready_age for one in shards),
        lateness=_longest(one.lateness for one in shards),
        paused=any(one.paused for one in shards),
        consumers=_consumers(queue, shards, beats),
        lease_holders=tuple(sorted({one.lease_holder for one in shards if one.lease_holder})),
        last_hour=added_up(HOUR, lately),
        shards=tuple(shards),
        unreachable=tuple(sorted(unreachable)),
    )


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((one for one in seconds if one is not None), default=None)


def _consumers(
    queue: QueueConfig, shards: Sequence[ShardStats], beats: Mapping[str, Beat]
) -> tuple[SeenConsumer, ...]:
    """The consumers of all shards and those that beat, each once."""
    running: dict[str, int] = {}
    idle: dict[str, float] = {}
    for shard in shards:
        for one in shard.consumers:
            running[one.name] = running.get(one.name, 0) + one.running
            idle[one.name] = min(idle.get(one.name, one.idle), one.idle)
    return tuple(
        _consumer(queue, name, running.get(name, 0), idle.get(name), beats.get(name))
        for name in sorted({*running, *beats})
    )


def _consumer(
    queue: QueueConfig, name: str, running: int, idle: float | None, beat: Beat | None
) -> SeenConsumer:
    about = beat.about if beat is not None else About()
    signs = [sign for sign in (idle, beat.seen if beat is not None else None) if sign is not None]
    last_seen = min(signs)
    # One that never beats, as of run_once() or an older version, asks once a BLOCK_TIMEOUT.
    patience = ALIVE if beat is not None else max(ALIVE, 2 * queue.block_timeout + 5)
    alive = last_seen < patience
    # Of one that fell silent and holds nothing any more, others have run what it spoke of last.
    told = about.running if alive or running else ()
    return SeenConsumer(
        name=name,
        running=running,
        idle=idle,
        last_seen=last_seen,
        alive=alive,
        host=about.host,
        pid=about.pid,
        version=about.version,
        started_at=None if about.started is None else _moment(about.started),
        concurrency=about.concurrency,
        tasks=tuple(
            RunningTask(task_id, kind, _moment(started)) for task_id, kind, started in told
        ),
    )


def _moment(ms: int) -> datetime:
    return from_ms(min(max(ms, 0), LATEST_MS))

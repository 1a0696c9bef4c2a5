"""Removes dead letters beyond ``DEAD_LETTER_MAX_AGE`` and ``DEAD_LETTER_MAX_COUNT``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_redq.broker import calls
from django_redq.broker.calls import Shard
from django_redq.broker.dead_walk import Bounds, Filters, Place, Walk, bounds
from django_redq.broker.sync import Broker, shards_for
from django_redq.conf import QueueConfig
from django_redq.dead_letters import steps
from django_redq.lines import get_logger

logger = get_logger("django_redq.dead_letters")


def trim(
    broker: Broker,
    queue: QueueConfig,
    held: set[int],
    limit: int,
    now: Callable[[], float] | None,
) -> int:
    """Removes dead letters beyond the queue's age or number, those that died first first.

    The number counts over all shards, and so does the order of deaths; each scheduler removes what
    lies in its own shards, and leaves the rest to the others.

    Args:
        broker: the connection.
        queue: its settings.
        held: the shards whose leases the caller has.
        limit: letters that are removed at most.
        now: seconds since the epoch; None: Redis' own clock.

    Returns:
        How many were removed.

    Raises:
        redis.RedisError: Redis did not answer.
    """
    shards = _sound(broker, queue)
    if not any(of.count for of in shards.values()):
        return 0
    clock = calls.clock(None if now is None else int(now() * 1000))
    old = _remove(broker, _too_old(broker, queue, shards, held, limit, clock))
    many = _remove(broker, _too_many(broker, queue, shards, held, limit, old))
    for number, why in ((old, "too old"), (many, "too many")):
        if number:
            logger.info("%d dead letter(s) of %r were %s and removed", number, queue.name, why)
    return old + many


def _sound(broker: Broker, queue: QueueConfig) -> dict[Shard, Bounds]:
    """The shards that answer as they should; a bad one must not keep the others from being trimmed."""
    shards = shards_for(broker.config, queue)
    replies = broker.run_many([bounds(shard) for shard in shards])
    return {
        shard: reply
        for shard, reply in zip(shards, replies, strict=True)
        if not isinstance(reply, Exception)
    }


def _too_old(
    broker: Broker,
    queue: QueueConfig,
    shards: dict[Shard, Bounds],
    held: set[int],
    limit: int,
    clock: str,
) -> list[Place]:
    if queue.dead_letter_max_age is None:
        return []
    filters = Filters(older_than_ms=int(queue.dead_letter_max_age * 1000))
    mine = [shard for shard in shards if shard.number in held]
    return Walk(broker, mine, filters=filters, now=clock).take(limit)


def _too_many(
    broker: Broker,
    queue: QueueConfig,
    shards: dict[Shard, Bounds],
    held: set[int],
    limit: int,
    removed: int,
) -> list[Place]:
    if queue.dead_letter_max_count is None:
        return []
    there = sum(of.count for of in shards.values()) - removed
    excess = min(there - queue.dead_letter_max_count, limit - removed)
    places = Walk(broker, [*shards]).take(excess)
    return [place for place in places if place.shard.number in held]


def _remove(broker: Broker, places: Sequence[Place]) -> int:
    return steps.discard(broker, places) if places else 0

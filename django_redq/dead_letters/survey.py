"""How many dead letters a filter is about, found out within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django_redq.broker.calls import Shard
from django_redq.broker.dead_spots import walked_for
from django_redq.broker.dead_walk import Bounds, Filters, Walk, bounds, position_of
from django_redq.broker.inspector import run
from django_redq.broker.sync import Broker
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS
from django_redq.dead_letters.groups import groups_of


@dataclass(frozen=True, slots=True)
class Survey:
    """How many dead letters there are of some sort, and how old."""

    count: int
    exact: bool
    """False: there are at least so many; not all were looked at."""
    oldest: datetime | None
    """When the first of those that were counted died, in UTC; None where there is none."""
    newest: datetime | None
    unreachable: tuple[int, ...] = ()
    """Shards that did not answer."""


def survey(
    broker: Broker,
    shards: Sequence[Shard],
    filters: Filters,
    *,
    max_scan: int,
    partial: bool,
    now: str,
) -> Survey:
    """Counts from what Redis keeps count of where that is enough, else by looking at letters.

    Raises:
        redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard does.
    """
    if not filters.any:
        return _of_all(broker, shards, partial=partial)
    if filters.only_group:
        found = _of_group(broker, shards, filters, partial=partial)
        if found is not None:
            return found
    walked, spots = walked_for(broker, shards, filters, partial=partial)
    walk = Walk(
        broker,
        walked,
        spots=spots,
        newest_first=True,
        filters=filters,
        max_scan=max_scan,
        partial=partial,
        now=now,
    )
    positions = [position.ms for position, _ in walk.take_positions(max_scan)]
    unreachable = tuple(shard.number for shard in walk.unreachable)
    whole = walk.stopped_at is None and len(positions) < max_scan and not unreachable
    return _survey(len(positions), positions, exact=whole, unreachable=unreachable)


def _of_all(broker: Broker, shards: Sequence[Shard], *, partial: bool) -> Survey:
    replies = run(broker, [bounds(shard) for shard in shards], partial=partial)
    answered: list[Bounds] = [reply for reply in replies if isinstance(reply, Bounds)]
    ends = [end for one in answered for end in (one.oldest, one.newest) if end]
    unreachable = tuple(
        shard.number
        for shard, reply in zip(shards, replies, strict=True)
        if isinstance(reply, Exception)
    )
    return _survey(
        sum(one.count for one in answered),
        [position_of(end, 0).ms for end in ends],
        exact=not unreachable,
        unreachable=unreachable,
    )


def _of_group(
    broker: Broker, shards: Sequence[Shard], filters: Filters, *, partial: bool
) -> Survey | None:
    """None where the counters do not tell all."""
    found = groups_of(broker, shards, partial=partial)
    if not found.exact:
        return None
    for group in found.groups:
        if (group.kind, group.exception_type) == (filters.kind, filters.exception_type):
            return Survey(group.count, exact=True, oldest=group.first_at, newest=group.last_at)
    return Survey(0, exact=True, oldest=None, newest=None)


def _survey(
    count: int, moments: Iterable[int], *, exact: bool, unreachable: tuple[int, ...]
) -> Survey:
    found = [min(ms, LATEST_MS) for ms in moments]
    return Survey(
        count=count,
        exact=exact,
        oldest=from_ms(min(found)) if found else None,
        newest=from_ms(max(found)) if found else None,
        unreachable=unreachable,
    )

"""Where the letter of one task stands, found without looking at any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_redq.broker.calls import Call, Shard
from django_redq.broker.dead_reading import letters
from django_redq.broker.dead_walk import Filters, bounds
from django_redq.broker.inspector import run
from django_redq.broker.sync import Broker

Spots = dict[Shard, str | None]


def walked_for(
    broker: Broker, shards: Sequence[Shard], filters: Filters, *, partial: bool
) -> tuple[Sequence[Shard], Spots]:
    """The shards that a walk has to go through, and the only letters that matter in some of them.

    Raises:
        redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard does.
    """
    if not filters.task_id:
        return shards, {}
    spots = _spots_of(broker, shards, filters.task_id, partial=partial)
    return [shard for shard in shards if shard in spots], spots


def _spots_of(broker: Broker, shards: Sequence[Shard], task_id: str, *, partial: bool) -> Spots:
    """The entry ID of this task's letter in each shard that has one.

    None stands where a shard has to be searched: nothing points at a tombstone, and who does not
    answer is asked again by the walk, which tells of it.

    Raises:
        redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard does.
    """
    names = [letters(shard, [(task_id, "")], brief=True) for shard in shards]
    batch: list[Call[Any]] = [*names, *map(bounds, shards)]
    replies = run(broker, batch, partial=partial)
    own: dict[Shard, str | None] = {}
    silent, graveyards = [], []
    for shard, found, of in zip(shards, replies, replies[len(shards) :], strict=False):
        if isinstance(found, Exception) or isinstance(of, Exception):
            silent.append(shard)
        elif found[1]:
            own[shard] = found[1][0].entry_id
        elif of.tombstones > 0:
            graveyards.append(shard)
    return {**own, **dict.fromkeys(silent if own else graveyards + silent)}

"""What is done to many dead letters, in steps that each take Redis a moment only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from django_redq.broker import operator_calls
from django_redq.broker.calls import Shard
from django_redq.broker.dead_walk import Place, Walk
from django_redq.broker.inspector import run_all
from django_redq.broker.sync import Broker
from django_redq.dead_letters.arguments import Due, Progress
from django_redq.dead_letters.letters import ReplayResult, result_of

STEP = 100
"""Letters of one round trip. Its scripts, one a shard, keep others waiting for their sum: 500 took 40 ms."""


def some(walk: Walk, limit: int | None = None) -> Iterator[list[Place]]:
    """The places of a walk, as many at a time as one round trip may deal with."""
    left = limit
    while left is None or left > 0:
        size = STEP if left is None else min(left, STEP)
        places = walk.take(size)
        if places:
            yield places
        if len(places) < size:
            return
        left = None if left is None else left - size


def replay(
    broker: Broker,
    batches: Iterator[list[Place]],
    due: Due,
    clock: Callable[[], str],
    progress: Progress | None,
) -> Iterator[ReplayResult]:
    """Replays batch by batch, as the results are taken.

    Raises:
        redis.RedisError: of a shard that refuses, once the results of the others are taken.
    """
    done = 0
    for places in batches:
        groups = _by_shard(places)
        batch = [
            operator_calls.replay(shard, [place.name for place in group], due.when(), clock())
            for shard, group in groups.items()
        ]
        replies = broker.run_many(batch)
        for group, reply in zip(groups.values(), replies, strict=True):
            if not isinstance(reply, Exception):
                yield from map(result_of, group, reply)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        done += len(places)
        if progress is not None:
            progress(done)


def discard(broker: Broker, places: Sequence[Place]) -> int:
    """Removes these letters; how many were there.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    batch = [
        operator_calls.discard(shard, [place.name for place in group])
        for shard, group in _by_shard(places).items()
    ]
    return sum(sum(reply) for reply in run_all(broker, batch))


def _by_shard(places: Sequence[Place]) -> dict[Shard, list[Place]]:
    groups: dict[Shard, list[Place]] = {}
    for place in places:
        groups.setdefault(place.shard, []).append(place)
    return groups

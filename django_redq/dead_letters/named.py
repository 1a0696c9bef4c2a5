"""What is done to dead letters that are named one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from django_redq.broker import operator_calls
from django_redq.broker.calls import Call, Shard
from django_redq.broker.dead_reading import StoredLetter, letters
from django_redq.broker.dead_walk import Place
from django_redq.broker.inspector import run_all
from django_redq.broker.operator_calls import Replayed
from django_redq.broker.sync import Broker
from django_redq.dead_letters.arguments import Due, check_shard
from django_redq.dead_letters.letters import LetterRef, ReplayResult, result_of
from django_redq.errors import InvalidArgument

MAX_REFS = 1000
"""Letters that a call may name."""


def places_of(shards: Sequence[Shard], refs: Iterable[LetterRef]) -> list[Place]:
    """Where the letters stand, each once.

    Raises:
        InvalidArgument: a shard is none of the queue's, or there are too many.
    """
    found = [
        Place(shards[check_shard(ref.shard, len(shards))], ref.entry_id, ref.task_id)
        for ref in dict.fromkeys(refs)
    ]
    if len(found) > MAX_REFS:
        raise InvalidArgument("refs", f"must be at most {MAX_REFS:,}, got {len(found):,}")
    return found


def replay(
    broker: Broker,
    places: Sequence[Place],
    due: Due,
    spread: float | None,
    clock: Callable[[], str],
) -> list[ReplayResult]:
    """Replays these letters; where they are spread, the first is due at once, the last at the end.

    Raises:
        redis.RedisError: Redis did not answer, or refuses; what was replayed before stays so.
    """
    steps = max(len(places) - 1, 1)
    offsets = [(spread or 0.0) * at / steps for at in range(len(places))]
    batch: list[Call[list[Replayed]]] = [
        operator_calls.replay(place.shard, [place.name], due.when(offset), clock())
        for place, offset in zip(places, offsets, strict=True)
    ]
    replies = run_all(broker, batch)
    results = [result_of(place, reply) for place, [reply] in zip(places, replies, strict=True)]
    return _told_apart(broker, places, results)


def _told_apart(
    broker: Broker, places: Sequence[Place], results: Sequence[ReplayResult]
) -> list[ReplayResult]:
    """A letter that still stands there, though no task is dead by it, has no payload."""
    doubtful = [at for at, result in enumerate(results) if result.why_not == "gone"]
    batch = [letters(places[at].shard, [places[at].name], brief=True) for at in doubtful]
    told = list(results)
    found: tuple[int, list[StoredLetter]]
    for at, found in zip(doubtful, run_all(broker, batch), strict=True):
        if found[1]:
            told[at] = replace(results[at], why_not="no payload")
    return told

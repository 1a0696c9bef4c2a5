"""Loads dead letters, whole or cut short for a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django_redq.broker.calls import MAX_SCRIPT_BYTES, MAX_SCRIPT_TASKS, Call, Shard, text
from django_redq.broker.dead_walk import Place
from django_redq.broker.inspector import run_all
from django_redq.broker.sync import Broker

BRIEF_BYTES = 300
"""Of each field, where letters are listed."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter as it lies in Redis; whatever somebody else wrote there, too."""

    shard: int
    entry_id: str
    fields: Mapping[bytes, bytes]
    current: bool
    """The task that it names is dead by this letter; False for a tombstone."""
    record: bytes | None
    """The task as enqueued; None where it is not current, is cut short, or the payload is missing."""
    has_payload: bool = True
    state: bytes | None = None
    """What the task's runs left; None as of ``record``."""


def letters(
    shard: Shard, names: Sequence[tuple[str, str]], *, brief: bool = False
) -> Call[tuple[int, list[StoredLetter]]]:
    """Reads (task ID, entry ID) pairs, either of which may be ''; reads as how many it looked at.

    ``brief`` leaves out what a list does not show: traceback, record, state, and of each field what
    is beyond :data:`BRIEF_BYTES`.
    """
    keys = shard.keys
    cut = BRIEF_BYTES if brief else ""
    return Call(
        "dead_letters",
        (keys.payload, keys.state, keys.entry, keys.dlq),
        (MAX_SCRIPT_BYTES, cut, *(part for name in names for part in name)),
        lambda reply: (reply[0], [_stored(shard.number, *row) for row in reply[1]]),
    )


def _stored(
    shard: int,
    entry_id: bytes,
    flat: Sequence[bytes],
    current: int,
    has_payload: int,
    record: bytes | None,
    state: bytes | None,
) -> StoredLetter:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return StoredLetter(
        shard, text(entry_id), fields, current == 1, record, has_payload == 1, state
    )


def load(
    broker: Broker, places: Iterable[Place], *, brief: bool = False
) -> list[tuple[Shard, StoredLetter]]:
    """The letters at these places, in their order; those gone meanwhile are left out.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    places = list(places)
    left: dict[Shard, list[tuple[str, str]]] = {}
    for place in places:
        left.setdefault(place.shard, []).append(place.name)
    found: dict[tuple[Shard, str], StoredLetter] = {}
    while left:
        batch = [
            letters(shard, names[:MAX_SCRIPT_TASKS], brief=brief) for shard, names in left.items()
        ]
        for shard, (looked_at, rows) in zip(list(left), run_all(broker, batch), strict=True):
            found |= {(shard, row.entry_id): row for row in rows}
            del left[shard][:looked_at]
        left = {shard: names for shard, names in left.items() if names}
    keys = ((place.shard, place.entry_id) for place in places)
    return [(key[0], found[key]) for key in keys if key in found]


def read_letters(
    broker: Broker, shards: Sequence[Shard], name: tuple[str, str]
) -> list[StoredLetter]:
    """The letter of this name in each of these shards that has one.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    replies = run_all(broker, [letters(shard, [name]) for shard in shards])
    return [row for _, rows in replies for row in rows]

"""Reads dead letters: walks through all shards in the order of the deaths, and loads them whole."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_redq.broker.calls import MAX_SCRIPT_BYTES, MAX_SCRIPT_TASKS, Call, Shard, text
from django_redq.broker.inspector import run_all
from django_redq.broker.sync import Broker

MAX_SCAN = 100
"""Letters that one script looks at: each may have 16 KiB, and 100 of 8 KiB took less than 2 ms."""
_LARGEST = 2**63
"""Beyond what an entry ID of ours can be; Redis itself takes twice that."""
_POSITION = re.compile(r"(\d{1,20})-(\d{1,20})\.(\d{1,4})", re.ASCII)


class Position(NamedTuple):
    """A letter's place in the order of deaths over all shards: ms, then sequence, then shard."""

    ms: int
    sequence: int
    shard: int

    @property
    def entry_id(self) -> str:
        return f"{self.ms}-{self.sequence}"

    def __str__(self) -> str:
        """As a cursor."""
        return f"{self.entry_id}.{self.shard}"


def read_position(cursor: str) -> Position:
    """The position that a cursor names.

    Raises:
        ValueError: it is none of ours.
    """
    found = _POSITION.fullmatch(cursor)
    position = Position(*map(int, found.groups())) if found is not None else None
    if position is None or max(position) > _LARGEST:
        raise ValueError(f"{cursor!r:.80} is no cursor of a page")
    return position


@dataclass(frozen=True, slots=True)
class Place:
    """Where a letter stands, and whom it names."""

    shard: Shard
    entry_id: str
    task_id: str
    """Empty where it names no task."""

    @property
    def position(self) -> Position:
        ms, _, sequence = self.entry_id.partition("-")
        return Position(int(ms), int(sequence), self.shard.number)

    @property
    def name(self) -> tuple[str, str]:
        """As the scripts want it."""
        return self.task_id, self.entry_id


@dataclass(frozen=True, slots=True)
class Filters:
    """Which letters are asked for."""

    kind: str | None = None
    reason: str | None = None
    task_id: str | None = None
    older_than_ms: int | None = None
    """Died so long ago or earlier."""

    @property
    def fields(self) -> list[str]:
        """The fields of a letter with the values that they must have."""
        wanted = {"kind": self.kind, "reason": self.reason, "id": self.task_id}
        return [
            part for name, value in wanted.items() if value is not None for part in (name, value)
        ]

    @property
    def any(self) -> bool:
        return bool(self.fields) or self.older_than_ms is not None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many letters a shard has, and how far they reach."""

    count: int
    newest: str
    """Entry ID; empty where there is none."""
    tombstones: int


def bounds(shard: Shard) -> Call[Bounds]:
    keys = shard.keys
    return Call(
        "dead_bounds",
        (keys.dlq, keys.meta),
        (),
        lambda reply: Bounds(reply[0], text(reply[1]), reply[2]),
    )


def bounds_of(broker: Broker, shards: Sequence[Shard]) -> dict[Shard, Bounds]:
    """How many letters each shard has.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    found = run_all(broker, [bounds(shard) for shard in shards])
    return dict(zip(shards, found, strict=True))


# --- walking ---------------------------------------------------------------------------------


class _Lane:
    """The part of a walk that lies in one shard."""

    def __init__(self, shard: Shard, start: str, end: str) -> None:
        self.shard = shard
        self.end = end
        self.cursor = start
        """Where the next page starts; empty when through."""
        self.places: deque[Place] = deque()

    def take_in(self, reply: Any) -> None:
        cursor, rows = reply
        self.cursor = text(cursor)
        self.places += [Place(self.shard, text(entry), text(task)) for entry, task in rows]


class Walk:
    """Goes through the letters of some shards as if they were one queue, oldest or newest first.

    Letters that come in meanwhile are met only by a walk that goes oldest first and has no ``till``.

    Args:
        broker: the connection.
        shards: whose letters.
        newest_first: against the order of deaths.
        filters: which letters.
        after: goes on behind this position.
        till: the last entry ID of each shard, both ends meant; a shard that is not named is not
            walked.
        now: the scripts' ``now``.
    """

    def __init__(
        self,
        broker: Broker,
        shards: Sequence[Shard],
        *,
        newest_first: bool = False,
        filters: Filters | None = None,
        after: Position | None = None,
        till: Mapping[Shard, str] | None = None,
        now: str = "",
    ) -> None:
        self._broker = broker
        self._newest_first = newest_first
        self._filters = filters or Filters()
        self._now = now
        first, last = ("+", "-") if newest_first else ("-", "+")
        self._lanes = [
            _Lane(
                shard,
                self._start(shard, after) if after is not None else first,
                till[shard] if till is not None else last,
            )
            for shard in shards
            if till is None or till.get(shard)
        ]

    def _start(self, shard: Shard, after: Position) -> str:
        # At the same ms and sequence the shard's number decides who comes next.
        distance = shard.number - after.shard
        passed = distance >= 0 if self._newest_first else distance <= 0
        return f"({after.entry_id}" if passed else after.entry_id

    def take(self, count: int) -> list[Place]:
        """The next ``count`` places, fewer only at the end.

        Raises:
            redis.RedisError: Redis did not answer, or refuses.
        """
        taken: list[Place] = []
        while len(taken) < count:
            self._refill(count - len(taken))
            lanes = [lane for lane in self._lanes if lane.places]
            if not lanes:
                break
            pick = max if self._newest_first else min
            nearest = pick(lanes, key=lambda lane: lane.places[0].position)
            taken.append(nearest.places.popleft())
        return taken

    def _refill(self, wanted: int) -> None:
        """No lane that has more may be empty when the nearest of all is looked for."""
        while hungry := [lane for lane in self._lanes if not lane.places and lane.cursor]:
            # Most letters are spread evenly, so most pages take one round trip.
            limit = min(wanted, 10 + 2 * wanted // len(self._lanes), MAX_SCAN)
            replies = run_all(self._broker, [self._page(lane, limit) for lane in hungry])
            for lane, reply in zip(hungry, replies, strict=True):
                lane.take_in(reply)

    def _page(self, lane: _Lane, limit: int) -> Call[Any]:
        older_than = self._filters.older_than_ms
        scan = MAX_SCAN if self._filters.any else limit
        where = (int(self._newest_first), lane.cursor, lane.end)
        return Call(
            "dead_ids",
            (lane.shard.keys.dlq,),
            (
                self._now,
                *where,
                scan,
                limit,
                "" if older_than is None else older_than,
                *self._filters.fields,
            ),
            lambda reply: reply,
        )


# --- loading ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter as it lies in Redis; whatever somebody else wrote there, too."""

    shard: int
    entry_id: str
    fields: Mapping[bytes, bytes]
    current: bool
    """The task that it names is dead by this letter; False for a tombstone."""
    record: bytes | None
    """The task as enqueued; None where it is not current, or the payload is missing."""


def letters(shard: Shard, names: Sequence[tuple[str, str]]) -> Call[tuple[int, list[StoredLetter]]]:
    """Reads (task ID, entry ID) pairs, either of which may be ''; reads as how many it looked at."""
    keys = shard.keys
    return Call(
        "dead_letters",
        (keys.payload, keys.entry, keys.dlq),
        (MAX_SCRIPT_BYTES, *(part for name in names for part in name)),
        lambda reply: (reply[0], [_stored(shard.number, *row) for row in reply[1]]),
    )


def _stored(
    shard: int, entry_id: bytes, flat: Sequence[bytes], current: int, record: bytes | None
) -> StoredLetter:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return StoredLetter(shard, text(entry_id), fields, current == 1, record)


def load(broker: Broker, places: Iterable[Place]) -> list[StoredLetter]:
    """The letters at these places, in their order; those gone meanwhile are left out.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    places = list(places)
    left: dict[Shard, list[tuple[str, str]]] = {}
    for place in places:
        left.setdefault(place.shard, []).append(place.name)
    found: dict[tuple[int, str], StoredLetter] = {}
    while left:
        batch = [letters(shard, names[:MAX_SCRIPT_TASKS]) for shard, names in left.items()]
        for shard, (looked_at, rows) in zip(list(left), run_all(broker, batch), strict=True):
            found |= {(row.shard, row.entry_id): row for row in rows}
            del left[shard][:looked_at]
        left = {shard: names for shard, names in left.items() if names}
    keys = ((place.shard.number, place.entry_id) for place in places)
    return [found[key] for key in keys if key in found]


def read_letters(
    broker: Broker, shards: Sequence[Shard], name: tuple[str, str]
) -> list[StoredLetter]:
    """The letter of this name in each of these shards that has one.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    replies = run_all(broker, [letters(shard, [name]) for shard in shards])
    return [row for _, rows in replies for row in rows]

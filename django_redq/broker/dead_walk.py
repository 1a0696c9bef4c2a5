"""Walks through dead letters: those of many shards as if they were one queue, in the order of deaths."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_redq.broker.calls import Call, Shard, text
from django_redq.broker.inspector import run, run_all
from django_redq.broker.sync import Broker

MAX_SCAN = 100
"""Letters that one script looks at: each may have 16 KiB, and 100 of 8 KiB took less than 2 ms."""
CLOCK_SLACK_MS = 60_000
"""How far the time in a letter and that in its entry ID, which Redis makes, may lie apart."""
_LARGEST = 2**63
"""Beyond what an entry ID of ours can be; Redis itself takes twice that."""
_POSITION = re.compile(r"(\d{1,20})-(\d{1,20})\.(\d{1,6})", re.ASCII)


class Position(NamedTuple):
    """A letter's place in the order of deaths: ms, then sequence, then its shard among all."""

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


def position_of(entry_id: str, shard: int) -> Position:
    ms, _, sequence = entry_id.partition("-")
    return Position(int(ms), int(sequence), shard)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a letter stands, and whom it names."""

    shard: Shard
    entry_id: str
    task_id: str
    """Empty where it names no task."""

    @property
    def name(self) -> tuple[str, str]:
        """As the scripts want it."""
        return self.task_id, self.entry_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which letters are asked for."""

    kind: str | None = None
    reason: str | None = None
    exception_type: str | None = None
    task_id: str | None = None
    key: str | None = None
    """The idempotency key."""
    since: int | None = None
    """Died then, in ms since the epoch, or later."""
    until: int | None = None
    """Died then or earlier."""
    text: str | None = None
    """Part of the error; ASCII letters of either case alike."""
    older_than_ms: int | None = None
    """Died so long ago or earlier, by the scripts' clock."""

    @property
    def asked(self) -> list[str | bytes]:
        """What ``asked_for.lua`` wants: names, each with its value."""
        wanted: dict[str, str | int | bytes | None] = {
            "kind": self.kind,
            "reason": self.reason,
            "type": self.exception_type,
            "id": self.task_id,
            "key": self.key,
            "since": self.since,
            "until": self.until,
            # bytes.lower() is Lua's: ASCII only.
            "text": None if self.text is None else self.text.encode(errors="replace").lower(),
        }
        return [
            part
            for name, value in wanted.items()
            if value is not None
            for part in (name, str(value) if isinstance(value, int) else value)
        ]

    @property
    def any(self) -> bool:
        return bool(self.asked) or self.older_than_ms is not None

    def span(self) -> tuple[str, str]:
        """Entry IDs between which all that is asked for lies, where the time in the letters is that of
        Redis' clock.
        """
        return (
            "-" if self.since is None else str(max(self.since - CLOCK_SLACK_MS, 0)),
            "+" if self.until is None else str(max(self.until + CLOCK_SLACK_MS, 0)),
        )

    @property
    def only_group(self) -> bool:
        """Whether they ask for one kind and exception type, and nothing else."""
        bare = Filters(kind=self.kind, exception_type=self.exception_type)
        return self == bare and self.kind is not None and self.exception_type is not None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many letters a shard has, and how far they reach."""

    count: int
    newest: str
    """Entry ID; empty where there is none."""
    tombstones: int
    oldest: str = ""
    """As ``newest``."""


def bounds(shard: Shard) -> Call[Bounds]:
    keys = shard.keys
    return Call(
        "dead_bounds",
        (keys.dlq, keys.meta),
        (),
        lambda reply: Bounds(reply[0], text(reply[1]), reply[2], text(reply[3])),
    )


def bounds_of(broker: Broker, shards: Sequence[Shard]) -> dict[Shard, Bounds]:
    """How many letters each shard has.

    Raises:
        redis.RedisError: Redis did not answer, or refuses.
    """
    found = run_all(broker, [bounds(shard) for shard in shards])
    return dict(zip(shards, found, strict=True))


def dead_ids(
    shard: Shard,
    filters: Filters,
    *,
    newest_first: bool,
    start: str,
    end: str,
    scan: int,
    limit: int,
    now: str,
) -> Call[Any]:
    """A page of one shard's letters; reads as (cursor, rows, letters looked at)."""
    older_than = filters.older_than_ms
    window = (int(newest_first), start, end, scan, limit)
    asked = ("" if older_than is None else older_than, *filters.asked)
    return Call("dead_ids", (shard.keys.dlq,), (now, *window, *asked), lambda reply: reply)


class _Lane:
    """The part of a walk that lies in one shard."""

    def __init__(self, shard: Shard, ordinal: int, start: str, end: str) -> None:
        self.shard = shard
        self.ordinal = ordinal
        self.end = end
        self.cursor = start
        """Where the next page starts; empty when through."""
        self.places: deque[tuple[Position, Place]] = deque()

    @property
    def is_hungry(self) -> bool:
        """Whether more has to be read before it is known what comes next."""
        return not self.places and bool(self.cursor)

    @property
    def reached(self) -> Position:
        """The last letter looked at."""
        return position_of(self.cursor.removeprefix("("), self.ordinal)

    def take_in(self, reply: Any) -> int:
        """Notes a page; how many letters were looked at for it."""
        cursor, rows, looked_at = reply
        self.cursor = text(cursor)
        for entry, task in rows:
            place = Place(self.shard, text(entry), text(task))
            self.places.append((position_of(place.entry_id, self.ordinal), place))
        return int(looked_at)


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
        spots: the only letter that matters in some of the shards, by its entry ID (dead_spots.py).
        ordinals: each shard's place among all, for the positions; None: its number.
        max_scan: ends about where so many letters were looked at; None: it goes on to the end.
        partial: a shard that does not answer is left out, unless none does.
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
        spots: Mapping[Shard, str | None] | None = None,
        now: str = "",
        ordinals: Mapping[Shard, int] | None = None,
        max_scan: int | None = None,
        partial: bool = False,
    ) -> None:
        self._broker = broker
        self._newest_first = newest_first
        self._filters = filters or Filters()
        self._now = now
        self._max_scan = max_scan
        self._partial = partial
        self.scanned = 0
        """Letters looked at so far."""
        self.unreachable: list[Shard] = []
        """Shards that did not answer."""
        self.stopped_at: Position | None = None
        """Up to where everything was looked at, where ``max_scan`` ended the walk."""
        first, last = self._ends()
        spot = (spots or {}).get
        self._lanes = [
            _Lane(
                shard,
                ordinal := shard.number if ordinals is None else ordinals[shard],
                (spot(shard) or first) if after is None else self._start(ordinal, after),
                (spot(shard) or last) if till is None else till[shard],
            )
            for shard in shards
            if till is None or till.get(shard)
        ]
        self._begun = False

    def _ends(self) -> tuple[str, str]:
        """Where a shard's letters begin and end for these filters."""
        # By a clock of its own a letter's time says nothing of its entry ID.
        low, high = ("-", "+") if self._now else self._filters.span()
        return (high, low) if self._newest_first else (low, high)

    def _start(self, ordinal: int, after: Position) -> str:
        # At the same ms and sequence the shard's place decides who comes next.
        distance = ordinal - after.shard
        passed = distance >= 0 if self._newest_first else distance <= 0
        if passed and self._newest_first and after.entry_id == "0-0":
            # Nothing stands before the first of all IDs, and Redis refuses to look for it.
            return ""
        return f"({after.entry_id}" if passed else after.entry_id

    def take(self, count: int) -> list[Place]:
        """The next ``count`` places, fewer only at the end, or where ``max_scan`` ends the walk.

        Raises:
            redis.RedisError: Redis did not answer, or refuses.
        """
        return [place for _, place in self.take_positions(count)]

    def take_positions(self, count: int) -> list[tuple[Position, Place]]:
        """As :meth:`take`, each with its position.

        Raises:
            redis.RedisError: Redis did not answer, or refuses.
        """
        taken: list[tuple[Position, Place]] = []
        pick = max if self._newest_first else min
        while len(taken) < count:
            self._refill(count - len(taken))
            waiting = [lane for lane in self._lanes if lane.places]
            hungry = [lane.reached for lane in self._lanes if lane.is_hungry]
            self.stopped_at = pick(hungry) if hungry else None
            if not waiting:
                break
            nearest = pick(waiting, key=lambda lane: lane.places[0][0])
            position = nearest.places[0][0]
            if hungry and pick(position, *hungry) != position:
                break
            taken.append(nearest.places.popleft())
        return taken

    def _refill(self, wanted: int) -> None:
        """No lane that has more may be empty when the nearest of all is looked for."""
        while hungry := [lane for lane in self._lanes if lane.is_hungry]:
            if self._begun and self._max_scan is not None and self.scanned >= self._max_scan:
                return
            self._begun = True
            # Most letters are spread evenly, so most pages take one round trip.
            limit = min(wanted, 4 + 2 * wanted // len(self._lanes), MAX_SCAN)
            batch = [self._page(lane, limit) for lane in hungry]
            replies = run(self._broker, batch, partial=self._partial)
            for lane, reply in zip(hungry, replies, strict=True):
                if isinstance(reply, Exception):
                    lane.cursor = ""
                    self.unreachable.append(lane.shard)
                else:
                    self.scanned += lane.take_in(reply)

    def _page(self, lane: _Lane, limit: int) -> Call[Any]:
        return dead_ids(
            lane.shard,
            self._filters,
            newest_first=self._newest_first,
            start=lane.cursor,
            end=lane.end,
            scan=MAX_SCAN if self._filters.any else limit,
            limit=limit,
            now=self._now,
        )

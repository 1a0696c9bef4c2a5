"""What happened in a queue lately, out of rings that the scripts keep in constant space."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django_redq.broker.calls import Call, Shard
from django_redq.codec.records import from_ms

_SLOT = struct.Struct(">6Iq")
"""As ``lua/include/meter_add.lua`` writes it."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Where a ring lies in the meter."""

    first: int
    """Slots before it."""
    slots: int
    seconds: int
    """How long one slot is."""

    @property
    def bytes(self) -> tuple[int, int]:
        """The first and the last byte."""
        return self.first * _SLOT.size, (self.first + self.slots) * _SLOT.size - 1


HOUR = Ring(0, 60, 60)
DAY = Ring(60, 96, 900)
RINGS = {"hour": HOUR, "day": DAY}


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened in a span of time."""

    since: datetime
    """Its beginning, in UTC."""
    seconds: int
    """Its length."""
    succeeded: int = 0
    """Tasks acknowledged."""
    failed: int = 0
    """Runs that failed, those that were the last of their task included."""
    died: int = 0
    """Tasks dead-lettered."""
    started: int = 0
    """Tasks handed to consumers."""
    mean_wait: float | None = None
    """Seconds from READY to that, on average; None where none was handed over."""
    longest_wait: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A shard's ring as it lies in Redis."""

    now: int
    """ms since the epoch."""
    raw: bytes


def history(shard: Shard, ring: Ring, now: str) -> Call[Reading]:
    return Call(
        "history",
        (shard.keys.meter,),
        (now, *ring.bytes),
        lambda reply: Reading(int(reply[0]), reply[1]),
    )


def added_up(ring: Ring, readings: Sequence[Reading]) -> tuple[Activity, ...]:
    """The slots of the ring over all shards, the oldest first, the one that goes on last."""
    now = max((one.now for one in readings), default=0)
    last = now // (ring.seconds * 1000)
    sums = {number: [0] * 6 for number in range(last - ring.slots + 1, last + 1)}
    for number, counts in _slots(readings):
        if number in sums:
            _add(sums[number], counts)
    return tuple(_activity(ring, number, counts) for number, counts in sums.items())


def _slots(readings: Iterable[Reading]) -> Iterable[tuple[int, tuple[int, ...]]]:
    for one in readings:
        whole = len(one.raw) // _SLOT.size * _SLOT.size
        for number, *counts in _SLOT.iter_unpack(one.raw[:whole]):
            yield number, tuple(counts)


def _add(total: list[int], counts: Sequence[int]) -> None:
    longest = max(total[4], counts[4])
    for at, value in enumerate(counts):
        total[at] += value
    total[4] = longest


def _activity(ring: Ring, number: int, counts: Sequence[int]) -> Activity:
    succeeded, failed, died, started, longest, waited = counts
    return Activity(
        since=from_ms(max(number, 0) * ring.seconds * 1000),
        seconds=ring.seconds,
        succeeded=succeeded,
        failed=failed,
        died=died,
        started=started,
        mean_wait=max(waited, 0) / started / 1000 if started else None,
        longest_wait=longest / 1000 if started else None,
    )

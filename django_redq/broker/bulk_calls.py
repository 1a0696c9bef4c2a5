"""Work on many dead letters as it lies in Redis: a record in shard 0, a part in each shard.

The record says what is to be done and does not change, but for its end. A part says how far its shard
is; it is made by the first step, and written by the script that does the work, so that what was done
and what is told of it agree, whatever dies in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django_redq.broker.calls import MAX_SCRIPT_BYTES, Call, Shard, text

MAX_OPEN = 10
"""Bulks of one queue that may be under way: each is looked at in every round of a janitor."""
MAX_EFFORT = 240
"""Of one step: so many letters looked at, or a quarter of that replayed or discarded. With letters of
1.5 KiB either takes about 2.5 ms."""
_PART = " part"
_RECORD_TEXT = re.compile(rb"([a-z]+) (\d{1,15}) (\d{1,15}) (\d{1,15}) (.*)", re.DOTALL)
_PART_TEXT = re.compile(
    rb"([a-z]+) \S+ \S* (\d{1,15}) (\d{1,15}) (\d{1,15}) (\d{1,15}) (\d{1,15}) (\d{1,15})"
)


@dataclass(frozen=True, slots=True)
class StoredBulk:
    """The record of one."""

    bulk_id: str
    state: str
    """``open``, ``stopped``, ``done``; '' where it is garbled."""
    till: int
    """Letters that died after this ms, by Redis' own clock, are not meant."""
    begun: int
    """ms since the epoch, as the other times."""
    ended: int
    """0 while it is open."""
    definition: bytes
    """What is to be done, as whoever began it wrote it down."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """How far a shard is with it."""

    state: str
    """``going``, ``stopped``, ``done``; '' where it is garbled."""
    looked_at: int = 0
    changed: int = 0
    gone: int = 0
    missing: int = 0
    begun: int = 0
    ended: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in {"stopped", "done"}


@dataclass(frozen=True, slots=True)
class StoredBulks:
    """All that a shard has."""

    records: Mapping[str, StoredBulk]
    parts: Mapping[str, StoredPart]


@dataclass(frozen=True, slots=True)
class BulkStep:
    """What one shard's share of the work is, as :func:`step` wants it."""

    bulk_id: str
    first: str
    """Entry ID from which on letters are looked at; '-': the first one."""
    till: int
    """As of :class:`StoredBulk`."""
    action: str
    """``replay`` or ``discard``."""
    start: int
    """Replayed tasks are due then, ms since the epoch; 0: at once."""
    spread: int
    """ms from ``start`` on, over which they are spread; 0: not at all."""
    phase: float
    """From 0 to 1: where in the sequence of due times the shard begins, so that shards differ."""
    asked: Sequence[str | bytes]
    """Which letters, as ``asked_for.lua`` wants it."""


def begin(shard: Shard, bulk_id: str, definition: bytes, now: str) -> Call[int]:
    """Reads as 1 (begun), 0 (there was one of this ID) or -1 (too many are open)."""
    return Call(
        "bulk_begin", (shard.keys.bulk,), (now, bulk_id, MAX_OPEN, definition), lambda reply: reply
    )


def end(shard: Shard, bulk_id: str, state: str, now: str) -> Call[int]:
    """Reads as 1 (ended), 0 (it was over) or -1 (there is none)."""
    return Call("bulk_end", (shard.keys.bulk,), (now, bulk_id, state), lambda reply: reply)


def halt(shard: Shard, bulk_id: str, now: str) -> Call[bool]:
    """Has the shard do nothing more of it; False where its part was over."""
    return Call("bulk_halt", (shard.keys.bulk,), (now, bulk_id + _PART), lambda reply: reply == 1)


def drop(shard: Shard, bulk_ids: Sequence[str], *, records: bool) -> Call[int]:
    """Forgets the shard's parts of these; in shard 0 with ``records`` all that there was."""
    fields = [one + _PART for one in bulk_ids] + ([*bulk_ids] if records else [])
    return Call("bulk_drop", (shard.keys.bulk,), tuple(fields), lambda reply: reply)


def read(shard: Shard, *, open_only: bool = False) -> Call[StoredBulks]:
    """All that the shard has, or the records that are not over."""
    return Call("bulk_read", (shard.keys.bulk,), (int(open_only),), _bulks)


def _bulks(reply: Sequence[bytes]) -> StoredBulks:
    records, parts = {}, {}
    for field, value in zip(reply[::2], reply[1::2], strict=True):
        name = text(field)
        if name.endswith(_PART):
            parts[name.removesuffix(_PART)] = _part(value)
        else:
            records[name] = _record(name, value)
    return StoredBulks(records, parts)


def _record(bulk_id: str, value: bytes) -> StoredBulk:
    found = _RECORD_TEXT.fullmatch(value)
    if found is None:
        return StoredBulk(bulk_id, "", 0, 0, 0, b"")
    state, till, begun, ended, definition = found.groups()
    return StoredBulk(bulk_id, text(state), int(till), int(begun), int(ended), definition)


def _part(value: bytes) -> StoredPart:
    found = _PART_TEXT.fullmatch(value)
    if found is None:
        return StoredPart("")
    state, *numbers = found.groups()
    return StoredPart(text(state), *map(int, numbers))


def step(shard: Shard, instance: str, work: BulkStep, now: str) -> Call[str]:
    """Does some of a shard's share.

    Reads as the state of its part, ``going`` where more is to do; '' where ``instance`` has lost the
    lease.
    """
    keys = shard.keys
    return Call(
        "bulk_step",
        (
            keys.lease,
            keys.delay,
            keys.payload,
            keys.state,
            keys.entry,
            keys.stream,
            keys.dlq,
            keys.meta,
            keys.groups,
            keys.bulk,
        ),
        (
            *(now, instance, shard.wake, shard.due, shard.number),
            *(work.bulk_id + _PART, work.first, work.till, work.action),
            *(work.start, work.spread, f"{work.phase:.9f}"),
            *(MAX_EFFORT, MAX_SCRIPT_BYTES),
            *work.asked,
        ),
        text,
    )

"""What vanished: pending entries, consumers, places; and whose turn it is to run a suspect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django_redq.broker.calls.call import MAX_SCRIPT_BYTES, Call, Shard, read_delivery, text
from django_redq.broker.delivery import PendingRow
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.state import State

PENDING_SCAN = 250
"""Pending entries that one page looks at."""


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Some pending entries, and where the next page starts (None after the last)."""

    rows: tuple[PendingRow, ...]
    cursor: str | None


def pending_page(
    shard: Shard, *, owner: str = "", min_idle_ms: int = 0, start: str = "-", limit: int = 100
) -> Call[PendingPage]:
    """What ``owner`` holds; without one, what anybody but the suspects' consumer does."""
    keys = shard.keys
    head = (shard.group, owner, SUSPECTS_CONSUMER, min_idle_ms, start)

    def read(reply: Any) -> PendingPage:
        cursor, rows = reply
        return PendingPage(tuple(_pending(shard, *row) for row in rows), text(cursor) or None)

    return Call(
        "pending_page",
        (keys.stream, keys.payload, keys.state, keys.entry, keys.meta),
        (*head, PENDING_SCAN, limit, MAX_SCRIPT_BYTES),
        read,
    )


def _pending(
    shard: Shard, entry_id: bytes, owner: bytes, count: int, there: int, *rest: Any
) -> Any:
    task_id, what, record, state = rest
    kind = b"task" if what == b"here" else what
    delivery = read_delivery(shard, entry_id, task_id, count, kind, record, state)
    return PendingRow(delivery, owner.decode(errors="replace"), there == 1)


def claim(
    shard: Shard,
    consumer: str,
    seen: PendingRow,
    state: State,
    *,
    give_count: int,
    min_idle_ms: int,
) -> Call[bool]:
    """Takes over from a vanished owner; False where it is not as it was seen any more."""
    keys, one = shard.keys, seen.delivery
    token = (seen.owner, one.entry_id, one.count, min_idle_ms)
    park = int(consumer == SUSPECTS_CONSUMER)
    return Call(
        "claim",
        (keys.stream, keys.state, keys.meta),
        (shard.group, consumer, *token, one.task_id, state.encode(), give_count, park),
        lambda reply: reply == 1,
    )


def drop(shard: Shard, entries: Iterable[tuple[str, str]]) -> Call[int]:
    """Removes (owner, entry ID) pairs that stand for no task; how many went."""
    args = [part for entry in entries for part in entry]
    return Call("drop", (shard.keys.stream,), (shard.group, *args), int)


def drop_consumers(shard: Shard, *, name: str = "", min_idle_ms: int = 0) -> Call[list[str]]:
    """Forgets a consumer name, or all that nothing was heard of, where they hold nothing."""
    return Call(
        "drop_consumers",
        (shard.keys.stream,),
        (shard.group, min_idle_ms, name),
        lambda reply: [text(one) for one in reply],
    )


def take_turn(shard: Shard, consumer: str, ttl_ms: int, now: str) -> Call[bool]:
    """Whether this consumer may empty itself for a suspect; ``ttl_ms`` 0 gives the turn back."""
    return Call("take_turn", (shard.keys.meta,), (now, consumer, ttl_ms), lambda r: r == 1)


@dataclass(frozen=True, slots=True)
class Repair:
    """A step of putting back what lost its place."""

    cursor: str
    """'0' when through."""
    put_back: int


def repair(shard: Shard, cursor: str, now: str, *, grace_ms: int, count: int = 20) -> Call[Repair]:
    """Looks at about ``count`` payloads and gives those without a place one."""
    keys = shard.keys
    return Call(
        "repair",
        (
            keys.delay,
            keys.payload,
            keys.state,
            keys.entry,
            keys.stream,
            keys.dlq,
            keys.meta,
            keys.groups,
        ),
        (now, grace_ms, cursor, count, shard.wake, shard.number),
        lambda reply: Repair(text(reply[0]), reply[1]),
    )

"""The engine's verbs: one pure function each says what is sent and how the reply is read.

Nothing here talks to Redis; :mod:`.sync` and :mod:`.aio` run what these functions build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from django_redq.broker.delivery import Delivery, FetchItem, PendingRow
from django_redq.broker.keys import (
    SUSPECTS_CONSUMER,
    ShardKeys,
    due_channel,
    shard_keys,
    wake_channel,
)
from django_redq.broker.state import State, decode_state

ReplyT = TypeVar("ReplyT")

MAX_SCRIPT_TASKS = 500
"""Tasks a script call may handle: 500 enqueued in one took 3 ms, 10,000 took 54 ms."""
MAX_SCRIPT_BYTES = 1024 * 1024
"""Payload bytes a script call may carry either way."""
KEPT_DONE = 10_000
"""Entries a shard of the stream of done tasks, under STREAM_RETENTION keep; about, not exactly."""
KEPT_PAYLOAD_AGE = 7 * 24 * 3600 * 1000
"""How long, in ms, payloads of done tasks stay under PAYLOAD_CLEANUP never."""
PENDING_SCAN = 1000
"""Pending entries that one page looks at."""


@dataclass(frozen=True, slots=True)
class Call(Generic[ReplyT]):
    """A script call ready to be sent, and how its reply is read."""

    script: str
    keys: tuple[str, ...]
    args: tuple[Any, ...]
    read: Callable[[Any], ReplyT]


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of a queue as the calls need it."""

    namespace: str
    queue: str
    number: int
    group: str

    @property
    def keys(self) -> ShardKeys:
        return shard_keys(self.namespace, self.queue, self.number)

    @property
    def wake(self) -> str:
        return wake_channel(self.namespace, self.queue)

    @property
    def due(self) -> str:
        return due_channel(self.namespace, self.queue)


class Settled(IntEnum):
    """What a settling script answers for a task."""

    STALE = 0
    """Somebody else owns it; nothing was changed."""
    DONE = 1
    BEFORE = 2
    """It was settled before, by this call's first try or with the task itself."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked and encoded task on its way in.

    ``when``: '' for now, '+N' for N ms from Redis' now, 'N' for ms since the epoch.
    ``body``: the record without its opening brace, which the script puts in front with the times.
    """

    queue: str
    shard: int
    task_id: str
    when: str
    body: bytes


def clock(now_ms: int | None) -> str:
    """The scripts' ``now``: '' lets Redis read its own clock."""
    return "" if now_ms is None else str(now_ms)


def text(raw: bytes | None) -> str:
    """A name or ID out of Redis; '' for what is missing or no UTF-8, which then stands for nothing."""
    try:
        return raw.decode() if raw else ""
    except UnicodeDecodeError:
        return ""


def read_settled(reply: Sequence[int]) -> list[Settled]:
    return [Settled(one) for one in reply]


def enqueue(shard: Shard, tasks: Iterable[Submission], now: str = "") -> Call[list[bool]]:
    """New tasks in. Reads as: True, it is in; False, another task of this ID exists."""
    keys = shard.keys
    args: list[Any] = [now, shard.wake, shard.due, shard.number]
    for task in tasks:
        args += (task.task_id, task.when, task.body)
    return Call(
        "enqueue",
        (keys.delay, keys.payload, keys.entry, keys.stream),
        tuple(args),
        lambda reply: [one == 1 for one in reply],
    )


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a promote did to a shard. Times are ms since the epoch, by the scripts' clock."""

    held: bool
    """The lease is ours."""
    moved: int
    lapses_in: float | None
    """Where it is not: ms until the other instance's lease lapses."""
    next_due: float | None
    """When the first one left is due; None: nothing is scheduled."""
    now: float


def promote(
    shard: Shard, instance: str, lease_ttl_ms: int, limit: int, now: str
) -> Call[Promotion]:
    """Lease and due tasks of one shard in one step."""
    keys = shard.keys
    return Call(
        "promote",
        (keys.lease, keys.delay, keys.entry, keys.stream),
        (now, instance, lease_ttl_ms, limit, shard.wake, shard.number),
        _promotion,
    )


def _promotion(reply: Any) -> Promotion:
    held, number, next_due, now = reply
    if held == 1:
        return Promotion(
            held=True, moved=number, lapses_in=None, next_due=_due(next_due), now=float(now)
        )
    return Promotion(held=False, moved=0, lapses_in=max(number, 0), next_due=None, now=float(now))


def _due(raw: bytes) -> float | None:
    return float(raw) if raw else None


@dataclass(frozen=True, slots=True)
class Heads:
    """When the first task of each shard is due (None: nothing is scheduled), and what time it is."""

    due: list[float | None]
    now: float


def heads(shards: Sequence[Shard], now: str) -> Call[Heads]:
    """The first due time of each shard."""
    keys = tuple(shard.keys.delay for shard in shards)
    return Call(
        "heads",
        keys,
        (now,),
        lambda reply: Heads([_due(one) for one in reply[1:]], float(reply[0])),
    )


def release_lease(shard: Shard, instance: str) -> Call[bool]:
    """Gives the lease up; False where it was not ours."""
    return Call(
        "lease_release", (shard.keys.lease,), (instance, shard.due, shard.number), lambda r: r == 1
    )


def fetch(
    shards: Sequence[Shard], consumer: str, limit: int, *, alone: bool
) -> Call[list[FetchItem]]:
    """Up to ``limit`` READY tasks of all these shards together.

    ``alone``: the process holds nothing, so a suspect may be handed over (by itself).
    """
    keys: list[str] = []
    for shard in shards:
        of = shard.keys
        keys += (of.stream, of.payload, of.state, of.entry, of.meta)
    groups = (shard.group for shard in shards)
    head = (consumer, SUSPECTS_CONSUMER, limit, MAX_SCRIPT_BYTES, int(alone))
    return Call(
        "fetch",
        tuple(keys),
        (*head, *groups),
        lambda reply: [_fetch_item(shards[at - 1], what, rest) for at, what, rest in reply],
    )


def _fetch_item(shard: Shard, what: bytes, detail: Any) -> FetchItem:
    if what == b"rows":
        rows = tuple(_fetched(shard, *row) for row in detail)
        return FetchItem(shard.queue, shard.number, rows)
    if what == b"suspects":
        return FetchItem(shard.queue, shard.number, parked_for=detail / 1000)
    if what == b"paused":
        return FetchItem(shard.queue, shard.number, paused=True)
    error = detail.decode(errors="replace")
    return FetchItem(shard.queue, shard.number, error=error)


def _fetched(
    shard: Shard,
    entry_id: bytes,
    task_id: bytes,
    count: int,
    what: bytes,
    record: bytes | None,
    state: bytes | None,
) -> Delivery:
    return Delivery(
        shard.queue,
        shard.number,
        text(task_id),
        entry_id.decode(),
        count,
        record,
        decode_state(state),
        what.decode(),
    )


def ack(
    shard: Shard,
    consumer: str,
    done: Iterable[Delivery],
    now: str,
    *,
    retention: str,
    cleanup: str,
) -> Call[list[Settled]]:
    """Tasks that succeeded go."""
    keys = shard.keys
    head = (shard.group, consumer, now, retention, cleanup, KEPT_DONE, KEPT_PAYLOAD_AGE)
    return Call(
        "ack",
        (keys.stream, keys.payload, keys.state, keys.entry, keys.meta, keys.done, keys.kept),
        (*head, *_tokens(done)),
        read_settled,
    )


def _tokens(deliveries: Iterable[Delivery]) -> Iterable[Any]:
    for one in deliveries:
        yield from (one.task_id, one.entry_id, one.count)


def retry(
    shard: Shard, consumer: str, failed: Iterable[tuple[Delivery, int, State]], now: str
) -> Call[list[Settled]]:
    """Failed attempts that get another one, each after its delay in ms, with its new state."""
    keys = shard.keys
    args: list[Any] = [shard.group, consumer, now, shard.wake, shard.due, shard.number]
    for one, delay_ms, state in failed:
        args += (one.task_id, one.entry_id, one.count, delay_ms, state.encode())
    return Call(
        "retry",
        (keys.stream, keys.delay, keys.state, keys.entry, keys.meta),
        tuple(args),
        read_settled,
    )


@dataclass(frozen=True, slots=True)
class Letter:
    """What a dead letter says."""

    reason: str
    kind: str
    error: str
    exception_type: str
    traceback: str
    attempts: int


def dead_letter(
    shard: Shard,
    owner: str,
    dead: Delivery,
    state: State,
    letter: Letter,
    now: str,
    *,
    min_idle_ms: int = 0,
) -> Call[tuple[Settled, str]]:
    """A task that gets no further attempt; ``min_idle_ms`` where it is a vanished owner's.

    Reads as what became of it, and the entry ID of the letter that was written.
    """
    keys = shard.keys
    head = (shard.group, owner, now, min_idle_ms, dead.task_id, dead.entry_id, dead.count)
    words = (letter.reason, letter.kind, letter.error, letter.exception_type, letter.traceback)
    return Call(
        "dead_letter",
        (keys.stream, keys.payload, keys.state, keys.entry, keys.dlq, keys.meta),
        (*head, state.encode(), *words, letter.attempts),
        lambda reply: (Settled(reply[0]), text(reply[1])),
    )


def release(
    shard: Shard, consumer: str, unstarted: Iterable[tuple[Delivery, State | None]]
) -> Call[list[Settled]]:
    """Deliveries handed back unrun, with their new state where it changes."""
    keys = shard.keys
    args: list[Any] = [shard.group, consumer, shard.wake, shard.number]
    for one, state in unstarted:
        args += (one.task_id, one.entry_id, one.count, state.encode() if state else b"")
    return Call("release", (keys.stream, keys.state, keys.entry), tuple(args), read_settled)


class Renewed(IntEnum):
    """What a renewal answers for a task."""

    LOST = 0
    """Somebody else has it."""
    KEPT = 1
    GONE = 2
    """It is settled, or was wiped from Redis."""


def renew(
    shard: Shard, consumer: str, held: Iterable[Delivery], now: str, *, hold_ms: int
) -> Call[list[Renewed]]:
    """Keeps what the consumer holds; ``hold_ms`` is how long a task without entry is kept."""
    keys = shard.keys
    return Call(
        "renew",
        (keys.stream, keys.payload, keys.entry),
        (shard.group, consumer, now, hold_ms, *_tokens(held)),
        lambda reply: [Renewed(one) for one in reply],
    )


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
    delivery = _fetched(shard, entry_id, task_id, count, kind, record, state)
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
        (keys.delay, keys.payload, keys.state, keys.entry, keys.stream, keys.dlq, keys.meta),
        (now, grace_ms, cursor, count, shard.wake, shard.number),
        lambda reply: Repair(text(reply[0]), reply[1]),
    )

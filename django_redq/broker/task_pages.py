"""Lists the tasks of a queue by state: over all shards, in order, without their payloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django_redq.broker.calls import Call, Shard, text
from django_redq.broker.inspector import run, run_all, run_some
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.sync import Broker
from django_redq.task import TaskState

_HEAD = re.compile(
    rb'{"at":(\d{1,15})(?=[,}])(?:,"due":(\d{1,15}))?(?:,"kind":"([A-Za-z0-9_.-]*)")?'
)
"""The start of a record, as ``lua/enqueue.lua`` and the codec write it."""
_DUE = re.compile(r"-?(\d{1,30}(\.\d{1,30})?(e[+-]?\d{1,3})?|inf)", re.ASCII)
"""A score as Redis takes it: somebody else may have written any."""
_ENTRY = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Row:
    """One task on a page."""

    shard: Shard
    task_id: str
    order: tuple[Any, ...]
    """Where it comes among all: (ms, sequence, shard) of its entry, or (due, ID)."""
    at: int | None
    """When it was enqueued, ms since the epoch."""
    kind: str
    attempts: int
    due: float | None = None
    """ms since the epoch (SCHEDULED)."""
    consumer: str = ""
    idle: int | None = None
    """ms since it was renewed (RUNNING)."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks of a state."""

    rows: tuple[Row, ...]
    cursor: str | None
    """Where the next page starts; None: this is the last one."""
    unreachable: tuple[int, ...]


Ask = Callable[[Shard, str | None, int], Call[list[Row]]]
"""Builds the call for the first rows of a shard behind a cursor, so many at most."""


def read_page(
    broker: Broker,
    shards: Sequence[Shard],
    state: TaskState,
    after: str | None,
    count: int,
    *,
    partial: bool,
) -> Page:
    """The next ``count`` tasks of this state behind the cursor ``after``.

    Raises:
        ValueError: this is no cursor of such a page.
        redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard does.
    """
    replies = _ask_all(broker, shards, _ASK[state], after, count + 1, partial=partial)
    rows = _in_order(replies)
    shown = tuple(rows[:count])
    return Page(
        shown,
        _cursor(shown[-1]) if len(rows) > count else None,
        tuple(
            shard.number
            for shard, reply in zip(shards, replies, strict=True)
            if isinstance(reply, Exception)
        ),
    )


def _ask_all(
    broker: Broker,
    shards: Sequence[Shard],
    ask: Ask,
    after: str | None,
    count: int,
    *,
    partial: bool,
) -> list[Any]:
    """The first rows of each shard, enough of them to know the first ``count`` of all.

    Tasks are spread evenly, so each shard is asked for few; who has more of the first is asked again.
    """
    few = min(count, 4 + 2 * count // len(shards))
    replies = run(broker, [ask(shard, after, few) for shard in shards], partial=partial)
    last = _in_order(replies)[count - 1 : count]
    again = [
        at
        for at, reply in enumerate(replies)
        if not isinstance(reply, Exception)
        and len(reply) == few < count
        and not (last and reply[-1].order > last[0].order)
    ]
    rest = [ask(shards[at], after, count) for at in again]
    more = run_some(broker, rest) if partial else run_all(broker, rest)
    for at, reply in zip(again, more, strict=True):
        replies[at] = reply
    return replies


def _in_order(replies: Iterable[Any]) -> list[Row]:
    rows = (row for reply in replies if not isinstance(reply, Exception) for row in reply)
    return sorted(rows, key=lambda row: row.order)


def _cursor(row: Row) -> str:
    if row.due is not None:
        # All the digits that a score can have, and whatever bytes somebody took for an ID.
        return f"{row.due:.17g}:{quote_from_bytes(row.order[1])}"
    ms, sequence, shard = row.order
    return f"{ms}-{sequence}.{shard}"


def _scheduled(shard: Shard, after: str | None, count: int) -> Call[list[Row]]:
    keys = shard.keys
    due, _, task_id = (after or "").partition(":")
    if after is not None and not (_DUE.fullmatch(due) and task_id):
        raise ValueError(f"{after!r:.80} is no cursor of scheduled tasks")
    return Call(
        "scheduled_page",
        (keys.delay, keys.payload, keys.state),
        (due, unquote_to_bytes(task_id), count),
        lambda reply: [_scheduled_row(shard, *row) for row in reply],
    )


def _scheduled_row(shard: Shard, raw_id: bytes, due: bytes, head: bytes, attempts: bytes) -> Row:
    moment = float(due)
    return _row(shard, raw_id, (moment, raw_id), head, attempts, due=moment)


def _row(
    shard: Shard, raw_id: bytes, order: tuple[Any, ...], head: bytes, attempts: bytes, **more: Any
) -> Row:
    found = _HEAD.match(head)
    return Row(
        shard=shard,
        task_id=text(raw_id),
        order=order,
        at=int(found[1]) if found else None,
        kind=found[3].decode() if found and found[3] else "",
        attempts=int(attempts[:15]) + more.pop("deliveries", 0),
        **more,
    )


def _entries(script: str) -> Ask:
    """Builds the call of a page that goes by entry IDs."""

    def ask(shard: Shard, after: str | None, count: int) -> Call[list[Row]]:
        keys = shard.keys
        return Call(
            script,
            (keys.payload, keys.state, keys.stream),
            (shard.group, SUSPECTS_CONSUMER, _entry_before(shard, after), count),
            lambda reply: [_entry_row(shard, *row) for row in reply if row],
        )

    return ask


def _entry_before(shard: Shard, after: str | None) -> str:
    """The entry ID behind which this shard goes on, as the scripts want it."""
    if after is None:
        return "0-0"
    entry_id, _, number = after.partition(".")
    found = _ENTRY.fullmatch(entry_id)
    if found is None or not (number.isascii() and number.isdigit() and len(number) <= 4):
        raise ValueError(f"{after!r:.80} is no cursor of tasks")
    ms, sequence = int(found[1]), int(found[2])
    if shard.number > int(number):
        # At the same ms and sequence the shard's number decides: this one's is still to come.
        return f"{ms}-{sequence - 1}" if sequence else f"{max(ms - 1, 0)}-{2**63}"
    return entry_id


def _entry_row(
    shard: Shard,
    raw_id: bytes,
    entry_id: bytes,
    head: bytes,
    attempts: bytes,
    consumer: bytes = b"",
    idle: int | None = None,
    deliveries: int = 0,
) -> Row:
    ms, _, sequence = entry_id.decode().partition("-")
    order = (int(ms), int(sequence), shard.number)
    about = {"consumer": text(consumer), "idle": idle, "deliveries": deliveries}
    return _row(shard, raw_id, order, head, attempts, **about)


_ASK: dict[TaskState, Ask] = {
    TaskState.SCHEDULED: _scheduled,
    TaskState.READY: _entries("ready_page"),
    TaskState.RUNNING: _entries("running_page"),
}

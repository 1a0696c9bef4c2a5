"""What a call is, and what every verb needs to build one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django_redq.broker.delivery import Delivery
from django_redq.broker.keys import ShardKeys, due_channel, shard_keys, wake_channel
from django_redq.broker.state import decode_state

ReplyT = TypeVar("ReplyT")

MAX_SCRIPT_TASKS = 500
"""Tasks a script call may handle: 500 enqueued in one took 3 ms, 10,000 took 54 ms."""
MAX_SCRIPT_BYTES = 1024 * 1024
"""Payload bytes a script call may carry either way."""


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


def read_delivery(
    shard: Shard,
    entry_id: bytes,
    task_id: bytes,
    count: int,
    what: bytes,
    record: bytes | None,
    state: bytes | None,
) -> Delivery:
    """A row of a fetch or of a page of pending entries."""
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

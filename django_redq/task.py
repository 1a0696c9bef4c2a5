"""The values that callers and handlers see, task IDs, and the rule for names."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from django_redq.errors import InvalidArgument
from django_redq.outcome import Failure

PayloadT = TypeVar("PayloadT")

NAME_RULE = "a letter or digit, then up to 127 letters, digits, '_', '.' or '-'"
TASK_ID_RULE = "1 to 256 printable characters, without whitespace and braces"
MAX_TASK_ID = 256

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def is_name(value: object) -> bool:
    """Whether ``value`` may name a queue, group, consumer, kind or namespace."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_task_id(text: str) -> bool:
    """Whether ``text`` is as :data:`TASK_ID_RULE` says."""
    return (
        1 <= len(text) <= MAX_TASK_ID
        and text.isprintable()
        and not any(char.isspace() or char in "{}" for char in text)
    )


def check_task_id(value: object) -> str:
    """The task ID as plain str.

    Raises:
        InvalidArgument: it breaks :data:`TASK_ID_RULE`.
    """
    if not isinstance(value, str):
        raise InvalidArgument("task_id", f"must be text: {TASK_ID_RULE}; got {value!r:.80}")
    plain = str.__str__(value)
    if not is_task_id(plain):
        raise InvalidArgument("task_id", f"must be {TASK_ID_RULE}; got {plain!r:.80}")
    return plain


def new_task_id() -> str:
    """A UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix time in ms, then 74 random bits."""
    value = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


class TaskState(StrEnum):
    """Where a task is. A finished task is nowhere: nothing of it is left."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    DEAD = "dead"


class Ownership:
    """Whether the consumer still holds a task; shared by the task and whoever renews it."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[PayloadT]):
    """A task as its handler sees it."""

    id: str
    queue: str
    kind: str
    """Routes within the queue; empty when the queue has one kind of task."""
    payload: PayloadT
    run_at: datetime
    """When it was due, in UTC."""
    enqueued_at: datetime
    """When Redis accepted it, in UTC, by Redis' clock."""
    max_attempts: int
    """How many runs it gets before it is dead."""
    attempt: int
    """This run, from 1. Runs whose worker was lost count."""
    idempotency_key: str = ""
    """Carried for the handler's own use; the engine does not look at it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    last_error: Failure | None = None
    """How the attempt before this one failed, where that is known."""
    _ownership: Ownership = field(default_factory=Ownership, repr=False, compare=False)

    @property
    def lost(self) -> bool:
        """True once another consumer may have taken this task over: what is done now may be done
        twice. A long handler can look at it between steps.
        """
        return self._ownership.lost


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of :func:`enqueue_many`; the fields are the arguments of :func:`enqueue`."""

    payload: Any
    _: KW_ONLY
    delay: float | timedelta | None = None
    run_at: datetime | None = None
    task_id: str | None = None
    kind: str = ""
    max_attempts: int | None = None
    idempotency_key: str = ""
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """What became of an :func:`enqueue`."""

    task_id: str
    queue: str
    shard: int
    duplicate: bool | None
    """True when a task of this ID was there already and stays as it was; None while the call waits
    for a commit (ask :func:`get_task`)."""


@dataclass(frozen=True, slots=True)
class CancelResult:
    """What became of a :func:`cancel`."""

    task_id: str
    queue: str
    shard: int
    canceled: bool
    """True when the task was SCHEDULED or READY and is gone now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """Where a task is and what has happened to it so far."""

    task_id: str
    queue: str
    shard: int
    state: TaskState
    task: Task[Any] | None
    """The task as a handler would get it without typed payload; None where it does not decode."""
    run_at: datetime | None
    """When it is due (SCHEDULED), in UTC; else None."""
    attempts: int
    """Runs begun so far."""
    worker_lost: bool
    """Whether a worker vanished while it held this task."""
    errors: tuple[Failure, ...]
    """The last failures, oldest first."""
    consumer: str | None
    """Who runs it (RUNNING); else None."""

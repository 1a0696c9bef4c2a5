"""From the arguments of a call to a task that is checked and encoded; nothing is sent here."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, TypeVar

from django_redq.broker.calls import Submission
from django_redq.broker.keys import shard_of
from django_redq.codec import encode_body
from django_redq.conf import QueueConfig, rules, to_epoch_ms
from django_redq.errors import InvalidArgument
from django_redq.task import TaskSpec, check_task_id, new_task_id

ValueT = TypeVar("ValueT")

Clock = Callable[[], float]
"""Seconds since the epoch, as ``time.time``."""
IdGenerator = Callable[[], str]
Mode = Literal["on_commit", "immediate"]


class HandlerOptions(TypedDict, total=False):
    """What may be said about a task beside its payload and kind; see :func:`enqueue`."""

    delay: float | timedelta | None
    run_at: datetime | None
    task_id: str | None
    max_attempts: int | None
    idempotency_key: str
    metadata: Mapping[str, str] | None


class TaskOptions(HandlerOptions, total=False):
    """What may be said about a task beside its payload."""

    kind: str


class SendOptions(TypedDict, total=False):
    """When the task is sent; see :func:`enqueue`."""

    mode: Mode | None
    using: str


class EnqueueOptions(TaskOptions, SendOptions, total=False):
    """All the keyword arguments of :func:`enqueue`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that is ready to be sent, now or after the commit."""

    queue: str
    shard: int
    task_id: str
    kind: str
    body: bytes
    delay: float
    """Seconds from the call."""
    run_at: int | None
    """ms since the epoch; takes the place of ``delay``."""
    called_at: float
    """When the call was, by the monotonic clock."""
    now: Clock | None
    """The producer's clock; None: Redis' own."""

    def submission(self) -> Submission:
        """What goes to Redis at this moment: of the delay, what is left of it."""
        return Submission(self.queue, self.shard, self.task_id, self._when(), self.body)

    def _when(self) -> str:
        if self.run_at is not None:
            return str(self.run_at)
        left = self.delay - (time.monotonic() - self.called_at)
        # Rounded up: a task is never early.
        return f"+{math.ceil(left * 1000)}" if self.delay and left > 0 else ""


def check(field: str, rule: Callable[[Any], ValueT], value: object) -> ValueT:
    """The value as the rule returns it.

    Raises:
        InvalidArgument: it breaks the rule.
    """
    try:
        return rule(value)
    except rules.RuleError as error:
        path, reason = error.faults[0]
        raise InvalidArgument(field + path, reason) from None


_mode = rules.one_of("on_commit", "immediate")
# A second less than the longest duration of all makes the message name both ends.
_delay = rules.duration(0, rules.LONGEST - 1)
_max_attempts = rules.optional(rules.whole(1))


def check_mode(mode: object) -> str | None:
    return None if mode is None else check("mode", _mode, mode)


def check_kind(kind: object) -> str:
    """The kind as plain text; '' is none."""
    return "" if isinstance(kind, str) and not kind else check("kind", rules.name, kind)


def check_max_attempts(value: object) -> int | None:
    checked: int | None = check("max_attempts", _max_attempts, value)
    return checked


def prepare(
    queue: QueueConfig,
    spec: TaskSpec,
    *,
    id_generator: IdGenerator | None = None,
    now: Clock | None = None,
) -> Prepared:
    """Checks and encodes one task.

    Args:
        queue: the settings of its queue.
        spec: what the caller wants.
        id_generator: makes the ID where the caller gives none; None: UUIDv7.
        now: carried along.

    Raises:
        InvalidArgument: naming the argument, and the path inside it.
    """
    called_at = time.monotonic()
    delay, run_at = _due(spec)
    task_id, nonce = _identity(spec.task_id, id_generator)
    kind = check_kind(spec.kind)
    body = encode_body(
        payload=spec.payload,
        kind=kind,
        max_attempts=check_max_attempts(spec.max_attempts),
        idempotency_key=spec.idempotency_key,
        metadata=spec.metadata,
        nonce=nonce,
        limit=queue.max_payload_bytes,
    )
    shard = shard_of(task_id, queue.shards)
    return Prepared(queue.name, shard, task_id, kind, body, delay, run_at, called_at, now)


def prepare_many(
    queue: QueueConfig,
    specs: Iterable[TaskSpec],
    *,
    id_generator: IdGenerator | None = None,
    now: Clock | None = None,
) -> list[Prepared]:
    """Checks and encodes them all.

    Raises:
        InvalidArgument: for the first that is wrong, naming it as in ``tasks[3].delay``.
    """
    if isinstance(specs, TaskSpec | Mapping | str) or not isinstance(specs, Iterable):
        raise InvalidArgument("tasks", f"must be a list of TaskSpec, got {rules.show(specs)}")
    tasks = []
    for position, spec in enumerate(specs):
        if not isinstance(spec, TaskSpec):
            raise InvalidArgument(
                f"tasks[{position}]", f"must be a TaskSpec, got {rules.show(spec)}"
            )
        try:
            tasks.append(prepare(queue, spec, id_generator=id_generator, now=now))
        except InvalidArgument as error:
            error.put_inside(f"tasks[{position}]")
            raise
    return tasks


def _due(spec: TaskSpec) -> tuple[float, int | None]:
    if spec.run_at is None:
        return (0.0 if spec.delay is None else check("delay", _delay, spec.delay)), None
    if spec.delay is not None:
        raise InvalidArgument("run_at", "cannot be given together with delay; choose one")
    return 0.0, to_epoch_ms(spec.run_at)


def _identity(task_id: object, id_generator: IdGenerator | None) -> tuple[str, str]:
    """The ID, and the nonce by which a resend of this call is told from a second call.

    What we make up ourselves nobody else has, so it needs none.
    """
    if task_id is None and id_generator is None:
        return new_task_id(), ""
    if task_id is None and id_generator is not None:
        task_id = id_generator()
    return check_task_id(task_id), os.urandom(8).hex()

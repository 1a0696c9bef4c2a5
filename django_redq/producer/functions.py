"""What an application calls: a thin face on :class:`Producer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Unpack

from django_redq.producer.arguments import EnqueueOptions, Mode
from django_redq.producer.producer import Producer
from django_redq.task import CancelResult, EnqueueResult, TaskInfo, TaskSpec


def enqueue(
    queue: str,
    payload: Any,
    *,
    delay: float | timedelta | None = None,
    run_at: datetime | None = None,
    task_id: str | None = None,
    kind: str = "",
    max_attempts: int | None = None,
    idempotency_key: str = "",
    metadata: Mapping[str, str] | None = None,
    mode: Mode | None = None,
    using: str = "default",
) -> EnqueueResult:
    """Hands a task over, after the commit of the transaction that is open.

    Args:
        queue: one of ``REDQ["QUEUES"]``.
        payload: what the handler gets: anything that JSON has, and dataclasses, msgspec Structs,
            dates and times, Decimal, UUID, Enum.
        delay: seconds or timedelta from this call on; not together with ``run_at``.
        run_at: when it is due; aware under USE_TZ. A past one means now.
        task_id: while a task of this ID is in Redis, dead or alive, another one changes nothing
            and is told as a duplicate; None makes a UUIDv7.
        kind: routes to the handler of this kind.
        max_attempts: N means N runs, then it is dead; None leaves it to the handler or the queue.
        idempotency_key: carried for the handler's own use.
        metadata: text to text, carried for the handler's own use.
        mode: ``"on_commit"`` or ``"immediate"``; None: as ``ENQUEUE_MODE`` says.
        using: the database whose transaction ``on_commit`` waits for.

    Raises:
        UnknownQueue: there is no such queue.
        InvalidArgument: an argument breaks its rule; ``field`` names it, and the path inside it.
        PayloadTooLarge: the task takes more bytes than the queue allows.
        TransactionManagementError: it would wait for a commit, and autocommit is off.
        redis.RedisError: Redis did not accept it. What is sent by a commit hook raises
            :class:`EnqueueFailed` from there.
        SynchronousOnlyOperation: called on a running event loop; await :func:`aenqueue`.
    """
    return Producer(queue).enqueue(
        payload,
        delay=delay,
        run_at=run_at,
        task_id=task_id,
        kind=kind,
        max_attempts=max_attempts,
        idempotency_key=idempotency_key,
        metadata=metadata,
        mode=mode,
        using=using,
    )


async def aenqueue(queue: str, payload: Any, **options: Unpack[EnqueueOptions]) -> EnqueueResult:
    """As :func:`enqueue`, from async code, with the same keyword arguments."""
    return await Producer(queue).aenqueue(payload, **options)


def enqueue_many(
    queue: str,
    tasks: Iterable[TaskSpec],
    *,
    mode: Mode | None = None,
    using: str = "default",
) -> list[EnqueueResult]:
    """Hands many tasks over in one round trip.

    All are checked before the first is sent. Each is tried, even where another fails; then the
    first failure is raised, with a note that names the tasks. With ``task_id`` given, the whole
    call can be made again.

    Args:
        queue: one of ``REDQ["QUEUES"]``.
        tasks: what would be the arguments of one :func:`enqueue` each.
        mode: as of :func:`enqueue`.
        using: as of :func:`enqueue`.

    Raises:
        InvalidArgument: naming the task too, as in ``tasks[3].delay``.
        Exception: as of :func:`enqueue`.
    """
    return Producer(queue).enqueue_many(tasks, mode=mode, using=using)


async def aenqueue_many(
    queue: str,
    tasks: Iterable[TaskSpec],
    *,
    mode: Mode | None = None,
    using: str = "default",
) -> list[EnqueueResult]:
    """As :func:`enqueue_many`, from async code."""
    return await Producer(queue).aenqueue_many(tasks, mode=mode, using=using)


def cancel(queue: str, task_id: str) -> CancelResult:
    """Takes a task that is SCHEDULED or READY out of the queue; one that is RUNNING goes on.

    A task that still waits for a commit is not in Redis, and cannot be taken out.

    Raises:
        UnknownQueue: there is no such queue.
        InvalidArgument: this is no task ID.
        redis.RedisError: Redis did not answer.
    """
    return Producer(queue).cancel(task_id)


async def acancel(queue: str, task_id: str) -> CancelResult:
    """As :func:`cancel`, from async code."""
    return await Producer(queue).acancel(task_id)


def get_task(queue: str, task_id: str) -> TaskInfo | None:
    """Where a task is and what happened to it; None: it is done, or never was, or was cancelled.

    Raises:
        UnknownQueue: there is no such queue.
        InvalidArgument: this is no task ID.
        redis.RedisError: Redis did not answer.
    """
    return Producer(queue).get_task(task_id)


async def aget_task(queue: str, task_id: str) -> TaskInfo | None:
    """As :func:`get_task`, from async code."""
    return await Producer(queue).aget_task(task_id)

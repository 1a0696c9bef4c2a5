"""The class under :func:`enqueue` and its siblings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from asgiref.sync import sync_to_async

from django_redq.broker.aio import get_async_broker
from django_redq.broker.keys import shard_of
from django_redq.broker.sync import get_broker
from django_redq.conf import get_config
from django_redq.conf.rules import show
from django_redq.errors import InvalidArgument
from django_redq.producer.arguments import (
    Clock,
    IdGenerator,
    Mode,
    Prepared,
    TaskOptions,
    check_mode,
    prepare,
    prepare_many,
)
from django_redq.producer.lookup import task_info
from django_redq.producer.on_commit import wait_for_commit
from django_redq.producer.sending import asend, result, results, send
from django_redq.task import CancelResult, EnqueueResult, TaskInfo, TaskSpec, check_task_id
from django_redq.twins import blocks


class Producer:
    """Hands tasks over to one queue.

    Args:
        queue: its name.
        id_generator: makes task IDs; None: UUIDv7.
        now: seconds since the epoch, what Redis takes for the time when a task comes in; None: it
            looks at its own clock.

    Raises:
        UnknownQueue: ``REDQ`` has no such queue.
    """

    def __init__(
        self,
        queue: str,
        *,
        id_generator: IdGenerator | None = None,
        now: Clock | None = None,
    ) -> None:
        for name, value in {"id_generator": id_generator, "now": now}.items():
            if value is not None and not callable(value):
                raise InvalidArgument(name, f"must be a callable, got {show(value)}")
        self.queue = get_config().queue(queue)
        self._id_generator = id_generator
        self._now = now

    @blocks
    def enqueue(
        self,
        payload: Any,
        *,
        mode: Mode | None = None,
        using: str = "default",
        **options: Unpack[TaskOptions],
    ) -> EnqueueResult:
        """As :func:`django_redq.enqueue`."""
        return self._hand_over([self._prepare(payload, options)], mode, using)[0]

    async def aenqueue(
        self,
        payload: Any,
        *,
        mode: Mode | None = None,
        using: str = "default",
        **options: Unpack[TaskOptions],
    ) -> EnqueueResult:
        """As :func:`django_redq.aenqueue`."""
        return (await self._ahand_over([self._prepare(payload, options)], mode, using))[0]

    @blocks
    def enqueue_many(
        self, tasks: Iterable[TaskSpec], *, mode: Mode | None = None, using: str = "default"
    ) -> list[EnqueueResult]:
        """As :func:`django_redq.enqueue_many`."""
        return self._hand_over(self._prepare_many(tasks), mode, using)

    async def aenqueue_many(
        self, tasks: Iterable[TaskSpec], *, mode: Mode | None = None, using: str = "default"
    ) -> list[EnqueueResult]:
        """As :func:`django_redq.aenqueue_many`."""
        return await self._ahand_over(self._prepare_many(tasks), mode, using)

    @blocks
    def cancel(self, task_id: str) -> CancelResult:
        """As :func:`django_redq.cancel`."""
        plain = check_task_id(task_id)
        return self._canceled(plain, canceled=get_broker().cancel(self.queue.name, plain))

    async def acancel(self, task_id: str) -> CancelResult:
        """As :func:`django_redq.acancel`."""
        plain = check_task_id(task_id)
        canceled = await get_async_broker().cancel(self.queue.name, plain)
        return self._canceled(plain, canceled=canceled)

    @blocks
    def get_task(self, task_id: str) -> TaskInfo | None:
        """As :func:`django_redq.get_task`."""
        plain = check_task_id(task_id)
        found = get_broker().inspect(self.queue.name, plain)
        return None if found is None else task_info(self.queue, plain, found)

    async def aget_task(self, task_id: str) -> TaskInfo | None:
        """As :func:`django_redq.aget_task`."""
        plain = check_task_id(task_id)
        found = await get_async_broker().inspect(self.queue.name, plain)
        return None if found is None else task_info(self.queue, plain, found)

    def _prepare(self, payload: Any, options: TaskOptions) -> Prepared:
        spec = TaskSpec(payload=payload, **options)
        return prepare(self.queue, spec, id_generator=self._id_generator, now=self._now)

    def _prepare_many(self, tasks: Iterable[TaskSpec]) -> list[Prepared]:
        return prepare_many(self.queue, tasks, id_generator=self._id_generator, now=self._now)

    def _waits(self, mode: Mode | None) -> bool:
        return (check_mode(mode) or self.queue.enqueue_mode) == "on_commit"

    def _hand_over(
        self, tasks: list[Prepared], mode: Mode | None, using: str
    ) -> list[EnqueueResult]:
        if not tasks:
            return []
        if self._waits(mode) and wait_for_commit(tasks, using):
            return [result(task, duplicate=None) for task in tasks]
        return results(tasks, send(tasks))

    async def _ahand_over(
        self, tasks: list[Prepared], mode: Mode | None, using: str
    ) -> list[EnqueueResult]:
        if self._waits(mode):
            # The thread of the caller's transaction is the only place where it can be seen.
            return await sync_to_async(self._hand_over, thread_sensitive=True)(tasks, mode, using)
        return results(tasks, await asend(tasks)) if tasks else []

    def _canceled(self, task_id: str, *, canceled: bool) -> CancelResult:
        shard = shard_of(task_id, self.queue.shards)
        return CancelResult(task_id, self.queue.name, shard, canceled)

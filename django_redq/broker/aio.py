"""The verbs that a web request awaits, on an asyncio client kept per running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import redis
import redis.asyncio

from django_redq.broker import faults, operator_calls
from django_redq.broker.calls import Call, Shard, Submission
from django_redq.broker.connection import make_async_client
from django_redq.broker.keys import shard_of
from django_redq.broker.operator_calls import Snapshot
from django_redq.broker.sync import (
    check_layout,
    command_of,
    enqueue_calls,
    full_command_of,
    shard_for,
    spread_replies,
)
from django_redq.broker.wire import Command
from django_redq.conf import Config, QueueConfig, get_config

ReplyT = TypeVar("ReplyT")


class AsyncBroker:
    """As :class:`django_redq.broker.sync.Broker`, for one event loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.client = make_async_client(config.connection)
        client: object = self.client
        self._cluster = client if isinstance(client, redis.asyncio.RedisCluster) else None
        self._starting = asyncio.Lock()
        self._opened: set[str] = set()

    async def run(self, call: Call[ReplyT]) -> ReplyT:
        """One call, one round trip."""
        (reply,) = await self.run_many([call])
        if isinstance(reply, Exception):
            raise reply
        return cast("ReplyT", reply)

    async def run_many(self, batch: Sequence[Call[Any]]) -> list[Any]:
        """Many calls, one round trip; an exception in the place of a call that failed."""
        replies = await self._exchange([command_of(call) for call in batch])
        for at, reply in enumerate(replies):
            if isinstance(reply, redis.exceptions.NoScriptError):
                (replies[at],) = await self._exchange([full_command_of(batch[at])])
        return [
            reply if isinstance(reply, Exception) else call.read(reply)
            for call, reply in zip(batch, replies, strict=True)
        ]

    async def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        if self._cluster is not None:
            return await self._ask_nodes(self._cluster, commands)
        async with self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            replies: list[Any] = await pipe.execute(raise_on_error=False)
        if any(map(faults.wants_new_connection, replies)):
            await self.client.connection_pool.disconnect(inuse_connections=False)
        return replies

    async def _ask_nodes(
        self, cluster: redis.asyncio.RedisCluster, commands: Sequence[Command]
    ) -> list[Any]:
        """Each by itself: redis-py's pipeline fails as a whole, and does not learn who took over."""
        # What is sent while it gets to know the nodes loses its connection.
        async with self._starting:
            await cluster.initialize()
        return await asyncio.gather(
            *(cluster.execute_command(*command) for command in commands), return_exceptions=True
        )

    async def open(self, queue: QueueConfig) -> None:
        """Compares the queue's settings with Redis once a loop."""
        if queue.name not in self._opened:
            first = shard_for(self.config, queue, 0)
            check_layout(queue, await self.run(operator_calls.declare(first, queue.shards)))
            self._opened.add(queue.name)

    async def enqueue(
        self, submissions: Sequence[Submission], now_ms: int | None = None
    ) -> list[bool | Exception]:
        """New tasks in, in one round trip; for each True (in), False (a duplicate) or its error."""
        for name in {task.queue for task in submissions}:
            await self.open(self.config.queue(name))
        planned = list(enqueue_calls(self.config, submissions, now_ms))
        replies = await self.run_many([call for _, call in planned])
        return spread_replies(len(submissions), [part for part, _ in planned], replies)

    async def cancel(self, queue: str, task_id: str) -> bool:
        """Takes a SCHEDULED or READY task out."""
        return await self.run(operator_calls.cancel(await self._shard_of(queue, task_id), task_id))

    async def inspect(self, queue: str, task_id: str) -> Snapshot | None:
        """Where a task is; None where there is none of this ID."""
        return await self.run(operator_calls.inspect(await self._shard_of(queue, task_id), task_id))

    async def _shard_of(self, queue: str, task_id: str) -> Shard:
        settings = self.config.queue(queue)
        await self.open(settings)
        return shard_for(self.config, settings, shard_of(task_id, settings.shards))


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncBroker] = WeakKeyDictionary()


def get_async_broker() -> AsyncBroker:
    """The running loop's broker for the configuration as it is now."""
    loop, config = asyncio.get_running_loop(), get_config()
    broker = _by_loop.get(loop)
    if broker is None or broker.config is not config:
        broker = _by_loop[loop] = AsyncBroker(config)
    return broker

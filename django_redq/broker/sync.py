"""Runs the calls on a blocking client, one or many in a round trip."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import redis

from django_redq.broker import calls, faults, operator_calls
from django_redq.broker.alias import resolve
from django_redq.broker.calls import Call, Shard, Submission
from django_redq.broker.cluster import ClusterWire
from django_redq.broker.connection import make_client
from django_redq.broker.delivery import FetchItem
from django_redq.broker.keys import shard_of
from django_redq.broker.operator_calls import Snapshot
from django_redq.broker.scripts import script
from django_redq.broker.wire import Command, ServerWire, Wire
from django_redq.conf import Config, ConnectionConfig, QueueConfig, get_config
from django_redq.errors import ConfigurationError

ReplyT = TypeVar("ReplyT")


def command_of(call: Call[Any]) -> Command:
    """The call by the script's SHA."""
    return ("EVALSHA", script(call.script).sha, len(call.keys), *call.keys, *call.args)


def full_command_of(call: Call[Any]) -> Command:
    """The call with the whole script: for a server that does not know it (any more)."""
    return ("EVAL", script(call.script).source, len(call.keys), *call.keys, *call.args)


def shard_for(config: Config, queue: QueueConfig, number: int) -> Shard:
    return Shard(config.namespace, queue.name, number, queue.group)


def shards_for(config: Config, queue: QueueConfig) -> list[Shard]:
    """All shards of a queue."""
    return [shard_for(config, queue, number) for number in range(queue.shards)]


def check_layout(queue: QueueConfig, stands: operator_calls.Declared) -> None:
    """Compares a queue's settings with what Redis says of it.

    Raises:
        ConfigurationError: they disagree; both values and the way out are named.
    """
    wanted = (operator_calls.LAYOUT, str(queue.shards), queue.group)
    found = (stands.layout, stands.shards, stands.group)
    names = ("layout version", "SHARDS", "GROUP")
    faults_found = [
        f"queue {queue.name!r}: its {name} is {mine!r} here and {theirs!r:.80} in Redis. "
        "Set it back, or drain the queue and delete its keys before changing it"
        for name, mine, theirs in zip(names, wanted, found, strict=True)
        if mine != theirs
    ]
    if faults_found:
        raise ConfigurationError(*faults_found)


def enqueue_calls(
    config: Config, submissions: Sequence[Submission], now_ms: int | None
) -> Iterator[tuple[list[int], Call[list[bool]]]]:
    """The script calls for these tasks, each with the positions it covers; bounded in size."""
    by_shard: dict[tuple[str, int], list[int]] = defaultdict(list)
    for position, task in enumerate(submissions):
        by_shard[task.queue, task.shard].append(position)
    for (queue, number), positions in by_shard.items():
        shard = shard_for(config, config.queue(queue), number)
        for part in _bounded(submissions, positions):
            tasks = (submissions[position] for position in part)
            yield part, calls.enqueue(shard, tasks, calls.clock(now_ms))


def _bounded(submissions: Sequence[Submission], positions: list[int]) -> Iterator[list[int]]:
    part: list[int] = []
    size = 0
    for position in positions:
        length = len(submissions[position].body)
        full = len(part) == calls.MAX_SCRIPT_TASKS or size + length > calls.MAX_SCRIPT_BYTES
        if part and full:
            yield part
            part, size = [], 0
        part.append(position)
        size += length
    if part:
        yield part


def make_wire(connection: ConnectionConfig) -> Wire:
    """What carries commands to where the settings say.

    Raises:
        ConfigurationError: the cache alias does not lead to a server.
    """
    resolved = resolve(connection)
    if resolved.kind != "cluster":
        return ServerWire(make_client(resolved))

    def make_listener(host: str, port: int) -> redis.Redis:
        return make_client(replace(resolved, kind="url", host=host, port=port))

    return ClusterWire(lambda: make_client(resolved), make_listener)


class Broker:
    """The engine's verbs on one server or Cluster, over connections of its own."""

    def __init__(self, config: Config, wire: Wire | None = None) -> None:
        self.config = config
        self._wire = wire or make_wire(config.connection)
        self.spans_shards = self._wire.spans_shards
        """Whether one script may touch several shards; found out by trying."""
        self._opened: set[tuple[str, int, str]] = set()

    @property
    def client(self) -> redis.Redis:
        """redis-py's client, for what needs no script.

        Raises:
            redis.RedisError: no node of a Cluster answers.
        """
        return self._wire.client

    def listening_client(self) -> redis.Redis:
        """Whom to ask for the hints that are published.

        Raises:
            redis.RedisError: no node of a Cluster answers.
        """
        return self._wire.listening_client()

    def watch(self, on_back: Callable[[], None]) -> Callable[[], None]:
        """Has ``on_back`` called when a node that was away, or another server in its place, is there;
        what ends that.
        """
        return self._wire.watch(on_back)

    def run(self, call: Call[ReplyT]) -> ReplyT:
        """One call, one round trip.

        Raises:
            redis.RedisError: what redis-py raises; nothing is sent again by us.
        """
        (reply,) = self.run_many([call])
        if isinstance(reply, Exception):
            raise reply
        return cast("ReplyT", reply)

    def run_many(self, batch: Sequence[Call[Any]]) -> list[Any]:
        """Many calls, one round trip; in order, an exception in the place of a call that failed.

        Raises:
            redis.RedisError: the round trip itself failed; which calls were done is not known. Of a
                Cluster's nodes all are away then; in the place of calls to one stands
                :class:`faults.Away`.
        """
        replies = self._exchange([command_of(call) for call in batch])
        unknown = [
            at
            for at, reply in enumerate(replies)
            if isinstance(reply, redis.exceptions.NoScriptError)
        ]
        if unknown:
            again = self._exchange([full_command_of(batch[at]) for at in unknown])
            for at, reply in zip(unknown, again, strict=True):
                replies[at] = reply
        return [
            reply if isinstance(reply, Exception) else call.read(reply)
            for call, reply in zip(batch, replies, strict=True)
        ]

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        return self._wire.exchange(commands) if commands else []

    def open(self, queue: QueueConfig) -> None:
        """Compares the queue's settings with Redis once a process, writing them where none are.

        Raises:
            ConfigurationError: they disagree.
        """
        # A consumer's own options may say otherwise than the settings.
        layout = queue.name, queue.shards, queue.group
        if layout in self._opened:
            return
        shards = shards_for(self.config, queue)
        check_layout(queue, self.run(operator_calls.declare(shards[0], queue.shards)))
        self._opened.add(layout)

    def enqueue(
        self, submissions: Sequence[Submission], now_ms: int | None = None
    ) -> list[bool | Exception]:
        """New tasks in, in one round trip; for each True (in), False (a duplicate) or its error."""
        for name in {task.queue for task in submissions}:
            self.open(self.config.queue(name))
        planned = list(enqueue_calls(self.config, submissions, now_ms))
        replies = self.run_many([call for _, call in planned])
        return spread_replies(len(submissions), [part for part, _ in planned], replies)

    def cancel(self, queue: str, task_id: str) -> bool:
        """Takes a SCHEDULED or READY task out."""
        return self.run(operator_calls.cancel(self._shard_of(queue, task_id), task_id))

    def inspect(self, queue: str, task_id: str) -> Snapshot | None:
        """Where a task is; None where there is none of this ID."""
        return self.run(operator_calls.inspect(self._shard_of(queue, task_id), task_id))

    def _shard_of(self, queue: str, task_id: str) -> Shard:
        settings = self.config.queue(queue)
        self.open(settings)
        return shard_for(self.config, settings, shard_of(task_id, settings.shards))

    def fetch_calls(
        self, shards: Sequence[Shard], consumer: str, limit: int
    ) -> list[Call[list[FetchItem]]]:
        """One script over all shards; where the server refuses that, one a shard.

        Then ``limit`` is shared out among the first shards, so that all together bring no more.
        """
        if self.spans_shards:
            return [calls.fetch(shards, consumer, limit, alone=False)]
        asked = shards[:limit] if limit else shards
        each, more = divmod(limit, len(asked))
        return [
            calls.fetch([shard], consumer, each + (at < more), alone=False)
            for at, shard in enumerate(asked)
        ]

    def load_records(self, wanted: Sequence[tuple[Shard, str]]) -> list[bytes | Exception | None]:
        """The records of (shard, task ID) pairs that a fetch left out for their size."""
        replies: list[bytes | Exception | None] = self._exchange(
            [("HGET", shard.keys.payload, task_id) for shard, task_id in wanted]
        )
        return replies

    def learn(self, replies: Sequence[Any]) -> bool:
        """Notes from a reply that this server wants one script a shard; True where it did."""
        if self.spans_shards and any(
            isinstance(reply, Exception) and faults.is_cross_slot(reply) for reply in replies
        ):
            self.spans_shards = False
            return True
        return False

    def is_away(self, error: BaseException) -> bool:
        """Whether an error is an outage of all that there is: of a Cluster one node may be away, or refuse
        for now, and whoever works on many shards goes on with the others.
        """
        if not faults.is_outage(error):
            return False
        return self.spans_shards or not isinstance(error, (faults.Away, redis.ResponseError))

    def close(self) -> None:
        """Closes its connections."""
        self._wire.close()


def spread_replies(
    size: int, parts: Sequence[list[int]], replies: Sequence[Any]
) -> list[bool | Exception]:
    """The replies of batched calls in the order of the tasks."""
    results: list[bool | Exception] = [False] * size
    for part, reply in zip(parts, replies, strict=True):
        for offset, position in enumerate(part):
            results[position] = reply if isinstance(reply, Exception) else reply[offset]
    return results


class Shared:
    """One broker a process, made anew when the configuration has changed, and after a fork.

    Args:
        make: makes it; nothing is connected before it is used.
    """

    def __init__(self, make: Callable[[Config], Broker]) -> None:
        self._make = make
        self._forget()
        # Its locks, threads and connections are the parent's.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._broker: Broker | None = None

    def get(self) -> Broker:
        """The broker for the configuration as it is now."""
        config = get_config()
        broker = self._broker
        if broker is not None and broker.config is config:
            return broker
        with self._lock:
            if self._broker is None or self._broker.config is not config:
                if self._broker is not None:
                    self._broker.close()
                self._broker = self._make(config)
            return self._broker


_shared = Shared(Broker)


def get_broker() -> Broker:
    """The process's broker for the configuration as it is now."""
    return _shared.get()

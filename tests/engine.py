"""What a test of the running parts works with; the fixture ``engine``.

    def test_a_task_is_run(engine):
        @handler("default")
        def work(task): ...

        consumer = engine.start("default")            # a Consumer in threads, stopped at the end
        task_id = engine.enqueue({"n": 1})
        engine.wait_until(lambda: consumer.counts.get("Done") == 1)
        engine.assert_drained()

Handlers that a test registers are forgotten when it ends. Nothing waits for time to pass: a delay
is skipped by promoting with a clock of the test's (:meth:`Engine.promote`), an owner vanishes by
giving its entries an idle time (:meth:`Engine.abandon`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.dispatch import Signal

from django_redq import registry, signals
from django_redq.conf import get_config
from django_redq.consumer.consumer import Consumer
from django_redq.producer import Producer, get_task
from django_redq.scheduler.scheduler import Scheduler
from django_redq.task import TaskInfo
from tests.harness import PATIENCE, Process, Redq, until
from tests.ledger import Ledger

GHOST = "ghost-0"
"""A consumer that has vanished."""
LONG = 10_000_000
"""An idle time in ms that is beyond every PENDING_MIN_IDLE."""

Row = dict[str, Any]


class Heard:
    """What the package's signals told, in order; may be waited for."""

    NAMES = (
        "task_enqueued",
        "task_started",
        "task_succeeded",
        "task_retried",
        "task_dead_lettered",
    )

    def __init__(self, stack: ExitStack) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []
        self._changed = threading.Condition()
        for name in self.NAMES:
            self._listen(stack, name, getattr(signals, name))

    def named(self, name: str) -> list[dict[str, Any]]:
        """What this signal told so far."""
        with self._changed:
            return self._named(name)

    def wait(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Waits until the signal was sent ``count`` times."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self._named(name)) >= count, PATIENCE)
            assert enough, f"{name} came {len(self._named(name))} times only: {self.all}"
            return self._named(name)

    def _named(self, name: str) -> list[dict[str, Any]]:
        return [facts for told, facts in self.all if told == name]

    def _listen(self, stack: ExitStack, name: str, signal: Signal) -> None:
        def receiver(**facts: Any) -> None:
            facts.pop("signal")
            with self._changed:
                self.all.append((name, facts))
                self._changed.notify_all()

        signal.connect(receiver, weak=False)
        stack.callback(signal.disconnect, receiver)


class Engine:
    """Consumers, schedulers and what they leave in Redis, in one test's corner of a server."""

    def __init__(self, redq: Redq, stack: ExitStack) -> None:
        self.redq = redq
        self.client = redq.client
        self._stack = stack

    # --- acting ------------------------------------------------------------------------------

    def configure(self, **queue: Any) -> None:
        """Settings of the queue ``default`` beside one shard; for more see ``redq.configure``."""
        self.redq.configure(queues={"default": {"SHARDS": 1, **queue}})

    def through(self, url: str, **options: Any) -> None:
        """Has the engine go through what listens there; ``client`` goes straight on."""
        self.redq.configure(CONNECTION={"URL": url, "OPTIONS": options})

    def enqueue(self, payload: Any = None, queue: str = "default", **options: Any) -> str:
        """Enqueues at once; the task's ID."""
        return Producer(queue).enqueue(payload, mode="immediate", **options).task_id

    def consumer(self, *queues: str, **options: Any) -> Consumer:
        """A consumer that is not started; stopped when the test ends."""
        options = {"block_timeout": 0.2, "shutdown_timeout": 10, **options}
        consumer = Consumer(*(queues or ("default",)), **options)
        self._stack.callback(consumer.stop)
        return consumer

    def start(self, *queues: str, **options: Any) -> Consumer:
        """A running consumer."""
        consumer = self.consumer(*queues, **options)
        consumer.start()
        return consumer

    def scheduler(self, *queues: str, **options: Any) -> Scheduler:
        """A scheduler that is not started; stopped when the test ends."""
        scheduler = Scheduler(*queues, **options)
        self._stack.callback(scheduler.stop)
        return scheduler

    def promote(self, *queues: str, ahead: float = 1e9) -> int:
        """Makes all tasks READY that are due within ``ahead`` seconds."""
        scheduler = self.scheduler(*queues, now=lambda: time.time() + ahead)
        moved = scheduler.run_once()
        scheduler.stop()
        return moved

    def spawn(self, ledger: Ledger, *arguments: str, **environ: str) -> Process:
        """Starts a command as a process whose handlers are those of :mod:`tests.worker`."""
        apps = ("tests.worker",)
        return self.redq.spawn(*arguments, apps=apps, **ledger.environ, **environ)

    def heard(self) -> Heard:
        """Listens to the package's signals from now on."""
        return Heard(self._stack)

    # --- other consumers ---------------------------------------------------------------------

    def deliver(
        self, queue: str = "default", shard: int = 0, *, to: str = GHOST, limit: int = 1000
    ) -> list[str]:
        """Delivers what is READY to the consumer ``to``, as a fetch whose reply was lost would."""
        stream = self.key("stream", queue, shard)
        group = get_config().queue(queue).group
        if group not in {one["name"].decode() for one in self._groups(stream)}:
            self.client.xgroup_create(stream, group, "0", mkstream=True)
        reply = self.client.xreadgroup(group, to, {stream: ">"}, count=limit)
        return [entry_id.decode() for _, entries in reply for entry_id, _ in entries]

    def abandon(
        self,
        queue: str = "default",
        shard: int = 0,
        *,
        by: str = GHOST,
        count: int = 1,
        idle: int = LONG,
    ) -> list[str]:
        """Delivers what is READY to ``by``, ``count`` times, of whom nothing was heard since."""
        entries = self.deliver(queue, shard, to=by)
        self.age(queue, shard, entries, count=count, idle=idle)
        return entries

    def age(
        self,
        queue: str = "default",
        shard: int = 0,
        entries: list[str] | None = None,
        *,
        count: int | None = None,
        idle: int = LONG,
    ) -> None:
        """Has pending entries look as if their owners had not renewed them for ``idle`` ms.

        Args:
            queue: of which they are.
            shard: of which they are.
            entries: which; None: all.
            count: how often they were delivered; None: as often as they were.
            idle: in ms.
        """
        for row in self.pending(queue, shard):
            if entries is not None and row["entry"] not in entries:
                continue
            self.client.xclaim(
                self.key("stream", queue, shard),
                get_config().queue(queue).group,
                row["consumer"],
                0,
                [row["entry"]],
                idle=idle,
                retrycount=row["count"] if count is None else count,
                justid=True,
            )

    # --- looking -----------------------------------------------------------------------------

    def key(self, name: str, queue: str = "default", shard: int = 0) -> str:
        return self.redq.key(queue, shard, name)

    def pending(self, queue: str = "default", shard: int = 0) -> list[Row]:
        """The pending entries: ``entry``, ``consumer``, ``idle`` (ms), ``count``."""
        stream, group = self.key("stream", queue, shard), get_config().queue(queue).group
        if group not in {one["name"].decode() for one in self._groups(stream)}:
            return []
        return [
            {
                "entry": row["message_id"].decode(),
                "consumer": row["consumer"].decode(),
                "idle": row["time_since_delivered"],
                "count": row["times_delivered"],
            }
            for row in self.client.xpending_range(stream, group, "-", "+", 10_000)
        ]

    def consumers(self, queue: str = "default", shard: int = 0) -> set[str]:
        """The names that the group knows."""
        stream, group = self.key("stream", queue, shard), get_config().queue(queue).group
        if group not in {one["name"].decode() for one in self._groups(stream)}:
            return set()
        return {one["name"].decode() for one in self.client.xinfo_consumers(stream, group)}

    def lease_owner(self, queue: str = "default", shard: int = 0) -> str:
        """Which scheduler has the lease; empty where none has."""
        return (self.client.get(self.key("lease", queue, shard)) or b"").decode()

    def dead(self, queue: str = "default") -> list[dict[str, str]]:
        """The dead letters of all shards, their fields as text."""
        letters = []
        for shard in range(get_config().queue(queue).shards):
            for _, fields in self.client.xrange(self.key("dlq", queue, shard)):
                letters.append({name.decode(): value.decode() for name, value in fields.items()})
        return letters

    def only_dead(self, queue: str = "default") -> dict[str, str]:
        """The one dead letter that there is."""
        (letter,) = self.dead(queue)
        return letter

    def task(self, task_id: str, queue: str = "default") -> TaskInfo | None:
        return get_task(queue, task_id)

    def count(self, name: str, field: str, queue: str = "default", shard: int = 0) -> int:
        """A counter of ``meta``."""
        return int(self.client.hget(self.key(name, queue, shard), field) or 0)

    def leftovers(self) -> dict[str, Any]:
        """All task data in Redis: every key but the metadata, whose size does not depend on it."""
        left: dict[str, Any] = {}
        for name, value in self.redq.world().items():
            kind = name.rsplit(":", 1)[1]
            if kind in {"meta", "lease", "bulk", "consumers"} or value == []:
                continue
            left[name] = value
        for name, queue in get_config().queues.items():
            for shard in range(queue.shards):
                if rows := self.pending(name, shard):
                    left[f"pending {name}:{shard}"] = rows
        return left

    def assert_drained(self) -> None:
        """Waits until nothing of any task is left in Redis."""
        until(lambda: not self.leftovers())
        assert self.leftovers() == {}

    def wait_until(self, condition: Callable[[], object]) -> None:
        until(condition)

    def wait_counts(self, consumer: Consumer, **counts: int) -> None:
        """Waits until the consumer has settled that many."""
        until(lambda: all(consumer.counts.get(name, 0) >= n for name, n in counts.items()))
        assert {name: consumer.counts.get(name, 0) for name in counts} == counts

    def _groups(self, stream: str) -> list[Any]:
        if not self.client.exists(stream):
            return []
        return list(self.client.xinfo_groups(stream))


@contextmanager
def engine_on(redq: Redq) -> Iterator[Engine]:
    """An engine in this corner, with a registry of its own, and one queue, ``default``."""
    with registry.isolated(), ExitStack() as stack:
        engine = Engine(redq, stack)
        engine.configure()
        yield engine


@pytest.fixture
def engine(redq: Redq) -> Iterator[Engine]:
    """Consumers and schedulers on the shared server; see :mod:`tests.engine`."""
    with engine_on(redq) as made:
        yield made


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger outside of Redis, and what was accepted; see :mod:`tests.ledger`."""
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def own_engine(own_redq: Redq) -> Iterator[Engine]:
    """The same on a server of the test's own, which may be killed, restarted and paused."""
    with engine_on(own_redq) as made:
        yield made


def as_json(record: bytes) -> Any:
    """A stored task, read."""
    return json.loads(record)

"""Stopping, pausing and resuming: what has not begun is handed back, what runs is settled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_redq.consumer.consumer import Consumer
from django_redq.errors import ConfigurationError, UnknownQueue
from django_redq.handlers import handler
from django_redq.queue import Queue
from django_redq.service import QueueGroup
from django_redq.task import TaskState
from tests.harness import PATIENCE


class Gated:
    """Handlers of both kinds that wait for the gate."""

    def __init__(self):
        self.inside, self.gate = threading.Semaphore(0), threading.Event()
        self.begun, self.ended = [], []

        @handler("default", kind="sync")
        def work(task):
            self._begin(task)
            assert self.gate.wait(PATIENCE)
            self.ended.append(task.id)

        @handler("default", kind="async")
        async def work_async(task):
            self._begin(task)
            while not self.gate.is_set():  # noqa: ASYNC110 - it is a thread's event
                await asyncio.sleep(0.005)
            self.ended.append(task.id)

    def _begin(self, task):
        self.begun.append((task.id, task.attempt))
        self.inside.release()

    def wait_inside(self):
        assert self.inside.acquire(timeout=PATIENCE)


@pytest.fixture
def gated(engine):
    made = Gated()
    yield made
    made.gate.set()


class Stopping(threading.Thread):
    """Stops a consumer beside the test."""

    def __init__(self, consumer):
        super().__init__(daemon=True)
        self.consumer = consumer
        self.start()

    def run(self):
        self.consumer.stop()

    def wait(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        assert self.consumer.stopped.is_set()


def test_an_idle_consumer_stops_and_leaves_no_name(engine):
    consumer = engine.start("default")
    engine.wait_until(lambda: consumer.name in engine.consumers())
    consumer.stop()
    assert engine.consumers() == set()
    consumer.stop()


def test_a_consumer_that_never_started_stops(engine):
    consumer = engine.consumer()
    consumer.stop()
    assert consumer.stopped.is_set()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_runs_is_finished_and_settled_and_what_waits_is_handed_back(engine, gated, kind):
    consumer = engine.start("default", concurrency=1, prefetch=2)
    ids = [engine.enqueue(kind=kind) for _ in range(3)]
    gated.wait_inside()
    engine.wait_until(lambda: len(engine.pending()) == 3)
    stopping = Stopping(consumer)
    # The two that wait are READY again before the one that runs is done.
    engine.wait_until(lambda: len(engine.pending()) == 1)
    assert [engine.task(task_id).state for task_id in ids] == [
        TaskState.RUNNING,
        TaskState.READY,
        TaskState.READY,
    ]
    gated.gate.set()
    stopping.wait()
    assert gated.ended == ids[:1]
    assert engine.task(ids[0]) is None
    assert consumer.counts == {"Done": 1, "Release": 2}
    assert engine.consumers() == set()
    # The attempt was given back.
    other = engine.start("default")
    engine.wait_counts(other, Done=2)
    assert gated.begun == [(task_id, 1) for task_id in ids]
    engine.assert_drained()


def test_a_recovered_task_that_is_handed_back_keeps_its_lost_attempts(engine, gated):
    lost = engine.enqueue(kind="sync", max_attempts=5)
    engine.abandon(count=2, idle=0)
    blocker = engine.enqueue(kind="sync")
    consumer = engine.start("default", concurrency=1, prefetch=1)
    gated.wait_inside()
    engine.age()
    # Its own first round may be under way.
    consumer._recoverer.recover()
    engine.wait_until(lambda: len(consumer._engine.table) == 2)
    assert [(row["consumer"], row["count"]) for row in engine.pending()] == [
        (consumer.name, 3),
        (consumer.name, 1),
    ]
    stopping = Stopping(consumer)
    engine.wait_until(lambda: engine.task(lost).state is TaskState.READY)
    info = engine.task(lost)
    assert (info.attempts, info.worker_lost) == (2, True)
    gated.gate.set()
    stopping.wait()
    assert engine.consumer().run_once() == 1
    assert gated.begun == [(blocker, 1), (lost, 3)]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_outlives_the_shutdown_timeout_is_recovered_by_others(engine, gated, caplog, kind):
    consumer = engine.start("default", shutdown_timeout=0.1)
    task_id = engine.enqueue(kind=kind)
    gated.wait_inside()
    consumer.stop()
    assert "1 task(s) still ran after 0.1 s" in caplog.text
    # Its name stays as long as it holds something.
    assert engine.consumers() == {consumer.name}
    assert engine.task(task_id).consumer == consumer.name
    gated.gate.set()
    engine.age()
    other = engine.consumer()
    assert other.recover_once() == 1
    assert gated.begun == [(task_id, 1), (task_id, 2)]
    engine.assert_drained()


def test_no_new_task_is_begun_while_it_stops(engine, gated):
    consumer = engine.start("default", concurrency=2)
    engine.enqueue(kind="sync")
    gated.wait_inside()
    stopping = Stopping(consumer)
    engine.wait_until(lambda: consumer._engine.draining)
    late = engine.enqueue(kind="sync")
    gated.gate.set()
    stopping.wait()
    assert engine.task(late).state is TaskState.READY
    assert len(gated.begun) == 1


# --- pause -------------------------------------------------------------------------------------


def test_a_paused_queue_is_not_fetched_from_until_it_is_resumed(engine, gated):
    gated.gate.set()
    consumer = engine.start("default")
    Queue("default").pause()
    task_id = engine.enqueue(kind="sync")
    for _ in range(5):
        # Each has the consumer look, and find the pause.
        consumer._engine.heard("", "")
    assert consumer.run_once() == 0
    assert engine.task(task_id).state is TaskState.READY
    Queue("default").resume()
    engine.wait_counts(consumer, Done=1)
    engine.assert_drained()


def test_pausing_hands_back_what_has_not_begun_and_lets_the_rest_finish(engine, gated):
    consumer = engine.start("default", concurrency=1, prefetch=2)
    ids = [engine.enqueue(kind="sync") for _ in range(3)]
    gated.wait_inside()
    engine.wait_until(lambda: len(engine.pending()) == 3)
    Queue("default").pause()
    engine.wait_until(lambda: len(engine.pending()) == 1)
    gated.gate.set()
    engine.wait_counts(consumer, Done=1, Release=2)
    Queue("default").resume()
    engine.wait_counts(consumer, Done=3)
    assert gated.begun == [(task_id, 1) for task_id in ids]


def test_pausing_one_queue_leaves_the_other_running(engine):
    engine.redq.configure(queues={"a": {"SHARDS": 2}, "b": {"SHARDS": 2}})
    runs = []

    @handler("a", kind="k")
    def work_a(task):
        runs.append(task.queue)

    @handler("b", kind="k")
    def work_b(task):
        runs.append(task.queue)

    consumer = engine.start("a", "b")
    Queue("a").pause()
    for _ in range(3):
        for name in ("a", "b"):
            engine.enqueue(queue=name, kind="k")
    engine.wait_counts(consumer, Done=3)
    assert runs == ["b"] * 3
    Queue("a").resume()
    engine.wait_counts(consumer, Done=6)


# --- start -------------------------------------------------------------------------------------


def test_a_shard_count_that_redis_disagrees_with_refuses_to_start(engine):
    engine.redq.configure(queues={"default": {"SHARDS": 4}})
    engine.enqueue()
    engine.redq.configure(queues={"default": {"SHARDS": 8}})
    with pytest.raises(ConfigurationError, match="'8' here and '4' in Redis"):
        engine.consumer().start()
    with pytest.raises(ConfigurationError, match="SHARDS"):
        engine.consumer().run_once()


def test_another_group_refuses_to_start(engine):
    engine.enqueue()
    with pytest.raises(ConfigurationError, match="'second' here and 'default' in Redis"):
        engine.consumer(group="second").start()


@pytest.mark.parametrize(
    ("queues", "options", "error"),
    [
        (("nowhere",), {}, UnknownQueue),
        ((), {}, ConfigurationError),
        (("default",), {"concurrency": 0}, ConfigurationError),
        (("default",), {"name": "a b"}, ConfigurationError),
        (("default",), {"no_such_option": 1}, ConfigurationError),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(engine, queues, options, error):
    with pytest.raises(error):
        Consumer(*queues, **options)
    assert engine.redq.keys() == []


def test_a_prefix_is_kept_in_the_name(engine):
    assert engine.consumer(name="web").name.startswith("web-")


# --- many in one process -----------------------------------------------------------------------


def test_a_group_of_unlike_parts_drains_as_one(engine):
    engine.redq.configure(
        queues={
            "fast": {"SHARDS": 1, "CONCURRENCY": 4},
            "slow": {"SHARDS": 2, "RETRY": {"POLICY": "fixed", "INTERVAL": 0.01}},
        }
    )
    runs = []

    @handler("fast")
    async def fast(task):
        runs.append("fast")

    @handler("slow")
    def slow(task):
        if task.attempt == 1:
            raise ValueError
        runs.append("slow")

    parts = [engine.consumer("fast"), engine.consumer("slow"), engine.scheduler("slow")]
    group = QueueGroup(parts)
    group.start()
    for _ in range(5):
        engine.enqueue(queue="fast")
        engine.enqueue(queue="slow", delay=0.01)
    engine.wait_until(lambda: len(runs) == 10)
    group.stop()
    assert all(part.stopped.is_set() for part in parts)
    engine.assert_drained()
    assert engine.consumers("fast") == engine.consumers("slow") == set()


def test_two_consumers_of_one_process_share_the_work(engine, gated):
    both = [engine.start("default", concurrency=2) for _ in range(2)]
    for _ in range(4):
        engine.enqueue(kind="sync")
    for _ in range(4):
        gated.wait_inside()
    assert {row["consumer"] for row in engine.pending()} == {one.name for one in both}
    gated.gate.set()
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in both) == 4)
    engine.assert_drained()


def test_both_of_one_process_may_be_stopped_one_after_the_other(engine, gated):
    gated.gate.set()
    first, second = engine.start("default"), engine.start("default")
    first.stop()
    engine.enqueue(kind="async")
    engine.wait_counts(second, Done=1)

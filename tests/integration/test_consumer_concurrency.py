"""How many tasks run at a time, whose turn it is, and how much comes at once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from django_redq.broker.keys import shard_of
from django_redq.handlers import handler
from django_redq.producer import Producer
from django_redq.task import TaskSpec
from tests.harness import PATIENCE


class Meter:
    """Counts who is inside, and the most that ever were."""

    def __init__(self):
        self._lock = threading.Lock()
        self.now = 0
        self.most = 0

    def __enter__(self):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_):
        with self._lock:
            self.now -= 1


def idle(task):
    """A handler that does nothing."""


def enqueue_many(count, queue="default", **options):
    specs = [TaskSpec(payload=n, **options) for n in range(count)]
    return [one.task_id for one in Producer(queue).enqueue_many(specs, mode="immediate")]


@pytest.mark.parametrize("prefetch", [0, 4])
def test_threads_and_coroutines_over_queues_and_shards_share_the_slots(engine, prefetch):
    engine.redq.configure(queues={"a": {"SHARDS": 4}, "b": {"SHARDS": 3}})
    inside, meeting = Meter(), threading.Barrier(5)

    @handler("a")
    def work(task):
        with inside:
            # Every five that run at a time meet; were there fewer, they would wait in vain.
            meeting.wait(PATIENCE)

    @handler("b")
    async def work_async(task):
        with inside:
            await asyncio.to_thread(meeting.wait, PATIENCE)

    enqueue_many(20, "a")
    enqueue_many(20, "b")
    consumer = engine.start("a", "b", concurrency=5, prefetch=prefetch)
    engine.wait_counts(consumer, Done=40)
    assert inside.most == 5
    engine.assert_drained()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_no_more_is_held_than_runs_and_may_wait(engine, prefetch):
    engine.configure(SHARDS=4)
    gate, inside = threading.Event(), threading.Semaphore(0)

    @handler("default")
    def work(task):
        inside.release()
        assert gate.wait(PATIENCE)

    ids = enqueue_many(40)
    consumer = engine.start("default", concurrency=2, prefetch=prefetch)
    for _ in range(2):
        assert inside.acquire(timeout=PATIENCE)
    engine.wait_until(lambda: held(engine, 4) == 2 + prefetch)
    # A nudge for each that could take more.
    for _ in range(3):
        ids.append(engine.enqueue())
        consumer._engine.heard("", "")
    engine.wait_until(lambda: not consumer._engine._wake.is_set())
    assert held(engine, 4) == 2 + prefetch
    gate.set()
    engine.wait_counts(consumer, Done=len(ids))
    engine.assert_drained()


def held(engine, shards):
    return sum(len(engine.pending(shard=shard)) for shard in range(shards))


def test_a_fetch_asks_for_no_more_than_the_read_count(engine):
    handler("default")(idle)
    enqueue_many(20)
    consumer = engine.consumer(concurrency=50, read_count=3)
    assert [consumer.run_once() for _ in range(8)] == [3, 3, 3, 3, 3, 3, 2, 0]


@pytest.mark.every_server
def test_no_shard_starves_beside_one_that_always_has_work(engine):
    engine.configure(SHARDS=4)
    order = []

    @handler("default")
    def work(task):
        order.append(shard_of(task.id, 4))

    busy = [f"busy-{n}" for n in range(2_000) if shard_of(f"busy-{n}", 4) == 0][:200]
    others = [f"rest-{n}" for n in range(40) if shard_of(f"rest-{n}", 4) != 0][:9]
    specs = [TaskSpec(payload=None, task_id=name) for name in (*busy, *others)]
    Producer("default").enqueue_many(specs, mode="immediate")
    consumer = engine.consumer(concurrency=2)
    for _ in range(20):
        consumer.run_once()
    assert Counter(order)[0] >= 10
    assert sum(shard != 0 for shard in order) == len(others)


def test_no_queue_starves_beside_one_that_always_has_work(engine):
    engine.redq.configure(queues={"busy": {"SHARDS": 1}, "rare": {"SHARDS": 1}})
    order = []

    @handler("busy")
    def work(task):
        order.append("busy")

    @handler("rare")
    def work_rarely(task):
        order.append("rare")

    enqueue_many(100, "busy")
    enqueue_many(3, "rare")
    consumer = engine.consumer("busy", "rare", concurrency=1)
    for _ in range(10):
        consumer.run_once()
    assert order.count("rare") == 3


def test_tasks_of_one_shard_begin_in_the_order_of_their_arrival(engine):
    order = []

    @handler("default")
    def work(task):
        order.append(task.payload)

    enqueue_many(50)
    consumer = engine.start("default", concurrency=1, prefetch=7)
    engine.wait_counts(consumer, Done=50)
    assert order == list(range(50))


def test_payloads_beyond_what_one_fetch_carries_arrive_whole(engine):
    engine.configure(MAX_PAYLOAD_BYTES=2 * 1024**2)
    sizes = []

    @handler("default")
    def work(task):
        sizes.append((task.id, len(task.payload), set(task.payload)))

    wanted = []
    for n, size in enumerate([600_000, 600_000, 600_000, 1_900_000, 10, 1_900_000]):
        engine.enqueue("x" * size, task_id=f"t{n}")
        wanted.append((f"t{n}", size, {"x"}))
    assert engine.consumer(concurrency=10).run_once() == 6
    assert sizes == wanted
    engine.assert_drained()


def test_large_payloads_of_a_vanished_owner_are_recovered(engine):
    engine.configure(MAX_PAYLOAD_BYTES=2 * 1024**2)
    sizes = []

    @handler("default")
    def work(task):
        sizes.append(len(task.payload))

    for _ in range(4):
        engine.enqueue("x" * 900_000)
    engine.abandon()
    assert engine.consumer(concurrency=10).recover_once() == 4
    assert sizes == [900_000] * 4


def test_many_short_tasks_leave_nothing_behind(engine):
    """A drained queue leaves no task data: every key is read."""
    engine.configure(SHARDS=4, RETRY={"POLICY": "fixed", "INTERVAL": 0.01}, RECOVERY_INTERVAL=0.05)
    runs = Counter()

    @handler("default")
    def work(task):
        runs[task.id] += 1
        if task.payload % 10 == 0 and task.attempt == 1:
            raise ValueError

    ids = enqueue_many(300)
    specs = [TaskSpec(payload=n, delay=0.01) for n in range(300)]
    later = Producer("default").enqueue_many(specs, mode="immediate")
    for shard in range(4):
        engine.deliver(shard=shard, limit=5)
        engine.age(shard=shard)
    ids += [one.task_id for one in later]
    engine.scheduler().start()
    consumers = [engine.start("default", concurrency=20) for _ in range(2)]
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in consumers) == 600)
    engine.assert_drained()
    assert set(runs) == set(ids)
    for consumer in consumers:
        consumer.stop()
    assert {kind(name) for name in engine.redq.world()} <= {"meta", "stream", "lease", "consumers"}
    for shard in range(4):
        assert engine.client.xlen(engine.key("stream", shard=shard)) == 0
        assert engine.consumers(shard=shard) <= {"ghost-0"}


def kind(name):
    return name.rsplit(":", 1)[1]


def test_the_most_recent_hint_wakes_an_idle_consumer(engine):
    """Idle is waiting, not polling: with a block time-out of an hour it still runs at once."""
    done = threading.Semaphore(0)

    @handler("default")
    def work(task):
        done.release()

    consumer = engine.start("default", block_timeout=3600)
    engine.wait_until(lambda: consumer._engine.listener.listening)
    for _ in range(3):
        engine.enqueue()
        assert done.acquire(timeout=PATIENCE)
    engine.wait_counts(consumer, Done=3)


def test_what_is_enqueued_while_it_starts_is_found(engine):
    handler("default")(idle)
    for _ in range(5):
        consumer = engine.start("default", block_timeout=3600)
        engine.enqueue()
        engine.wait_counts(consumer, Done=1)
        consumer.stop()


# --- retention ---------------------------------------------------------------------------------


def test_done_tasks_may_be_kept_in_a_stream_of_their_own(engine):
    engine.configure(STREAM_RETENTION="keep")
    handler("default")(idle)
    ids = enqueue_many(3)
    engine.consumer(concurrency=5).run_once()
    kept = engine.client.xrange(engine.key("done"))
    assert [fields[b"id"].decode() for _, fields in kept] == ids
    left = engine.redq.world()
    assert set(left) == {"{default:0}:meta", "{default:0}:stream", "{default:0}:done"}
    assert left["{default:0}:stream"] == []


def test_payloads_of_done_tasks_may_be_kept(engine):
    engine.configure(PAYLOAD_CLEANUP="never")
    handler("default")(idle)
    task_id = engine.enqueue({"n": 1})
    engine.consumer().run_once()
    ((_, fields),) = engine.client.xrange(engine.key("kept"))
    assert fields[b"id"].decode() == task_id
    assert b'"payload":{"n":1}' in fields[b"payload"]
    assert set(engine.redq.world()) == {
        "{default:0}:meta",
        "{default:0}:stream",
        "{default:0}:kept",
    }


def test_both_may_be_kept_and_the_id_is_free_all_the_same(engine):
    engine.configure(STREAM_RETENTION="keep", PAYLOAD_CLEANUP="never")
    handler("default")(idle)
    for _ in range(2):
        assert engine.enqueue(task_id="again") == "again"
        assert engine.consumer().run_once() == 1
    assert engine.client.xlen(engine.key("done")) == 2
    assert engine.client.xlen(engine.key("kept")) == 2

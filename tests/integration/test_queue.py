"""``Queue``: how full it is and who works on it, pausing, and running a task before it is due."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.core.exceptions import SynchronousOnlyOperation

from django_redq import (
    ConfigurationError,
    InvalidArgument,
    Queue,
    Scheduler,
    Task,
    TaskState,
    UnknownQueue,
    cancel,
    get_task,
    handler,
)
from tests.engine import Engine
from tests.harness import Redq, until
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure, ids_of

pytestmark = pytest.mark.every_setup


@pytest.fixture
def queue(redq: Redq, engine: Engine) -> Queue:
    # After the engine, which has one queue of its own.
    configure(redq, CONCURRENCY=5)
    return Queue(QUEUE)


def summed(queue: Queue) -> tuple[int, int, int, int]:
    stats = queue.stats()
    return stats.scheduled, stats.ready, stats.running, stats.dead


# --- stats -----------------------------------------------------------------------------------


def test_an_unused_queue_is_empty(queue: Queue) -> None:
    stats = queue.stats()

    assert (stats.queue, queue.name) == (QUEUE, QUEUE)
    assert summed(queue) == (0, 0, 0, 0)
    assert (stats.succeeded, stats.retried, stats.died) == (0, 0, 0)
    assert (stats.oldest_ready_age, stats.lateness, stats.paused) == (None, None, False)
    assert (stats.consumers, stats.lease_holders) == ((), ())
    assert [shard.shard for shard in stats.shards] == [*range(SHARDS)]


@pytest.mark.every_server
def test_a_task_is_counted_where_it_is(redq: Redq, engine: Engine) -> None:
    configure(redq, CONCURRENCY=5)
    queue, go_on, begun = Queue(QUEUE), threading.Event(), threading.Semaphore(0)

    @handler(QUEUE)
    def work(task: Task[Any]) -> None:
        begun.release()
        assert go_on.wait(60)
        if task.payload == "die":
            raise ValueError("dead")
        if task.payload == "again" and task.attempt == 1:
            raise ValueError("once more")

    for payload in ("well", "well", "die", "again"):
        engine.enqueue(payload, QUEUE, max_attempts=1 if payload == "die" else 2)
    engine.enqueue("later", QUEUE, delay=3600)
    assert summed(queue) == (1, 4, 0, 0)
    consumer = engine.start(QUEUE)
    for _ in range(4):
        assert begun.acquire(timeout=60)

    stats = queue.stats()

    assert summed(queue) == (1, 0, 4, 0)
    assert [(one.name, one.running) for one in stats.consumers] == [(consumer.name, 4)]
    assert stats.consumers[0].idle >= 0
    assert sum(shard.running for shard in stats.shards) == 4
    go_on.set()
    engine.wait_counts(consumer, Done=2, Dead=1, RetryAt=1)
    stats = queue.stats()
    assert summed(queue) == (2, 0, 0, 1)
    assert (stats.succeeded, stats.retried, stats.died) == (2, 1, 1)


def test_a_parked_suspect_is_ready_and_its_holder_is_no_consumer(
    queue: Queue, engine: Engine
) -> None:
    engine.enqueue(None, QUEUE, task_id=next(ids_of(0)))
    [entry] = engine.deliver(QUEUE, 0, to="_suspects")

    stats = queue.stats()

    assert (stats.ready, stats.running, stats.consumers) == (1, 0, ())
    assert stats.oldest_ready_age is not None
    engine.enqueue(None, QUEUE, task_id=f"x{entry}")
    assert queue.stats().ready == 2


def test_pending_rows_without_an_entry_are_nobodys_task(
    redq: Redq, queue: Queue, engine: Engine
) -> None:
    ids = ids_of(0)
    for _ in range(3):
        engine.enqueue(None, QUEUE, task_id=next(ids))
    entries = engine.deliver(QUEUE, 0, to="someone")
    redq.client.xdel(redq.key(QUEUE, 0, "stream"), *entries[:2])
    assert summed(queue) == (0, 0, 1, 0)

    redq.client.delete(redq.key(QUEUE, 0, "stream"))
    assert summed(queue) == (0, 0, 0, 0)


def test_a_parked_suspect_is_not_taken_for_running_beside_such_a_row(
    redq: Redq, queue: Queue, engine: Engine
) -> None:
    ids, stream = ids_of(0), redq.key(QUEUE, 0, "stream")
    engine.enqueue(None, QUEUE, task_id=next(ids))
    [lost] = engine.deliver(QUEUE, 0, to="someone")
    engine.enqueue(None, QUEUE, task_id=next(ids))
    [parked] = engine.deliver(QUEUE, 0, to="_suspects")
    redq.client.xdel(stream, lost)
    assert summed(queue) == (0, 1, 0, 0)

    redq.client.xdel(stream, parked)
    assert summed(queue) == (0, 0, 0, 0)
    assert queue.stats().oldest_ready_age is None


def test_the_age_of_the_oldest_ready_task_passes_over_what_was_delivered(
    redq: Redq, queue: Queue, engine: Engine
) -> None:
    seconds, _ = redq.client.time()
    stream = redq.key(QUEUE, 0, "stream")
    redq.client.xadd(stream, {"id": "a"}, f"{(seconds - 500) * 1000}-0")
    assert 500 <= queue.stats().oldest_ready_age < 1000
    engine.deliver(QUEUE, 0, to="someone")
    assert queue.stats().oldest_ready_age is None
    redq.client.xadd(stream, {"id": "b"}, f"{(seconds - 100) * 1000}-0")

    stats = queue.stats()

    assert 100 <= stats.oldest_ready_age < 500
    assert stats.shards[0].oldest_ready_age == stats.oldest_ready_age
    assert stats.shards[1].oldest_ready_age is None
    # Entry IDs are by the clock of Redis, whatever clock the test brings.
    assert 100 <= Queue(QUEUE, now=lambda: BORN / 1000).stats().oldest_ready_age < 500


def test_lateness_is_told_by_the_clock_that_is_brought(redq: Redq, engine: Engine) -> None:
    configure(redq)
    for shard, due in ((0, BORN), (1, BORN - 2500), (2, BORN + 5000)):
        redq.client.zadd(redq.key(QUEUE, shard, "delay"), {"t": due})

    stats = Queue(QUEUE, now=lambda: BORN / 1000).stats()

    assert stats.lateness == 2.5
    assert [shard.lateness for shard in stats.shards] == [0.0, 2.5, None]
    assert Queue(QUEUE).stats().lateness > 1_000_000


def test_what_is_due_at_no_time_is_not_late(redq: Redq, queue: Queue) -> None:
    redq.client.zadd(redq.key(QUEUE, 0, "delay"), {"never": "inf"})

    assert (queue.stats().scheduled, queue.stats().lateness) == (1, None)


def test_the_schedulers_are_named(queue: Queue, engine: Engine) -> None:
    first = engine.scheduler(QUEUE)
    first.run_once()

    stats = queue.stats()

    assert stats.lease_holders == (first.instance_id,)
    assert {shard.lease_holder for shard in stats.shards} == {first.instance_id}
    first.stop()
    assert queue.stats().lease_holders == ()


def test_dead_letters_are_counted_with_their_tombstones(redq: Redq, queue: Queue) -> None:
    graves = Graveyard(redq)
    graves.bury(0)
    graves.entomb(1)

    assert [shard.dead for shard in queue.stats().shards] == [1, 1, 0]
    assert queue.stats().dead == 2


@pytest.mark.parametrize("name", ["delay", "stream", "dlq", "meta"])
def test_a_broken_shard_is_told_and_not_counted_wrong(redq: Redq, queue: Queue, name: str) -> None:
    queue.stats()
    redq.client.set(redq.key(QUEUE, 1, name), "of another type")

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        queue.stats()


# --- pausing ---------------------------------------------------------------------------------


@pytest.mark.every_server
def test_a_paused_queue_gives_nothing_until_it_is_resumed(redq: Redq, engine: Engine) -> None:
    configure(redq)
    queue = Queue(QUEUE)

    @handler(QUEUE)
    def work(task: Task[Any]) -> None: ...

    for _ in range(6):
        engine.enqueue(None, QUEUE)
    consumer = engine.consumer(QUEUE, read_count=10, concurrency=10)

    assert [queue.pause(), queue.pause()] == [True, False]
    assert queue.stats().paused
    assert consumer.run_once() == 0
    assert summed(queue) == (0, 6, 0, 0)

    assert [queue.resume(), queue.resume()] == [True, False]
    assert not queue.stats().paused
    settled = 0
    while done := consumer.run_once():  # Of a Cluster's shards each gives its share at a time.
        settled += done
    assert settled == 6
    engine.assert_drained()


def test_a_running_consumer_notices_both(queue: Queue, engine: Engine) -> None:
    ran: list[str] = []

    @handler(QUEUE)
    def work(task: Task[Any]) -> None:
        ran.append(task.payload)

    # So long that only a hint can wake it.
    consumer = engine.start(QUEUE, block_timeout=3600)
    engine.enqueue("before", QUEUE)
    until(lambda: consumer.counts.get("Done"))
    queue.pause()
    engine.enqueue("meanwhile", QUEUE)
    assert summed(queue) == (0, 1, 0, 0)

    queue.resume()

    until(lambda: consumer.counts.get("Done") == 2)
    assert ran == ["before", "meanwhile"]


def test_a_queue_is_paused_where_one_shard_is(redq: Redq, queue: Queue) -> None:
    redq.client.hset(redq.key(QUEUE, 1, "meta"), "paused", 1)

    stats = queue.stats()

    assert stats.paused
    assert [shard.paused for shard in stats.shards] == [False, True, False]
    assert queue.pause()
    assert queue.resume()
    assert not queue.stats().paused


# --- run_now ---------------------------------------------------------------------------------


@pytest.mark.every_server
def test_run_now_makes_a_scheduled_task_ready(redq: Redq, engine: Engine) -> None:
    configure(redq)
    queue = Queue(QUEUE)
    task_id = engine.enqueue(None, QUEUE, delay=3600)

    assert queue.run_now(task_id)

    assert get_task(QUEUE, task_id).state is TaskState.READY
    assert summed(queue) == (0, 1, 0, 0)
    assert not queue.run_now(task_id)


def test_run_now_wakes_a_consumer(queue: Queue, engine: Engine) -> None:
    @handler(QUEUE)
    def work(task: Task[Any]) -> None: ...

    task_id = engine.enqueue(None, QUEUE, delay=3600)
    consumer = engine.start(QUEUE, block_timeout=3600)

    queue.run_now(task_id)

    until(lambda: consumer.counts.get("Done") == 1)
    engine.assert_drained()


def test_run_now_knows_only_what_is_scheduled(queue: Queue, engine: Engine, redq: Redq) -> None:
    ready = engine.enqueue(None, QUEUE)
    dead = Graveyard(redq).bury()
    gone = engine.enqueue(None, QUEUE, delay=60)
    cancel(QUEUE, gone)
    before = redq.world()

    for task_id in (ready, dead, gone, "unknown"):
        assert not queue.run_now(task_id)
    assert redq.world() == before


# --- arguments, async code -------------------------------------------------------------------


def test_a_bad_task_id_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidArgument, match="task_id"):
        queue.run_now("with space")


def test_an_unknown_queue_is_told_with_the_known_ones(queue: Queue) -> None:
    with pytest.raises(UnknownQueue, match=QUEUE):
        Queue("nope")


def test_a_view_may_await_each_of_them(queue: Queue, engine: Engine) -> None:
    task_id = engine.enqueue(None, QUEUE, delay=60)

    async def view() -> None:
        assert (await queue.astats()).scheduled == 1
        assert await queue.apause()
        assert await queue.aresume()
        assert await queue.arun_now(task_id)

    asyncio.run(view())


SYNC: list[Callable[[Queue], Any]] = [
    lambda queue: queue.stats(),
    lambda queue: queue.pause(),
    lambda queue: queue.resume(),
    lambda queue: queue.run_now("t"),
]


@pytest.mark.parametrize("act", SYNC)
def test_the_sync_ones_do_not_block_an_event_loop(
    queue: Queue, act: Callable[[Queue], Any]
) -> None:
    async def view() -> None:
        with pytest.raises(SynchronousOnlyOperation, match="await a"):
            act(queue)

    asyncio.run(view())


def test_settings_that_disagree_with_redis_are_refused(redq: Redq, queue: Queue) -> None:
    queue.stats()
    configure(redq, SHARDS=SHARDS + 1)

    with pytest.raises(ConfigurationError, match="SHARDS is '4' here and '3' in Redis"):
        Queue(QUEUE).stats()


def test_scheduler_and_stats_agree_on_what_is_due(queue: Queue, engine: Engine) -> None:
    engine.enqueue(None, QUEUE, delay=0.5)
    until(lambda: queue.stats().lateness is not None)

    assert Scheduler(QUEUE).run_once() == 1
    assert queue.stats().lateness is None

"""Tasks of owners that vanished: taken over once, counted, and dead when they kill every worker."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from django_redq.broker.keys import shard_of
from django_redq.dead_letters import DeadLetterQueue
from django_redq.handlers import dead_letter_handler, handler
from django_redq.outcome import Reason
from django_redq.producer import Producer
from django_redq.task import TaskSpec, TaskState
from tests.engine import GHOST, LONG

pytestmark = pytest.mark.every_setup


def working(queue="default", **options):
    """A handler that notes (task ID, attempt) of each run."""
    runs = []

    @handler(queue, **options)
    def work(task):
        runs.append((task.id, task.attempt))

    return runs


def enqueue_many(engine, count, queue="default"):
    specs = [TaskSpec(payload=n) for n in range(count)]
    return [one.task_id for one in Producer(queue).enqueue_many(specs, mode="immediate")]


@pytest.mark.every_server
def test_a_vanished_owners_task_is_run_again_and_the_lost_run_counts(engine):
    runs = working()
    task_id = engine.enqueue()
    engine.abandon()
    assert engine.task(task_id).consumer == GHOST
    consumer = engine.consumer()
    assert consumer.recover_once() == 1
    assert runs == [(task_id, 2)]
    engine.assert_drained()
    assert consumer.recover_once() == 0


def test_running_consumers_recover_by_themselves(engine):
    runs = working()
    task_id = engine.enqueue()
    engine.abandon()
    consumer = engine.start("default", recovery_interval=0.05)
    engine.wait_counts(consumer, Done=1)
    assert runs == [(task_id, 2)]


def test_while_it_runs_it_is_told_that_a_worker_was_lost(engine):
    gate, inside = threading.Event(), threading.Event()

    @handler("default")
    def work(task):
        inside.set()
        gate.wait(60)

    task_id = engine.enqueue(max_attempts=5)
    engine.abandon()
    consumer = engine.start("default", recovery_interval=0.05)
    assert inside.wait(60)
    info = engine.task(task_id)
    assert (info.state, info.attempts, info.worker_lost) == (TaskState.RUNNING, 2, True)
    assert info.consumer == consumer.name
    gate.set()
    engine.wait_counts(consumer, Done=1)


def test_a_live_owners_task_is_left_alone(engine):
    working()
    engine.enqueue()
    engine.deliver()
    assert engine.consumer(pending_min_idle=1000).recover_once() == 0
    assert [row["consumer"] for row in engine.pending()] == [GHOST]


def test_a_paused_queue_is_not_recovered_from(engine):
    runs = working()
    engine.enqueue()
    engine.abandon()
    engine.client.hset(engine.key("meta"), "paused", 1)
    consumer = engine.consumer()
    assert consumer.recover_once() == 0
    engine.client.hdel(engine.key("meta"), "paused")
    assert consumer.recover_once() == 1
    assert len(runs) == 1


def test_old_entries_behind_many_young_ones_are_reached(engine):
    runs = working()
    ids = enqueue_many(engine, 2_500)
    entries = engine.deliver(limit=10_000)
    for entry in entries[-3:]:
        engine.client.xclaim(
            engine.key("stream"), "default", GHOST, 0, [entry], idle=LONG, retrycount=1, justid=True
        )
    consumer = engine.consumer(concurrency=5, pending_min_idle=3600)
    assert consumer.recover_once() == 3
    assert [task_id for task_id, _ in runs] == ids[-3:]


def test_a_round_takes_no_more_than_the_recovery_count(engine):
    runs = working()
    enqueue_many(engine, 7)
    engine.abandon()
    consumer = engine.consumer(recovery_count=3, concurrency=10)
    assert [consumer.recover_once() for _ in range(4)] == [3, 3, 1, 0]
    assert len(set(runs)) == 7


def test_all_shards_are_recovered_from_even_beside_a_broken_one(engine, caplog):
    engine.configure(SHARDS=4)
    runs = working()
    ids = enqueue_many(engine, 40)
    for shard in range(4):
        engine.abandon(shard=shard)
    broken = 1
    engine.client.delete(engine.key("stream", shard=broken))
    engine.client.set(engine.key("stream", shard=broken), "not a stream")
    consumer = engine.consumer(concurrency=100)
    consumer.recover_once()
    assert {task_id for task_id, _ in runs} == {
        task_id for task_id in ids if shard_of(task_id, 4) != broken
    }
    assert "shard 1 of 'default'" in caplog.text


def test_it_takes_over_no_more_than_it_has_slots_for(engine):
    gate, inside = threading.Event(), threading.Semaphore(0)

    @handler("default")
    def work(task):
        inside.release()
        gate.wait(60)

    enqueue_many(engine, 5)
    engine.abandon()
    consumer = engine.start("default", concurrency=2, recovery_interval=0.02)
    rounds = count_rounds(consumer._recoverer)
    for _ in range(2):
        assert inside.acquire(timeout=60)
    for _ in range(5):
        assert rounds.acquire(timeout=60)
    assert sorted(row["consumer"] for row in engine.pending()) == sorted(
        [consumer.name] * 2 + [GHOST] * 3
    )
    gate.set()
    engine.wait_counts(consumer, Done=5)
    engine.assert_drained()


def test_recovered_tasks_may_be_kept_to_a_share_of_the_slots(engine):
    gate, inside = threading.Event(), threading.Semaphore(0)

    @handler("default")
    def work(task):
        inside.release()
        gate.wait(60)

    enqueue_many(engine, 3)
    engine.abandon()
    consumer = engine.start(
        "default", concurrency=3, recovery_interval=0.02, recovery_concurrency=1
    )
    rounds = count_rounds(consumer._recoverer)
    assert inside.acquire(timeout=60)
    for _ in range(5):
        assert rounds.acquire(timeout=60)
    assert [row["consumer"] for row in engine.pending()].count(consumer.name) == 1
    # The other slots are there for new tasks.
    enqueue_many(engine, 2)
    for _ in range(2):
        assert inside.acquire(timeout=60)
    gate.set()
    engine.wait_counts(consumer, Done=5)


def count_rounds(recoverer):
    """A semaphore that is released after each round."""
    done, original = threading.Semaphore(0), recoverer.recover

    def recover():
        handled = original()
        done.release()
        return handled

    recoverer.recover = recover
    return done


def test_two_that_recover_at_the_same_time_take_each_task_once(engine):
    runs = working()
    ids = enqueue_many(engine, 60)
    engine.abandon()
    both = [engine.start("default", concurrency=50, recovery_interval=0.01) for _ in range(2)]
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in both) == 60)
    assert sorted(runs) == sorted((task_id, 2) for task_id in ids)
    assert sum(one.counts.get("stale", 0) for one in both) == 0
    engine.assert_drained()


# --- worker_lost -------------------------------------------------------------------------------


@pytest.mark.parametrize(("max_attempts", "deliveries"), [(1, 1), (3, 3), (3, 5)])
def test_who_has_killed_all_its_workers_is_dead(engine, max_attempts, deliveries):
    runs, told = working(kind="poison"), []

    @dead_letter_handler("default")
    def tell(letter):
        told.append(letter)

    heard = engine.heard()
    task_id = engine.enqueue({"n": 1}, kind="poison", max_attempts=max_attempts)
    engine.abandon(count=deliveries)
    assert engine.consumer().recover_once() == 1
    assert runs == []
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"]) == (task_id, Reason.WORKER_LOST)
    assert (letter["kind"], letter["attempts"]) == ("poison", str(deliveries))
    assert GHOST in letter["error"]
    info = engine.task(task_id)
    assert (info.state, info.worker_lost) == (TaskState.DEAD, True)
    (from_redis,) = DeadLetterQueue("default").list()
    # Two clocks, and two readers of the payload; all else is the same.
    assert told == [replace(from_redis, task=told[0].task, failed_at=told[0].failed_at)]
    assert (told[0].task.id, told[0].task.payload) == (task_id, {"n": 1})
    (facts,) = heard.named("task_dead_lettered")
    assert (facts["task_id"], facts["task"]) == (task_id, told[0].task)
    assert facts["failure"] == info.errors[-1]
    assert engine.pending() == []


def test_earlier_failures_count_with_the_lost_runs(engine):
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 0})

    @handler("default")
    def work(task):
        raise ValueError(f"attempt {task.attempt}")

    task_id = engine.enqueue(max_attempts=2)
    consumer = engine.consumer()
    consumer.run_once()
    engine.abandon()
    consumer.recover_once()
    letter = engine.only_dead()
    assert (letter["reason"], letter["attempts"]) == (Reason.WORKER_LOST, "2")
    assert engine.task(task_id).errors[0].error == "attempt 1"


def test_where_more_is_left_than_a_round_takes_the_next_one_follows_at_once(engine):
    engine.configure(SHARDS=2)

    @handler("default")
    def work(task):
        pass

    enqueue_many(engine, 60)
    for shard in range(2):
        engine.abandon(shard=shard)
    consumer = engine.start("default", recovery_interval=1000, recovery_count=10)
    engine.wait_counts(consumer, Done=60)
    engine.assert_drained()


def test_a_consumer_that_is_never_idle_takes_lost_tasks_in_turn_with_others(engine):
    started = []
    lost = enqueue_many(engine, 5)
    engine.abandon()
    late = enqueue_many(engine, 30)

    @handler("default")
    def work(task):
        started.append(task.id)
        # What is lost is seen before the first one ends.
        engine.wait_until(lambda: consumer._recoverer._waiting or not set(lost) - set(started))

    consumer = engine.consumer(concurrency=1)
    consumer.start()
    engine.wait_counts(consumer, Done=35)
    assert set(started) == {*lost, *late}
    # Five of the first ten, one more where the first was at work before they were seen.
    assert set(lost) <= set(started[:11])


def test_who_finds_redis_back_recovers_nothing_before_its_owners_could_renew(own_engine, caplog):
    engine, runs = own_engine, working()
    engine.enqueue()
    engine.abandon()
    consumer = engine.consumer(recovery_interval=0.01)
    recoverer = consumer._recoverer
    engine.redq.server.kill()
    for _ in range(2):
        recoverer.guarded_step()
    # Each of them has asked.
    assert consumer._outage._failing == {"recoverer": 2}
    engine.redq.server.start()
    recoverer.guarded_step()
    assert consumer._outage._failing == {}
    recoverer.guarded_step()
    assert [row["consumer"] for row in engine.pending()] == [GHOST]
    assert runs == []


def test_a_node_that_is_back_holds_recovery_off_for_a_moment_only(engine, monkeypatch):
    consumer = engine.consumer(pending_min_idle=1000)
    # As on a Cluster.
    monkeypatch.setattr(consumer._broker, "spans_shards", False)
    consumer._node_back()
    assert consumer._recoverer._respites.next_end() < time.monotonic() + 500
    consumer._late()
    assert consumer._recoverer._respites.next_end() > time.monotonic() + 500

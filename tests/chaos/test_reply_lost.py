"""A script was run, and its reply never came: each is resent, and finds its own work done."""

from __future__ import annotations

import threading

import pytest
import redis

from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import Reject
from django_redq.handlers import handler
from django_redq.producer import Producer, cancel
from django_redq.queue import Queue
from django_redq.task import TaskState
from tests.harness import PATIENCE

NO_REPLY = (redis.ConnectionError, redis.TimeoutError)
QUICK = {"pending_min_idle": 0.3, "recovery_interval": 0.05}


@pytest.fixture
def runs(engine, losing):
    """A handler, and what it ran: the ledger is the test's own memory."""
    seen = []

    @handler("default")
    def work(task):
        seen.append((task.id, task.attempt))
        if task.payload == "fails once" and task.attempt == 1:
            raise ValueError
        if task.payload == "rejected":
            raise Reject

    return seen


def test_of_an_enqueue(engine, losing, runs):
    engine.enqueue(task_id="warm-up", delay=1000)
    losing.lose_reply_of("enqueue")
    with pytest.raises(NO_REPLY) as raised:
        engine.enqueue(task_id="t")
    losing.wait_lost()
    assert any("t. To be sure" in note for note in raised.value.__notes__)
    again = Producer("default").enqueue(None, task_id="t", mode="immediate")
    assert again.duplicate is True
    consumer = engine.start("default")
    engine.wait_counts(consumer, Done=1)
    assert runs == [("t", 1)]


def test_of_a_fetch(engine, losing, runs):
    consumer = engine.start("default", concurrency=5)
    Queue("default").pause()
    ids = [engine.enqueue() for _ in range(3)]
    losing.lose_reply_of("fetch")
    engine.client.hdel(engine.key("meta"), "paused")
    consumer._engine.heard("", "")
    losing.wait_lost()
    engine.wait_counts(consumer, Done=3)
    assert sorted(runs) == sorted((task_id, 1) for task_id in ids)
    engine.assert_drained()


def test_of_a_fetch_of_a_suspect(engine, losing, runs):
    engine.enqueue(task_id="suspect", max_attempts=3)
    engine.client.hset(engine.key("state"), "suspect", b"2 1 3 - ")
    engine.consumer().run_once()
    assert engine.pending()[0]["consumer"] == "_suspects"
    losing.lose_reply_of("fetch")
    consumer = engine.start("default", concurrency=5)
    losing.wait_lost()
    engine.wait_counts(consumer, Done=1)
    assert runs == [("suspect", 3)]
    engine.assert_drained()


def test_of_an_acknowledgement(engine, losing, runs):
    consumer = engine.start("default")
    losing.lose_reply_of("ack")
    task_id = engine.enqueue()
    losing.wait_lost()
    engine.wait_counts(consumer, Done=1)
    assert runs == [(task_id, 1)]
    assert consumer.counts == {"Done": 1}
    assert engine.count("meta", "done") == 1
    engine.assert_drained()


@pytest.mark.parametrize("interval", [0, 1000])
def test_of_a_retry(engine, losing, runs, interval):
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": interval})
    consumer = engine.start("default")
    losing.lose_reply_of("retry")
    task_id = engine.enqueue("fails once")
    losing.wait_lost()
    engine.wait_until(lambda: consumer.counts.get("RetryAt") == 1)
    if interval:
        assert engine.task(task_id).attempts == 1
        assert engine.promote() == 1
    engine.wait_counts(consumer, Done=1)
    assert runs == [(task_id, 1), (task_id, 2)]
    assert consumer.counts == {"RetryAt": 1, "Done": 1}
    assert engine.count("meta", "retried") == 1
    engine.assert_drained()


def test_of_a_death(engine, losing, runs):
    heard = engine.heard()
    consumer = engine.start("default")
    losing.lose_reply_of("dead_letter")
    task_id = engine.enqueue("rejected")
    losing.wait_lost()
    engine.wait_counts(consumer, Dead=1)
    (told,) = heard.wait("task_dead_lettered")
    assert engine.only_dead()["id"] == task_id
    assert told["letter"].entry_id == DeadLetterQueue("default").get(task_id).entry_id
    assert engine.count("meta", "dead") == 1
    assert consumer.counts == {"Dead": 1}


def test_of_a_renewal(engine, losing):
    gate, tasks = threading.Event(), []

    @handler("default")
    def work(task):
        tasks.append(task)
        assert gate.wait(PATIENCE)

    consumer = engine.start("default", pending_min_idle=1)
    engine.enqueue()
    engine.wait_until(lambda: tasks)
    losing.lose_reply_of("renew")
    losing.wait_lost()
    gate.set()
    engine.wait_counts(consumer, Done=1)
    assert [(task.attempt, task.lost) for task in tasks] == [(1, False)]
    engine.assert_drained()


@pytest.mark.parametrize("name", ["pending_page", "claim"])
def test_of_a_recovery(engine, losing, runs, name):
    task_id = engine.enqueue(max_attempts=5)
    engine.abandon()
    losing.lose_reply_of(name)
    consumer = engine.start("default", **QUICK)
    losing.wait_lost()
    engine.wait_counts(consumer, Done=1)
    assert runs == [(task_id, 2)]
    engine.assert_drained()


def test_of_a_burial(engine, losing, runs):
    task_id = engine.enqueue(max_attempts=1)
    engine.abandon()
    losing.lose_reply_of("dead_letter")
    consumer = engine.start("default", **QUICK)
    losing.wait_lost()
    rounds = threading.Semaphore(0)
    original = consumer._recoverer.recover

    def recover():
        handled = original()
        rounds.release()
        return handled

    consumer._recoverer.recover = recover
    assert rounds.acquire(timeout=PATIENCE)
    assert engine.only_dead()["id"] == task_id
    assert engine.count("meta", "dead") == 1
    assert runs == []


def test_of_a_hand_back(engine, losing):
    gate, inside, seen = threading.Event(), threading.Event(), []

    @handler("default")
    def work(task):
        seen.append((task.id, task.attempt))
        inside.set()
        assert gate.wait(PATIENCE)

    consumer = engine.start("default", concurrency=1, prefetch=1)
    first, second = engine.enqueue(), engine.enqueue()
    assert inside.wait(PATIENCE)
    engine.wait_until(lambda: len(engine.pending()) == 2)
    losing.lose_reply_of("release")
    stopping = threading.Thread(target=consumer.stop)
    stopping.start()
    losing.wait_lost()
    gate.set()
    stopping.join(PATIENCE)
    assert consumer.counts == {"Release": 1, "Done": 1}
    assert engine.client.xlen(engine.key("stream")) == 1
    assert engine.task(second).state is TaskState.READY
    assert engine.consumer().run_once() == 1
    assert seen == [(first, 1), (second, 1)]
    engine.assert_drained()


def test_of_a_promotion(engine, losing, runs):
    ids = [engine.enqueue(delay=0.3) for _ in range(3)]
    losing.lose_reply_of("promote")
    scheduler = engine.scheduler()
    scheduler.start()
    losing.wait_lost()
    consumer = engine.start("default", concurrency=5)
    engine.wait_counts(consumer, Done=3)
    assert sorted(runs) == sorted((task_id, 1) for task_id in ids)
    assert scheduler.leases_held == 1
    engine.assert_drained()


def test_of_a_cancellation(engine, losing, runs):
    task_id = engine.enqueue(delay=1000)
    losing.lose_reply_of("cancel")
    with pytest.raises(NO_REPLY):
        cancel("default", task_id)
    losing.wait_lost()
    assert engine.task(task_id) is None
    engine.assert_drained()

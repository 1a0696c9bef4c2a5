"""The server dies and comes back with its append-only file: what was accepted is done."""

from __future__ import annotations

import logging
import threading

import pytest
import redis

from django_redq.handlers import handler
from django_redq.service import logger as service_logger
from tests.harness import PATIENCE


class Work:
    """A handler whose ledger is the memory of the test, which nobody restarts."""

    def __init__(self):
        self.accepted = set()
        self.runs = []
        self.gate = threading.Event()
        self.inside = threading.Semaphore(0)

        @handler("default")
        def work(task):
            self.runs.append((task.id, task.attempt))
            if task.payload == "held":
                self.inside.release()
                assert self.gate.wait(PATIENCE)

    def done(self):
        return {task_id for task_id, _ in self.runs}

    def accept(self, engine, count, payload=None, **options):
        for _ in range(count):
            self.accepted.add(engine.enqueue(payload, **options))


@pytest.fixture
def work(own_engine):
    own_engine.configure(
        CONCURRENCY=4, PENDING_MIN_IDLE=2, RECOVERY_INTERVAL=0.2, BLOCK_TIMEOUT=0.5
    )
    made = Work()
    yield made
    made.gate.set()


def test_what_was_accepted_is_done_across_restarts(own_engine, work):
    engine, server = own_engine, own_engine.redq.server
    consumers = [engine.start("default") for _ in range(2)]
    engine.scheduler().start()
    for _ in range(3):
        work.accept(engine, 10)
        work.accept(engine, 10, delay=0.3)
        server.restart()
    engine.wait_until(lambda: work.done() == work.accepted)
    engine.assert_drained()
    # What is told as settled and what Redis counted is the same, none of it twice.
    assert sum(one.counts.get("Done", 0) for one in consumers) == 60


def test_what_ran_meanwhile_is_settled_once_it_is_back_and_said_once(own_engine, work, caplog):
    caplog.set_level(logging.INFO, service_logger.name)
    engine, server = own_engine, own_engine.redq.server
    consumer = engine.start("default")
    work.accept(engine, 4, "held")
    for _ in range(4):
        assert work.inside.acquire(timeout=PATIENCE)
    server.kill()
    work.gate.set()
    engine.wait_until(lambda: any("does not answer" in text for text in caplog.messages))
    server.start()
    engine.wait_counts(consumer, Done=4)
    engine.assert_drained()
    assert sorted(work.runs) == sorted((task_id, 1) for task_id in work.accepted)
    engine.wait_until(lambda: "is back" in caplog.text)
    said = [text for text in caplog.messages if f"consumer {consumer.name}" in text]
    assert ["does not answer" in said[0], "is back" in said[-1], len(said)] == [True, True, 2]


def test_an_enqueue_meanwhile_is_refused_and_leaves_nothing(own_engine, work):
    engine, server = own_engine, own_engine.redq.server
    consumer = engine.start("default")
    work.accept(engine, 1)
    engine.wait_counts(consumer, Done=1)
    server.kill()
    with pytest.raises(redis.ConnectionError) as raised:
        engine.enqueue(task_id="refused")
    assert any("refused" in note for note in raised.value.__notes__)
    server.start()
    work.accept(engine, 1)
    engine.wait_counts(consumer, Done=2)
    assert engine.task("refused") is None
    assert work.done() == work.accepted


def test_a_consumer_that_starts_while_it_is_away_waits_for_it(own_engine, work):
    engine, server = own_engine, own_engine.redq.server
    work.accept(engine, 3)
    work.accept(engine, 3, delay=0.1)
    server.kill()
    consumer, scheduler = engine.start("default"), engine.scheduler()
    scheduler.start()
    server.start()
    engine.wait_counts(consumer, Done=6)
    assert work.done() == work.accepted


def test_it_stops_while_the_server_is_away(own_engine, work):
    engine, server = own_engine, own_engine.redq.server
    consumer, scheduler = engine.start("default", shutdown_timeout=0.1), engine.scheduler()
    scheduler.start()
    work.accept(engine, 1, "held")
    assert work.inside.acquire(timeout=PATIENCE)
    server.kill()
    work.gate.set()
    consumer.stop()
    scheduler.stop()
    assert consumer.stopped.is_set()
    assert scheduler.stopped.is_set()
    server.start()
    other = engine.consumer()
    engine.age()
    # Its work was done, but nobody could say so: it is run again.
    assert other.recover_once() == 1
    (task_id,) = work.accepted
    assert work.runs == [(task_id, 1), (task_id, 2)]


def test_one_that_holds_nothing_stops_at_once_while_the_server_is_away(own_engine, work):
    consumer = own_engine.start("default", shutdown_timeout=3600)
    own_engine.redq.server.kill()
    own_engine.wait_until(lambda: consumer._outage._failing)
    consumer.stop()
    assert consumer.stopped.is_set()


def test_a_frozen_server_is_waited_for(own_engine, work):
    engine, server = own_engine, own_engine.redq.server
    engine.redq.configure(
        CONNECTION={"URL": engine.redq.url, "OPTIONS": {"socket_timeout": 0.2}},
    )
    consumer = engine.start("default")
    work.accept(engine, 2, "held")
    for _ in range(2):
        assert work.inside.acquire(timeout=PATIENCE)
    server.pause()
    work.gate.set()
    # Nothing is answered, so it was sent and is sent again.
    engine.wait_until(lambda: consumer._outage._failing)
    server.resume()
    engine.wait_counts(consumer, Done=2)
    engine.assert_drained()
    assert sorted(work.runs) == sorted((task_id, 1) for task_id in work.accepted)

"""Somebody deletes or overwrites what is in Redis while all is at work: what is left runs, nobody spins."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from django_redq.broker.keys import ShardKeys, shard_of
from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import NotReplayable, Reject
from django_redq.handlers import handler
from django_redq.queue import Queue
from django_redq.task import TaskState
from tests.harness import PATIENCE

SHARDS = 2
FAST = {"PENDING_MIN_IDLE": 0.6, "RECOVERY_INTERVAL": 0.1, "CONCURRENCY": 4}


def in_shard(number, name):
    """A task ID of this shard that begins so."""
    return next(i for n in range(99) if shard_of(i := f"{name}-{n}", SHARDS) == number)


HELD, LATER, DOOMED = (in_shard(0, name) for name in ("held", "later", "doomed"))


class Work:
    """A handler, and what it ran."""

    def __init__(self):
        self.runs = []
        self.gate = threading.Event()
        self.inside = threading.Semaphore(0)

        @handler("default")
        def work(task):
            self.runs.append(task.id)
            if task.payload == "held":
                self.inside.release()
                assert self.gate.wait(PATIENCE)
            if task.payload == "doomed":
                raise Reject


@pytest.fixture
def work(engine):
    made = Work()
    yield made
    made.gate.set()


@pytest.fixture
def at_work(engine, proxied, work):
    """A consumer and a scheduler; in shard 0 a task that runs, one that is due later, a dead one."""
    engine.configure(SHARDS=SHARDS, **FAST)
    engine.through(proxied.url)
    engine.redq.configure(SCHEDULER={"LEASE_TTL": 1})
    scheduler = engine.scheduler()
    scheduler.start()
    consumer = engine.start("default")
    engine.enqueue("doomed", task_id=DOOMED)
    engine.wait_counts(consumer, Dead=1)
    engine.enqueue("held", task_id=HELD)
    assert work.inside.acquire(timeout=PATIENCE)
    engine.enqueue("later", task_id=LATER, delay=36_000)
    yield consumer
    # Before the proxy goes.
    work.gate.set()
    consumer.stop()
    scheduler.stop()


def gone(engine, key):
    engine.client.delete(key)


def of_another_type(engine, key):
    kind = engine.client.type(key)
    engine.client.delete(key)
    if kind == b"string":
        engine.client.hset(key, "what", "is this")
    else:
        engine.client.set(key, "what is this")


@pytest.mark.parametrize("blow", [gone, pytest.param(of_another_type, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ShardKeys.__slots__)
def test_what_is_left_when_a_key_is(engine, proxied, work, at_work, caplog, name, blow):
    began, asked = time.monotonic(), proxied.asked
    blow(engine, engine.key(name))
    engine.enqueue("other", task_id=in_shard(1, "other"))
    engine.wait_until(lambda: in_shard(1, "other") in work.runs)
    work.gate.set()
    if blow is of_another_type:
        rounds = proxied.asked["repair"] + 2
        engine.wait_until(lambda: proxied.asked["repair"] >= rounds)
        gone(engine, engine.key(name))
    engine.enqueue("new", task_id=in_shard(0, "new"))
    engine.wait_until(lambda: in_shard(0, "new") in work.runs)
    dead = nothing_but_places(engine, work) if name == "payload" else all_of_it(engine, work)
    engine.wait_until(lambda: engine.client.hkeys(engine.key("payload")) == dead)
    engine.wait_until(lambda: at_work.is_idle and not engine.client.xlen(engine.key("stream")))
    lasted = time.monotonic() - began
    asked = proxied.asked - asked
    del asked["inspect"]  # which is the test's own
    assert all(times <= 30 * lasted + 30 for times in asked.values())
    assert "it goes on in a second" not in caplog.text
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(told) <= 4


def nothing_but_places(engine, work):
    """What is to be found once the payloads are gone; the dead letters that may be replayed."""
    assert engine.task(LATER) is None
    Queue("default").run_now(LATER)
    engine.wait_until(lambda: tombs(engine) == [LATER])
    assert LATER not in work.runs
    return []


def all_of_it(engine, work):
    """What is to be found once anything else is."""
    # Where its place has gone the janitor has made it READY.
    Queue("default").run_now(LATER)
    engine.wait_until(lambda: LATER in work.runs)
    engine.wait_until(lambda: engine.task(DOOMED).state is TaskState.DEAD)
    return [DOOMED.encode()]


def tombs(engine):
    return [one["id"] for one in engine.dead() if one["reason"] == "missing_payload"]


# --- one field, one entry ----------------------------------------------------------------------


def without_payload(engine, task_id):
    assert engine.client.hdel(engine.key("payload"), task_id) == 1


def without_entry(engine, task_id):
    place = engine.client.hget(engine.key("entry"), task_id)
    assert engine.client.xdel(engine.key("stream"), place) == 1


def without_group(engine, task_id):
    assert engine.client.xgroup_destroy(engine.key("stream"), "default")


@pytest.mark.parametrize("blow", [without_payload, without_entry, without_group])
def test_what_runs_is_done_once(engine, proxied, work, at_work, blow):
    blow(engine, HELD)
    rounds = proxied.asked["renew"] + 6
    engine.wait_until(lambda: proxied.asked["renew"] >= rounds)
    work.gate.set()
    engine.wait_until(lambda: at_work.is_idle)
    rounds = proxied.asked["repair"] + 2
    engine.wait_until(lambda: proxied.asked["repair"] >= rounds)
    assert work.runs.count(HELD) == 1
    assert at_work.counts["Done"] == 1
    assert engine.task(HELD) is None
    assert engine.client.xlen(engine.key("stream")) == 0
    assert tombs(engine) == []


@pytest.mark.parametrize("blow", [without_payload, without_entry])
def test_what_is_ready(engine, work, at_work, blow):
    ready = in_shard(0, "ready")
    Queue("default").pause()
    engine.enqueue(task_id=ready)
    blow(engine, ready)
    Queue("default").resume()
    if blow is without_entry:
        engine.wait_until(lambda: ready in work.runs)
    else:
        engine.wait_until(lambda: tombs(engine) == [ready])
    engine.wait_until(lambda: engine.task(ready) is None)
    assert work.runs.count(ready) == (blow is without_entry)


def test_a_parked_suspects_entry(engine, work, at_work):
    suspect = in_shard(0, "suspect")
    engine.enqueue(task_id=suspect, delay=36_000, max_attempts=3)
    engine.client.hset(engine.key("state"), suspect, b"2 1 3 - ")
    Queue("default").run_now(suspect)
    engine.wait_until(lambda: "_suspects" in {row["consumer"] for row in engine.pending()})
    without_entry(engine, suspect)
    work.gate.set()
    engine.wait_until(lambda: suspect in work.runs)
    engine.wait_until(lambda: at_work.is_idle and not engine.pending())
    assert work.runs.count(suspect) == 1


def test_a_dead_ones_payload(engine, proxied, at_work):
    without_payload(engine, DOOMED)
    letters = DeadLetterQueue("default")
    with pytest.raises(NotReplayable):
        letters.replay(DOOMED)
    assert letters.discard(DOOMED)
    assert engine.dead() == []


def test_payloads_whose_fields_are_no_task_ids_come_to_rest(engine, proxied, at_work):
    fields = [b"", b"\xff", b"surrogate \xed\xa0\x80", b"too long \xc0\x80"]
    for field in fields:
        engine.client.hset(engine.key("payload"), field, b'{"at":1,"payload":1}')
    letters = DeadLetterQueue("default")
    engine.wait_until(lambda: letters.count() == 1 + len(fields))
    before = engine.client.xrange(engine.key("dlq"))
    rounds = proxied.asked["repair"] + 2
    engine.wait_until(lambda: proxied.asked["repair"] >= rounds)
    assert engine.client.xrange(engine.key("dlq")) == before
    reasons = [letter.reason for letter in letters.list()]
    assert sorted(reasons) == ["invalid_payload"] * len(fields) + ["rejected"]
    assert letters.purge(reason="invalid_payload") == len(fields)
    assert not set(fields) & set(engine.client.hkeys(engine.key("payload")))


# --- all of it ---------------------------------------------------------------------------------


def test_everything(own_engine, caplog):
    engine = own_engine
    engine.configure(SHARDS=SHARDS, **FAST)
    engine.redq.configure(SCHEDULER={"LEASE_TTL": 1})
    work = Work()
    scheduler, consumers = engine.scheduler(), [engine.start("default") for _ in range(2)]
    scheduler.start()
    for blow in range(3):
        engine.enqueue("held")
        assert work.inside.acquire(timeout=PATIENCE)
        engine.enqueue(task_id=f"lost-{blow}", delay=36_000)
        engine.client.flushall()
        new = {engine.enqueue(), engine.enqueue(delay=0.1)}
        engine.wait_until(lambda new=new: new <= set(work.runs))
    work.gate.set()
    engine.wait_until(lambda: all(one.is_idle for one in consumers))
    engine.assert_drained()
    assert len(work.runs) == len(set(work.runs)) == 9
    assert "it goes on in a second" not in caplog.text


def test_a_stream_that_is_waited_for(engine, work):
    engine.configure()
    consumer = engine.start("default", block_timeout=3600)
    engine.enqueue()
    engine.wait_counts(consumer, Done=1)
    engine.wait_until(lambda: consumer._engine.listener.listening)
    gone(engine, engine.key("stream"))
    engine.enqueue()
    engine.wait_counts(consumer, Done=2)

"""What somebody else put into Redis, or took away, ends as a dead letter or one WARNING."""

from __future__ import annotations

import json
import logging

import pytest

from django_redq.handlers import handler
from django_redq.outcome import Reason
from django_redq.task import TaskState


@pytest.fixture
def runs():
    """A handler that works, and what it ran."""
    seen = []

    @handler("default")
    def work(task):
        seen.append(task.id)

    return seen


# The engine comes first: it has a registry of its own.
pytestmark = pytest.mark.usefixtures("engine")


def warnings(caplog):
    return [
        record
        for record in caplog.records
        if record.name.startswith("django_redq") and record.levelno >= logging.WARNING
    ]


def run_out(engine, consumer):
    """Runs and recovers until nothing happens any more; fails where that never comes."""
    for _ in range(10):
        if not consumer.run_once() + consumer.recover_once():
            return
    raise AssertionError("it never comes to an end")


# --- entries that stand for no task ------------------------------------------------------------

GARBAGE = {
    "other fields": {"foo": "bar"},
    "an empty id": {"id": ""},
    "an id that is no UTF-8": {"id": b"\xff\xfe"},
    "id in second place": {"foo": "bar", "id": "x"},
}


@pytest.mark.every_server
@pytest.mark.parametrize("fields", GARBAGE.values(), ids=GARBAGE)
def test_garbage_in_the_stream_is_removed_with_one_warning(engine, runs, caplog, fields):
    engine.client.xadd(engine.key("stream"), fields)
    task_id = engine.enqueue()
    consumer = engine.start("default", concurrency=5)
    engine.wait_counts(consumer, Done=1)
    engine.assert_drained()
    assert runs == [task_id]
    assert len(warnings(caplog)) == 1
    assert engine.dead() == []


@pytest.mark.parametrize("fields", GARBAGE.values(), ids=GARBAGE)
def test_garbage_that_a_vanished_owner_holds_is_removed(engine, runs, caplog, fields):
    engine.client.xadd(engine.key("stream"), fields)
    engine.abandon()
    run_out(engine, engine.consumer())
    engine.assert_drained()
    assert len(warnings(caplog)) == 1


def test_an_id_without_a_payload_becomes_a_tombstone(engine, runs):
    engine.client.xadd(engine.key("stream"), {"id": "nobody"})
    consumer = engine.consumer()
    run_out(engine, consumer)
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"]) == ("nobody", Reason.MISSING_PAYLOAD)
    assert letter["type"] == "django_redq.errors.MissingPayload"
    assert engine.client.hgetall(engine.key("entry")) == {}
    assert engine.pending() == []
    assert runs == []


def test_a_second_entry_of_a_task_is_removed(engine, runs, caplog):
    task_id = engine.enqueue()
    engine.client.xadd(engine.key("stream"), {"id": task_id})
    run_out(engine, engine.consumer(concurrency=5))
    engine.assert_drained()
    assert runs == [task_id]
    assert "its task lives in another entry" in caplog.text


def test_a_second_entry_that_a_vanished_owner_holds_is_removed(engine, runs):
    task_id = engine.enqueue(run_at=None, delay=1000)
    engine.client.xadd(engine.key("stream"), {"id": task_id})
    engine.client.hset(engine.key("entry"), task_id, "1-1")
    engine.abandon()
    assert engine.consumer().recover_once() == 1
    assert engine.pending() == []
    assert engine.task(task_id).state is TaskState.SCHEDULED


@pytest.mark.every_server
def test_a_pending_row_whose_entry_is_gone_is_removed_and_its_task_put_back(engine, runs, caplog):
    task_id = engine.enqueue()
    (entry,) = engine.abandon()
    engine.client.xdel(engine.key("stream"), entry)
    consumer = engine.consumer(pending_min_idle=0.01)
    assert consumer.recover_once() == 1
    assert engine.pending() == []
    scheduler = engine.scheduler(now=lambda: 3e9)
    scheduler.run_once()
    scheduler.clean_once()
    # The holder, if there is one, gets time to say so.
    later = engine.scheduler(now=lambda: 4e9)
    scheduler.stop()
    later.run_once()
    assert later.clean_once() == 1
    assert consumer.run_once() == 1
    assert runs == [task_id]
    engine.assert_drained()


# --- payloads ----------------------------------------------------------------------------------

RECORDS = {
    "no JSON": b"\xff{",
    "cut short": b'{"at":1,"payload":[1,2',
    "another JSON": b"[1]",
    "without a payload": b'{"at":1}',
    "ill-typed": b'{"at":"now","payload":1}',
    "an absurd time": b'{"at":1e400,"payload":1}',
    "no UTF-8 inside": b'{"at":1,"payload":"\xff"}',
    "empty": b"",
    "100,000 levels": b'{"at":1,"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("way", ["fetched", "recovered"])
def test_a_record_that_is_none_is_dead_and_told_in_words(engine, runs, record, way):
    task_id = engine.enqueue(max_attempts=3)
    engine.client.hset(engine.key("payload"), task_id, record)
    if way == "recovered":
        engine.abandon()
    run_out(engine, engine.consumer())
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"]) == (task_id, Reason.INVALID_PAYLOAD)
    assert letter["error"]
    assert runs == []
    assert engine.client.hget(engine.key("payload"), task_id) == record
    assert engine.pending() == []


def test_a_state_that_is_garbled_counts_as_new(engine, runs):
    task_id = engine.enqueue()
    engine.client.hset(engine.key("state"), task_id, b"\xffgarbage 1 2 3")
    run_out(engine, engine.consumer())
    assert runs == [task_id]
    engine.assert_drained()


def test_failures_that_are_garbled_are_forgotten(engine):
    seen = []

    @handler("default")
    def work(task):
        seen.append((task.attempt, task.last_error))
        raise ValueError("no luck")

    task_id = engine.enqueue(max_attempts=5)
    engine.client.hset(engine.key("state"), task_id, b"2 0 5 - {not a list")
    engine.consumer().run_once()
    assert seen == [(3, None)]
    assert [error.error for error in engine.task(task_id).errors] == ["no luck"]


# --- missing payloads --------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["fetched", "recovered"])
def test_a_missing_payload_is_buried_as_a_tombstone(engine, runs, way):
    heard = engine.heard()
    task_id = engine.enqueue()
    engine.client.hdel(engine.key("payload"), task_id)
    if way == "recovered":
        engine.abandon()
    run_out(engine, engine.consumer())
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"]) == (task_id, Reason.MISSING_PAYLOAD)
    assert engine.task(task_id) is None
    assert engine.count("meta", "tombstones") == 1
    (facts,) = heard.named("task_dead_lettered")
    assert facts["task"] is None
    assert runs == []
    # The ID is free again.
    assert engine.enqueue(task_id=task_id) == task_id
    assert engine.consumer().run_once() == 1


@pytest.mark.parametrize("way", ["fetched", "recovered"])
def test_a_missing_payload_may_be_kept_pending(engine, runs, caplog, way):
    engine.configure(MISSING_PAYLOAD="keep_pending")
    task_id = engine.enqueue()
    engine.client.hdel(engine.key("payload"), task_id)
    if way == "recovered":
        engine.abandon()
    consumer = engine.consumer()
    run_out(engine, consumer)
    assert len(engine.pending()) == 1
    assert engine.dead() == []
    assert len(warnings(caplog)) == (1 if way == "fetched" else 0)
    # Who restores the payload has the task run.
    engine.client.hset(engine.key("payload"), task_id, json.dumps({"at": 1, "payload": 7}))
    engine.age()
    engine.consumer().recover_once()
    assert runs == [task_id]
    engine.assert_drained()


def test_what_is_kept_pending_is_told_once_by_a_running_consumer(engine, runs, caplog):
    engine.configure(MISSING_PAYLOAD="keep_pending")
    task_id = engine.enqueue()
    engine.client.hdel(engine.key("payload"), task_id)
    consumer = engine.start("default", recovery_interval=0.01, pending_min_idle=0.05)
    engine.wait_until(lambda: warnings(caplog))
    for _ in range(5):
        engine.age()
        consumer._recoverer.recover()
        engine.enqueue()
    engine.wait_counts(consumer, Done=5)
    assert len(warnings(caplog)) == 1
    # And its slot is free: it holds nothing.
    engine.wait_until(lambda: consumer.is_idle)
    assert len(engine.pending()) == 1


# --- whole keys --------------------------------------------------------------------------------


@pytest.mark.every_server
@pytest.mark.parametrize("name", ["stream", "payload", "state", "entry"])
def test_a_shard_with_a_key_of_the_wrong_type_does_not_stop_the_others(engine, runs, caplog, name):
    engine.configure(SHARDS=2)
    engine.client.set(engine.key(name, shard=0), "not what it should be")
    if name != "stream":
        engine.client.xadd(engine.key("stream", shard=0), {"id": "x"})
    ids = {engine.enqueue(task_id=f"t{n}") for n in range(30) if _shard(f"t{n}") == 1}
    consumer = engine.start("default", concurrency=10)
    engine.wait_until(lambda: consumer.counts.get("Done", 0) == len(ids))
    assert set(runs) == ids
    assert consumer.fatal is None


def _shard(task_id):
    from django_redq.broker.keys import shard_of

    return shard_of(task_id, 2)

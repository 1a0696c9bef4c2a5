"""One node of a Cluster refuses to write for now, or to serve a slot: its shards wait, and every loop goes on with the others."""

from __future__ import annotations

import contextlib
import logging
import threading

import pytest

from django_redq.broker.keys import shard_of
from django_redq.consumer import fetcher
from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import Reject
from django_redq.handlers import handler
from tests.engine import GHOST
from tests.harness import PATIENCE, until

SHARDS = 8


def id_in(shard):
    """A task ID that belongs to this shard."""
    return next(one for n in range(999) if shard_of(one := f"t{shard}-{n}", SHARDS) == shard)


class Hit:
    """A node, the shards that it has, and how it comes to refuse."""

    def __init__(self, engine):
        self.node = engine.redq.cluster.owner_of(engine.key("stream", shard=0))
        owner_of = engine.redq.cluster.owner_of
        here = {n for n in range(SHARDS) if owner_of(engine.key("stream", shard=n)) is self.node}
        self.ids = {id_in(n) for n in here}
        self.other_ids = {id_in(n) for n in range(SHARDS)} - self.ids
        self._client = engine.redq.cluster.client_of(self.node)

    @contextlib.contextmanager
    def refusing(self):
        self._client.config_set("min-replicas-to-write", 9)
        try:
            yield
        finally:
            self._client.config_set("min-replicas-to-write", 0)

    @contextlib.contextmanager
    def missing(self, key):
        slot = self._client.execute_command("CLUSTER", "KEYSLOT", key)
        self._client.execute_command("CLUSTER", "DELSLOTS", slot)
        try:
            yield
        finally:
            self._client.execute_command("CLUSTER", "ADDSLOTS", slot)

    @property
    def all_ids(self):
        return self.ids | self.other_ids


@pytest.fixture
def engine(cluster_engine):
    cluster_engine.configure(
        SHARDS=SHARDS, CONCURRENCY=16, RETRY={"POLICY": "fixed", "INTERVAL": 0.05}
    )
    return cluster_engine


@pytest.fixture
def hit(engine):
    made = Hit(engine)
    assert made.ids
    assert made.other_ids
    return made


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "django_redq")
    return caplog


class Gated:
    """A handler whose tasks wait for the gate, and then end as their payload says."""

    def __init__(self):
        self.gate = threading.Event()
        self.inside = threading.Semaphore(0)
        self.runs = []

        @handler("default")
        def work(task):
            self.runs.append(task.id)
            self.inside.release()
            assert self.gate.wait(PATIENCE)
            if task.payload == "doomed":
                raise Reject


def test_what_is_done_elsewhere_is_settled_and_what_is_done_here_waits(engine, hit, log):
    work = Gated()
    for task_id in hit.all_ids:
        engine.enqueue(task_id=task_id)
    consumer = engine.start("default")
    for _ in hit.all_ids:
        assert work.inside.acquire(timeout=PATIENCE)
    with hit.refusing():
        work.gate.set()
        engine.wait_counts(consumer, Done=len(hit.other_ids))
        until(lambda: log.text.count("cannot be settled in") == len(hit.ids))
        for task_id in hit.other_ids:
            engine.enqueue(task_id=task_id)
        engine.wait_counts(consumer, Done=2 * len(hit.other_ids))
        assert "does not answer" not in log.text
        assert log.text.count("cannot be settled in") == len(hit.ids)
    engine.wait_counts(consumer, Done=len(hit.ids) + 2 * len(hit.other_ids))
    assert sorted(work.runs) == sorted([*hit.all_ids, *hit.other_ids])
    assert engine.pending() == []


def test_the_schedulers_loops_go_on_with_the_others(engine, hit, log):
    for task_id in hit.all_ids:
        engine.enqueue(task_id=task_id, delay=0.05)
    lost = min(hit.other_ids)
    engine.configure(SHARDS=SHARDS, PENDING_MIN_IDLE=0.1)
    with hit.refusing():
        scheduler = engine.scheduler()
        scheduler.start()
        until(lambda: scheduler.moved == len(hit.other_ids))
        # Its payload is left, and nothing else.
        shard = shard_of(lost, SHARDS)
        engine.client.delete(engine.key("stream", shard=shard), engine.key("entry", shard=shard))
        until(lambda: "had lost their place" in log.text)
        assert "does not answer" not in log.text
    until(lambda: scheduler.moved == len(hit.all_ids))
    assert "does not answer" not in log.text


def test_dead_letters_elsewhere_are_discarded(engine, hit, log):
    work = Gated()
    work.gate.set()
    for task_id in hit.all_ids:
        engine.enqueue("doomed", task_id=task_id)
    consumer = engine.start("default")
    engine.wait_counts(consumer, Dead=SHARDS)
    scheduler = engine.scheduler()
    scheduler.run_once()
    DeadLetterQueue("default").start_discard()
    with hit.refusing():
        scheduler._janitor.carry_on()
        assert {one["id"] for one in engine.dead()} == hit.ids
    until(lambda: scheduler.run_once() == 0 and engine.dead() == [])


def test_others_lost_tasks_are_taken_over_and_its_owners_have_time_when_it_is_well(engine, hit):
    work = Gated()
    work.gate.set()
    for task_id in hit.all_ids:
        engine.enqueue(task_id=task_id)
    for shard in range(SHARDS):
        engine.abandon(shard=shard)
    consumer = engine.consumer(recovery_interval=60)
    recoverer = consumer._recoverer
    with hit.refusing():
        recoverer.step()
        until(lambda: set(work.runs) == hit.other_ids)
    recoverer._next_round = 0.0
    recoverer.step()
    owners = {
        row["consumer"]
        for task_id in hit.ids
        for row in engine.pending(shard=shard_of(task_id, SHARDS))
    }
    assert owners == {GHOST}
    assert set(work.runs) == hit.other_ids


def test_a_suspect_has_nobody_empty_himself_who_cannot(engine, hit, monkeypatch):
    monkeypatch.setattr(fetcher, "PATIENCE", 0.0)
    monkeypatch.setattr(fetcher, "TURN_INTERVAL", 0.01)
    work = Gated()
    stays, suspect, later = min(hit.ids), min(hit.other_ids), max(hit.other_ids)
    engine.enqueue(task_id=stays)
    consumer = engine.start("default")
    assert work.inside.acquire(timeout=PATIENCE)
    shard = shard_of(suspect, SHARDS)
    with hit.refusing():
        work.gate.set()
        until(lambda: consumer._engine.table.has_aside)
        engine.client.hset(engine.key("state", shard=shard), suspect, b"2 1 3 - ")
        engine.enqueue(task_id=suspect, max_attempts=3)
        until(lambda: consumer._engine.fetcher._parked)
        engine.enqueue(task_id=later)
        until(lambda: later in work.runs)
    engine.wait_counts(consumer, Done=3)
    assert sorted(work.runs) == sorted([stays, suspect, later])


def test_a_slot_that_nobody_serves_is_missing_alone(engine, hit, log):
    work = Gated()
    work.gate.set()
    consumer = engine.start("default")
    engine.enqueue()
    engine.wait_counts(consumer, Done=1)
    lost = max(hit.ids)
    key = engine.key("stream", shard=shard_of(lost, SHARDS))
    with hit.missing(key):
        for task_id in hit.all_ids - {lost}:
            engine.enqueue(task_id=task_id)
        engine.wait_counts(consumer, Done=len(hit.all_ids))
        assert "is away" not in log.text
    engine.enqueue(task_id=lost)
    engine.wait_counts(consumer, Done=len(hit.all_ids) + 1)

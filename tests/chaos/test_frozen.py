"""Processes that stand still past their time, and then go on as if nothing had been: they change nothing."""

from __future__ import annotations

import os
import signal
import socket
import threading

import pytest

from django_redq import Reject
from django_redq.handlers import handler
from tests.harness import until

SERVES = "serves default"
NEVER_DUE = 3600
OTHERS = ("ok", "fails", "rejected", "runs")
"""What became of the tasks with who took them over: the last one still runs."""


@pytest.fixture
def quick(engine):
    engine.redq.configure(
        queues={
            "default": {
                "SHARDS": 1,
                "PENDING_MIN_IDLE": 0.5,
                "RECOVERY_INTERVAL": 0.1,
                "BLOCK_TIMEOUT": 0.5,
                "MAX_ATTEMPTS": 5,
            }
        },
        SCHEDULER={"LEASE_TTL": 0.5, "TICK_INTERVAL": 0.1},
    )
    return engine


@pytest.fixture
def patient(engine):
    """A queue whose vanished owners are noticed soon, and whose retries stay where they are."""
    engine.redq.configure(
        queues={
            "default": {
                "SHARDS": 2,
                "CONCURRENCY": 4,
                "PENDING_MIN_IDLE": 0.6,
                "RECOVERY_INTERVAL": 0.05,
                "BLOCK_TIMEOUT": 0.5,
                "RETRY": {"POLICY": "fixed", "INTERVAL": NEVER_DUE},
            }
        },
    )
    return engine


@pytest.fixture
def twins(monkeypatch):
    """As containers have it, where each host is called the same and each pid is 1."""
    monkeypatch.setattr(socket, "gethostname", lambda: "web")
    monkeypatch.setattr(os, "getpid", lambda: 1)


def spawn(engine, ledger, *arguments):
    process = engine.spawn(ledger, *arguments)
    process.wait_for(SERVES)
    return process


def books(engine):
    """The counters of both shards, and what there is of retries and letters."""
    counters = {
        name: sum(engine.count("meta", name, shard=shard) for shard in (0, 1))
        for name in ("done", "retried", "dead")
    }
    scheduled = sum(engine.client.zcard(engine.key("delay", shard=shard)) for shard in (0, 1))
    return {**counters, "scheduled": scheduled, "letters": len(engine.dead())}


@pytest.mark.parametrize("outcome", ["done", "failed", "rejected"])
def test_a_consumer_settles_nothing_that_is_another_ones_by_now(quick, ledger, outcome):
    engine = quick
    frozen = spawn(engine, ledger, "redq_consume", "default")
    task_id = engine.enqueue(outcome, kind="frozen")
    ledger.wait_for("begun", 1)
    frozen.send(signal.SIGSTOP)
    other = spawn(engine, ledger, "redq_consume", "default")
    ledger.wait_for("begun", 2)

    frozen.send(signal.SIGCONT)
    ledger.wait_for("late", 1, pid=frozen.pid)
    frozen.wait_for(task_id)  # It tells that it has lost the task.
    (row,) = engine.pending()
    assert row["count"] == 2
    ledger.open()
    ledger.wait_for("done", 1, pid=other.pid)
    engine.assert_drained()
    counted = {name: engine.count("meta", name) for name in ("done", "retried", "dead")}
    assert counted == {"done": 1, "retried": 0, "dead": 0}
    assert engine.dead() == []

    assert other.terminate() == 0
    after = engine.enqueue()
    ledger.wait_for("done", 1, pid=frozen.pid, task_id=after)
    assert frozen.terminate() == 0
    assert len(ledger.of("begun", task_id=task_id)) == 2


class Rescuer:
    """A consumer of this process that ends each task as its ID says."""

    def __init__(self, engine):
        self.let_go = threading.Event()
        self.begun = []

        @handler("default", kind="told")
        def end_as_told(task):
            self.begun.append(task.id)
            if task.id == "fails":
                raise ValueError("no luck")
            if task.id == "rejected":
                raise Reject("no use")
            if task.id == "runs":
                until(self.let_go.is_set)

        self.consumer = engine.start("default")


@pytest.mark.parametrize("is_told_first", [False, True], ids=["settles first", "renews first"])
@pytest.mark.parametrize("outcome", ["ok", "fails", "rejected"])
def test_what_a_frozen_consumer_ran_is_the_others(patient, ledger, outcome, is_told_first):
    engine = patient
    victim = engine.spawn(ledger, "redq_consume", "default")
    for name in OTHERS:
        engine.enqueue(outcome, kind="told", task_id=name)
    ledger.wait_for("begun", len(OTHERS), kind="told")
    victim.send(signal.SIGSTOP)
    rescuer = Rescuer(engine)
    engine.wait_until(lambda: len(rescuer.begun) == len(OTHERS))
    engine.wait_counts(rescuer.consumer, Done=1, RetryAt=1, Dead=1)
    after = {"done": 1, "retried": 1, "dead": 1, "scheduled": 1, "letters": 1}
    assert books(engine) == after
    (letter,) = engine.dead()

    if not is_told_first:
        ledger.open()
    victim.send(signal.SIGCONT)
    if is_told_first:
        for name in OTHERS:
            victim.wait_for(f"default/{name} is not held any more")
        ledger.open()
    for name in OTHERS:
        assert "INFO" in victim.wait_for(f"task {name} of 'default' is not held by this")
    assert books(engine) == after
    assert engine.dead() == [letter]
    assert [row["consumer"] for shard in (0, 1) for row in engine.pending(shard=shard)] == [
        rescuer.consumer.name
    ]

    rescuer.let_go.set()
    engine.wait_counts(rescuer.consumer, Done=2)
    rescuer.consumer.stop()
    ledger.accepted |= {engine.enqueue() for _ in range(8)}
    engine.wait_until(lambda: not ledger.missing())
    assert {note.pid for note in ledger.of("done")} == {victim.pid}
    assert victim.terminate() == 0
    assert books(engine) == {**after, "done": 2 + 8}
    # It has told of no failure, as nothing came of it.
    assert "attempt 1 failed" not in victim.output


def test_a_scheduler_promotes_nothing_once_another_has_its_lease(quick, ledger):
    engine = quick
    spawn(engine, ledger, "redq_consume", "default")
    frozen = spawn(engine, ledger, "redq_scheduler", "--instance-id", "frozen")
    engine.wait_until(lambda: engine.lease_owner().startswith("frozen"))
    frozen.send(signal.SIGSTOP)
    other = spawn(engine, ledger, "redq_scheduler", "--instance-id", "other")
    engine.wait_until(lambda: engine.lease_owner().startswith("other"))

    frozen.send(signal.SIGCONT)
    ids = {engine.enqueue(delay=0.1) for _ in range(5)}
    engine.wait_until(lambda: ledger.done() == ids)
    frozen.wait_for("holds the leases of 0 of 1 shards")
    assert engine.lease_owner().startswith("other")
    assert other.terminate() == 0
    engine.wait_until(lambda: engine.lease_owner().startswith("frozen"))
    ids.add(engine.enqueue(delay=0.1))
    engine.wait_until(lambda: ledger.done() == ids)
    assert len(ledger.of("done")) == len(ids)
    assert frozen.terminate() == 0


def test_a_scheduler_leaves_what_is_due_to_the_owner_of_the_lease(quick, ledger):
    engine = quick
    frozen = spawn(engine, ledger, "redq_scheduler", "--instance-id", "frozen")
    engine.wait_until(lambda: engine.lease_owner().startswith("frozen"))
    frozen.send(signal.SIGSTOP)
    heir = spawn(engine, ledger, "redq_scheduler", "--instance-id", "heir", "--lease-ttl", "600")
    engine.wait_until(lambda: engine.lease_owner().startswith("heir"))
    # The heir stands still, too, so that there is something that the former owner must not move.
    heir.send(signal.SIGSTOP)
    for _ in range(5):
        engine.enqueue(delay=0.001)
    frozen.send(signal.SIGCONT)
    frozen.wait_for("holds the leases of 0 of 1 shards")
    assert engine.lease_owner().startswith("heir")
    assert engine.client.zcard(engine.key("delay")) == 5

    heir.send(signal.SIGCONT)
    engine.wait_until(lambda: engine.client.xlen(engine.key("stream")) == 5)
    assert [heir.terminate(), frozen.terminate()] == [0, 0]


def test_two_consumers_of_one_host_name_and_pid_are_two(patient, twins):
    engine = patient
    inside, gate, runs = threading.Event(), threading.Event(), []

    @handler("default")
    def work(task):
        runs.append(task.id)
        inside.set()
        until(gate.is_set)

    owner = engine.start("default")
    task_id = engine.enqueue()
    until(inside.is_set)
    twin = engine.consumer("default")
    assert owner.name != twin.name
    assert {owner.name.rsplit("-", 1)[0], twin.name.rsplit("-", 1)[0]} == {"web-1"}
    # What bears its own name it would adopt.
    twin._engine.look_for_orphans()
    assert (twin.run_once(), twin.recover_once()) == (0, 0)
    gate.set()
    engine.wait_counts(owner, Done=1)
    engine.assert_drained()
    assert runs == [task_id]


def test_two_schedulers_of_one_host_name_and_pid_are_two(patient, twins):
    engine = patient
    owner, twin = engine.scheduler(), engine.scheduler()
    assert {owner.instance_id.rsplit("-", 1)[0], twin.instance_id.rsplit("-", 1)[0]} == {"web-1"}
    owner.run_once()
    twin.run_once()
    assert (owner.leases_held, twin.leases_held) == (2, 0)
    twin.stop()
    assert all(
        engine.client.get(engine.key("lease", shard=shard)) == owner.instance_id.encode()
        for shard in (0, 1)
    )

"""Processes that stand still past their time, and then go on as if nothing had been: they change nothing."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from django_redq.consumer.consumer import Consumer
from django_redq.scheduler.scheduler import Scheduler

SERVES = "serves default"


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


def spawn(engine, ledger, *arguments):
    process = engine.spawn(ledger, *arguments)
    process.wait_for(SERVES)
    return process


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


def test_a_scheduler_promotes_nothing_once_another_has_its_lease(quick, ledger):
    engine = quick
    spawn(engine, ledger, "redq_consume", "default")
    frozen = spawn(engine, ledger, "redq_scheduler", "--instance-id", "frozen")
    engine.wait_until(lambda: lease_of(engine).startswith("frozen"))
    frozen.send(signal.SIGSTOP)
    other = spawn(engine, ledger, "redq_scheduler", "--instance-id", "other")
    engine.wait_until(lambda: lease_of(engine).startswith("other"))

    frozen.send(signal.SIGCONT)
    ids = {engine.enqueue(delay=0.1) for _ in range(5)}
    engine.wait_until(lambda: ledger.done() == ids)
    frozen.wait_for("holds the leases of 0 of 1 shards")
    assert lease_of(engine).startswith("other")
    assert other.terminate() == 0
    engine.wait_until(lambda: lease_of(engine).startswith("frozen"))
    ids.add(engine.enqueue(delay=0.1))
    engine.wait_until(lambda: ledger.done() == ids)
    assert len(ledger.of("done")) == len(ids)
    assert frozen.terminate() == 0


def lease_of(engine):
    return (engine.client.get(engine.key("lease")) or b"").decode()


def test_two_processes_of_one_name_and_pid_are_two(engine, monkeypatch):
    """As containers have it, where each host is called the same and each pid is 1."""
    monkeypatch.setattr(socket, "gethostname", lambda: "worker")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    consumers = [Consumer("default") for _ in range(2)]
    schedulers = [Scheduler("default") for _ in range(2)]
    assert len({one.name for one in consumers}) == 2
    assert len({one.instance_id for one in schedulers}) == 2
    for one in consumers:
        assert one.name.startswith("worker-1-")

"""Clocks that are an hour apart from that of Redis: nothing that is relative goes by them."""

from __future__ import annotations

import time

import pytest

from django_redq.errors import Reject
from django_redq.handlers import handler
from tests.engine import as_json

HOUR = 3600
LONG = 1000
"""Seconds of a delay that no test waits for."""
both_ways = pytest.mark.parametrize(
    "shift",
    [pytest.param(HOUR, id="ahead"), pytest.param(-HOUR, id="behind", marks=pytest.mark.long)],
)


@pytest.fixture
def quick(engine):
    engine.redq.configure(
        queues={
            "default": {
                "SHARDS": 1,
                "CONCURRENCY": 2,
                "PENDING_MIN_IDLE": 0.6,
                "RECOVERY_INTERVAL": 0.1,
                "BLOCK_TIMEOUT": 0.5,
                "MAX_ATTEMPTS": 2,
                "DEAD_LETTER_MAX_AGE": HOUR / 2,
                "RETRY": {"POLICY": "fixed", "INTERVAL": 0.2},
            }
        },
        SCHEDULER={"LEASE_TTL": 1, "TICK_INTERVAL": 0.1},
    )
    return engine


def spawn(engine, ledger, *arguments, shift):
    process = engine.spawn(ledger, *arguments, REDQ_TEST_CLOCK=str(shift))
    process.wait_for("serves default")
    return process


def redis_now(engine):
    seconds, _ = engine.client.time()
    return int(seconds)


def is_now(engine, seconds):
    return abs(seconds - redis_now(engine)) < 60


def wait_for_a_renewal(engine, left):
    """Waits until what runs down is wound up again."""
    seen = [left()]

    def has_risen():
        seen.append(left())
        return seen[-1] > seen[-2]

    engine.wait_until(has_risen)


@both_ways
def test_a_delay_is_counted_from_the_call(quick, monkeypatch, shift):
    engine = quick
    real = time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: real() + shift)
        patched.setattr(time, "time_ns", lambda: int((real() + shift) * 1e9))
        task_id = engine.enqueue(delay=LONG)
    due = engine.client.zscore(engine.key("delay"), task_id) / 1000
    assert is_now(engine, due - LONG)
    made = as_json(engine.client.hget(engine.key("payload"), task_id))
    assert is_now(engine, made["at"] / 1000)


@both_ways
def test_workers_and_schedulers(quick, ledger, shift):
    """Delays, retries, deaths and their age, where the one is ahead as far as the other is behind."""
    engine = quick
    spawn(engine, ledger, "redq_consume", "default", shift=shift)
    scheduler = spawn(engine, ledger, "redq_scheduler", shift=-shift)
    good = {engine.enqueue(delay=0.2), engine.enqueue(kind="flaky")}
    bad = engine.enqueue(kind="bad")
    waits = engine.enqueue(delay=LONG)
    engine.wait_until(lambda: ledger.done() == good and engine.dead())

    letter = engine.only_dead()
    assert letter["id"] == bad
    assert is_now(engine, int(letter["at"]) / 1000)
    assert engine.task(waits).state == "scheduled"

    # Its janitor has come round, and taken nobody's letter for one that is old.
    scheduler.terminate()
    other = engine.scheduler()
    other.run_once()
    other.clean_once()
    assert engine.only_dead()["id"] == bad


@both_ways
def test_ownership_goes_by_the_clock_of_redis(quick, ledger, shift):
    engine = quick
    owner = spawn(engine, ledger, "redq_consume", "default", shift=shift)
    task_id = engine.enqueue(kind="held")
    ledger.wait_for("begun", 1)
    spawn(engine, ledger, "redq_consume", "default", shift=-shift)
    # Renewals come and go, and the other takes nothing over.
    for _ in range(3):
        wait_for_a_renewal(engine, lambda: -engine.pending()[0]["idle"])
    assert [note.attempt for note in ledger.of("begun")] == [1]
    owner.kill()
    ledger.wait_for("begun", 2, task_id=task_id)
    ledger.open()
    engine.assert_drained()


@both_ways
def test_leases_go_by_the_clock_of_redis(quick, ledger, shift):
    engine = quick
    owner = spawn(engine, ledger, "redq_scheduler", "--instance-id", "owner", shift=shift)
    engine.wait_until(lambda: engine.lease_owner().startswith("owner"))
    spawn(engine, ledger, "redq_scheduler", "--instance-id", "standby", shift=-shift)
    for _ in range(3):
        assert 0 < engine.client.pttl(engine.key("lease")) <= 1000
        wait_for_a_renewal(engine, lambda: engine.client.pttl(engine.key("lease")))
    assert engine.lease_owner().startswith("owner")
    owner.kill()
    engine.wait_until(lambda: engine.lease_owner().startswith("standby"))


@both_ways
def test_of_a_death_is_told_when_redis_saw_it(quick, monkeypatch, shift):
    engine = quick
    heard = engine.heard()

    @handler("default")
    def reject(task):
        raise Reject

    real = time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: real() + shift)
        engine.enqueue()
        engine.consumer().run_once()
    (told,) = heard.wait("task_dead_lettered")
    assert is_now(engine, told["letter"].failed_at.timestamp())

"""``kill -9`` of the processes that do the work: the ledger, outside of Redis, misses nothing."""

from __future__ import annotations

import signal

import pytest

KINDS = ("", "async", "flaky")


@pytest.fixture
def quick(engine):
    """A queue on which vanished owners are noticed soon."""
    engine.redq.configure(
        queues={
            "default": {
                "SHARDS": 2,
                "CONCURRENCY": 4,
                "PENDING_MIN_IDLE": 0.5,
                "RECOVERY_INTERVAL": 0.1,
                "BLOCK_TIMEOUT": 0.5,
                "MAX_ATTEMPTS": 10,
                "RETRY": {"POLICY": "fixed", "INTERVAL": 0.05},
            }
        },
        SCHEDULER={"LEASE_TTL": 0.5, "TICK_INTERVAL": 0.1},
    )
    return engine


def accept(engine, ledger, count, **options):
    """Enqueues some of each kind; what Redis has accepted goes into the ledger."""
    for kind in KINDS:
        ledger.accepted |= {engine.enqueue(kind=kind, **options) for _ in range(count)}


def test_a_killed_consumers_tasks_are_done_by_the_others(quick, ledger):
    engine = quick
    victim = engine.spawn(ledger, "redq_consume", "default")
    held = {engine.enqueue(kind="held") for _ in range(4)}
    ledger.accepted |= held
    ledger.wait_for("begun", 4, kind="held", pid=victim.pid)
    other = engine.spawn(ledger, "redq_consume", "default", "--with-scheduler")
    accept(engine, ledger, 8)
    accept(engine, ledger, 4, delay=0.2)
    victim.kill()
    ledger.open()
    engine.wait_until(lambda: not ledger.missing())
    engine.assert_drained()
    assert other.terminate() == 0
    # Twice was begun what the dead one held, and nothing else.
    again = {note.task_id for note in ledger.of("begun", kind="held", attempt=2)}
    assert again == held
    assert len(ledger.of("done")) == len(ledger.accepted)
    assert ledger.done() == ledger.accepted


def test_kill_after_kill_nothing_is_lost(quick, ledger):
    engine = quick
    workers = [engine.spawn(ledger, "redq_consume", "default") for _ in range(2)]
    scheduler = engine.spawn(ledger, "redq_scheduler")
    for round_ in range(3):
        accept(engine, ledger, 6)
        accept(engine, ledger, 3, delay=0.1)
        done = len(ledger.of("done"))
        engine.wait_until(lambda done=done: len(ledger.of("done")) > done)
        workers[0].kill()
        workers = [workers[1], engine.spawn(ledger, "redq_consume", "default")]
        if round_ == 1:
            scheduler.kill()
            scheduler = engine.spawn(ledger, "redq_scheduler")
    engine.wait_until(lambda: not ledger.missing())
    engine.assert_drained()
    assert engine.dead() == []
    for process in (*workers, scheduler):
        # Before it is that far, SIGTERM ends it as it ends any process.
        process.wait_for("serves")
        assert process.terminate() == 0


def test_a_killed_scheduler_is_followed_by_another(quick, ledger):
    engine = quick
    engine.spawn(ledger, "redq_consume", "default")
    first = engine.spawn(ledger, "redq_scheduler")
    accept(engine, ledger, 2, delay=0.05)
    engine.wait_until(lambda: not ledger.missing())
    standby = engine.spawn(ledger, "redq_scheduler")
    standby.wait_for("serves default")
    first.kill()
    accept(engine, ledger, 2, delay=0.05)
    engine.wait_until(lambda: not ledger.missing())
    engine.assert_drained()
    assert standby.terminate() == 0


def test_a_second_signal_ends_it_at_once_and_loses_nothing(quick, ledger):
    engine = quick
    worker = engine.spawn(ledger, "redq_consume", "default")
    ledger.accepted |= {engine.enqueue(kind="held") for _ in range(2)}
    ledger.wait_for("begun", 2, kind="held")
    worker.send(signal.SIGTERM)
    # It waits for what runs; it has handed back what had not begun.
    late = engine.enqueue()
    ledger.accepted.add(late)
    worker.wait_for("SIGTERM")
    worker.send(signal.SIGTERM)
    assert worker.wait() != 0
    ledger.open()
    other = engine.spawn(ledger, "redq_consume", "default")
    engine.wait_until(lambda: not ledger.missing())
    engine.assert_drained()
    assert other.terminate() == 0

"""Handlers that take many times PENDING_MIN_IDLE, beside a consumer that has nothing to do."""

from __future__ import annotations

import pytest


def configure(engine, min_idle):
    engine.configure(
        MAX_ATTEMPTS=5, PENDING_MIN_IDLE=min_idle, RECOVERY_INTERVAL=0.1, BLOCK_TIMEOUT=0.2
    )


def start(engine, ledger, concurrency):
    """Two processes that do the same."""
    workers = [
        engine.spawn(ledger, "redq_consume", "default", "--concurrency", concurrency)
        for _ in range(2)
    ]
    for worker in workers:
        worker.wait_for("serves default")
    return workers


@pytest.mark.parametrize("concurrency", ["1", pytest.param("4", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("kind", "seconds", "min_idle"),
    [
        ("long", 3, 0.5),
        ("long_async", 3, 0.5),
        # One call of C that lets no other thread run: up to two thirds of PENDING_MIN_IDLE.
        ("greedy", 2, 9),
    ],
)
def test_long_work_is_done_once(engine, ledger, kind, seconds, min_idle, concurrency):
    configure(engine, min_idle)
    workers = start(engine, ledger, concurrency)
    task_id = engine.enqueue(seconds, kind=kind)
    ledger.wait_for("done", 1)
    engine.assert_drained()
    for worker in workers:
        assert worker.terminate() == 0
    assert [(note.what, note.task_id, note.attempt) for note in ledger.all()] == [
        ("begun", task_id, 1),
        ("done", task_id, 1),
    ]
    assert engine.count("meta", "done") == 1


def test_beyond_the_limit_it_may_be_done_twice_and_is_counted_once(engine, ledger):
    """Nobody can renew in a process whose interpreter is held, so the other takes it for dead."""
    configure(engine, 1)
    workers = start(engine, ledger, "1")
    task_id = engine.enqueue(4, kind="greedy")
    ledger.wait_for("done", 2)
    first, second = ledger.of("done", task_id=task_id)
    assert (first.attempt, second.attempt) == (2, 1)
    assert first.pid != second.pid
    slow = next(worker for worker in workers if worker.pid == second.pid)
    engine.assert_drained()

    # It goes on, alone. Its late acknowledgement has found the work done.
    for worker in workers:
        if worker is not slow:
            assert worker.terminate() == 0
    after = engine.enqueue()
    engine.wait_until(lambda: after in ledger.done())
    assert slow.terminate() == 0
    assert engine.count("meta", "done") == 2

"""Tasks that kill the process they run in: each ends dead, and takes nobody along who has another delivery."""

from __future__ import annotations

import signal

from django_redq.outcome import Reason
from tests.worker.handlers import EXIT_CODE

DEADLY = [
    ("deadly", "exit"),
    ("deadly", "SIGKILL"),
    ("deadly", "SIGSEGV"),
    ("deadly_async", "exit"),
    ("deadly_async", "SIGABRT"),
]
CODES = {EXIT_CODE, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT}


def configure(engine):
    engine.configure(
        MAX_ATTEMPTS=3,
        CONCURRENCY=4,
        PENDING_MIN_IDLE=0.6,
        RECOVERY_INTERVAL=0.1,
        BLOCK_TIMEOUT=0.2,
    )


def test_several_at_once_die_and_their_neighbours_are_done(engine, ledger, figures):
    """Two processes under a supervisor that starts another for each that has died."""
    configure(engine)
    neighbours = {engine.enqueue(0.5, kind="long") for _ in range(6)}
    poison = {engine.enqueue(how, kind=kind) for kind, how in DEADLY}
    workers, deaths = [], []

    def is_over():
        return ledger.done() >= neighbours and len(engine.dead()) == len(poison)

    while not is_over():
        workers = [one for one in workers if one.popen.poll() is None]
        while len(workers) < 2:
            workers.append(engine.spawn(ledger, "redq_consume", "default"))
        both = list(workers)
        engine.wait_until(
            lambda both=both: is_over() or any(one.popen.poll() is not None for one in both)
        )
        deaths += [one.wait() for one in both if one.popen.poll() is not None]
    for one in workers:
        one.wait_for("serves default")
        assert one.terminate() == 0

    assert {(one["id"], one["reason"], one["attempts"]) for one in engine.dead()} == {
        (task_id, Reason.WORKER_LOST, "3") for task_id in poison
    }
    for task_id in poison:
        # Who was taken along before it began has lost an attempt, too; the last one is its own.
        begun = [note.attempt for note in ledger.of("begun", task_id=task_id)]
        assert begun == sorted(set(begun))
        assert begun[-1] == 3
    # Who was killed between its work and the acknowledgement is done twice, and that is all.
    assert ledger.done() == neighbours
    assert set(deaths) <= CODES
    figures(
        f"{len(poison)} tasks killed {len(deaths)} processes; {len(neighbours)} neighbours done"
    )
    assert len(deaths) <= 3 * len(poison)


def test_who_wants_more_memory_than_there_is_fails_like_others(engine, ledger):
    configure(engine)
    task_id = engine.enqueue(kind="swelling", max_attempts=1)
    worker = engine.spawn(ledger, "redq_consume", "default")
    engine.wait_until(engine.dead)
    letter = engine.only_dead()
    assert (letter["id"], letter["reason"]) == (task_id, Reason.EXHAUSTED)
    assert letter["type"] == "MemoryError"
    after = engine.enqueue()
    engine.wait_until(lambda: after in ledger.done())
    assert worker.terminate() == 0

"""``kill -9`` of producers: what they were told was accepted is done, whatever they were at."""

from __future__ import annotations

import pytest

from tests.worker.producing import BATCH


@pytest.fixture
def quick(engine):
    engine.configure(SHARDS=2, CONCURRENCY=4, BLOCK_TIMEOUT=0.5)
    return engine


def test_what_a_killed_producer_was_told_of_is_done(quick, ledger):
    engine = quick
    engine.spawn(ledger, "redq_consume", "default", "--with-scheduler")
    code = "from tests.worker.producing import produce; produce()"
    kills = 3
    for _ in range(kills):
        producer = engine.spawn(ledger, "shell", "-c", code)
        before = len(ledger.of("accepted"))
        ledger.wait_for("accepted", before + 100)
        producer.kill()
    ledger.accepted |= {note.task_id for note in ledger.of("accepted")}
    engine.wait_until(lambda: not ledger.missing())
    engine.assert_drained()
    # What was under way at the moment of each kill may be done, too, and each once.
    assert len(ledger.of("done")) == len(ledger.done())
    assert len(ledger.done() - ledger.accepted) <= kills * BATCH

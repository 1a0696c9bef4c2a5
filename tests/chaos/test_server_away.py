"""The commands, as processes, with a Redis that is not there yet, or comes and goes."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
import redis

from tests.harness import until

RECOVERY = 10.0
"""Seconds within which work goes on once Redis is back."""
LOOPS = 8
"""Of a consumer and a scheduler together, which may each try twice a second."""
COMMANDS = (("redq_consume", "default"), ("redq_scheduler",))


@pytest.fixture
def engine(own_engine, own_proxied):
    own_engine.configure(
        SHARDS=2, CONCURRENCY=4, PENDING_MIN_IDLE=1, RETRY={"POLICY": "fixed", "INTERVAL": 0.05}
    )
    own_engine.redq.configure(SCHEDULER={"LEASE_TTL": 2})
    return own_engine


def accept(engine, ledger, kind="", delay=None):
    """One task, sent until it is accepted; at most a few tries a second."""
    task_id = f"task-{len(ledger.accepted)}"
    while task_id not in ledger.accepted:
        with contextlib.suppress(redis.ConnectionError, redis.ResponseError):
            engine.enqueue(kind=kind, task_id=task_id, delay=delay)
            ledger.accepted.add(task_id)


def assert_well(engine, ledger, processes, figures, what):
    back = time.monotonic()
    until(lambda: not ledger.missing(), RECOVERY)
    figures(f"{what}: all work was done after {time.monotonic() - back:.1f} s")
    engine.assert_drained()
    twice = len(ledger.of("done")) - len(ledger.accepted)
    figures(f"{what}: {len(ledger.accepted)} accepted, {twice} done twice, 0 lost")
    for process in processes:
        assert process.terminate() == 0
        assert "Traceback" not in process.output


def test_commands_that_start_before_redis(engine, own_proxied, ledger, figures):
    engine.redq.server.kill()
    began = time.monotonic()
    processes = [engine.spawn(ledger, *command) for command in COMMANDS]
    for process in processes:
        process.wait_for("does not answer")
    connections, since = own_proxied.connections, time.monotonic()
    until(lambda: own_proxied.connections >= connections + LOOPS)
    lasted = time.monotonic() - since
    figures(
        f"away at start: {own_proxied.connections} connections in {time.monotonic() - began:.1f} s"
    )
    assert own_proxied.connections - connections <= 2 * LOOPS * lasted + LOOPS
    engine.redq.server.start()
    for delay in (None, 0.1):
        accept(engine, ledger, delay=delay)
    assert_well(engine, ledger, processes, figures, "away at start")
    for process in processes:
        assert process.output.count("does not answer") == 1


@pytest.mark.long
def test_three_restarts_in_five_seconds(engine, own_proxied, ledger, figures):
    processes = [engine.spawn(ledger, *command) for command in COMMANDS]
    for process in processes:
        process.wait_for("serves")
    over = threading.Event()

    def restart():
        for _ in range(3):
            over.wait(1.3)
            engine.redq.server.restart()
        over.set()

    blows = threading.Thread(target=restart)
    blows.start()
    while not over.wait(0.05):
        for kind in ("", "async", "flaky"):
            accept(engine, ledger, kind)
            accept(engine, ledger, kind, delay=0.3)
    blows.join()
    assert_well(engine, ledger, processes, figures, "three restarts in five seconds")

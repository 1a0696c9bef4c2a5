"""A consumer that has nothing to do on a Cluster: how soon it begins, and what its waiting costs."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

import pytest

TASKS = 300
PAUSE = 0.03
IDLE = 10.0
"""Seconds of waiting whose cost is taken."""


@pytest.mark.long
def test_an_idle_consumer(cluster_engine, ledger, figures):
    engine = cluster_engine
    consumer = engine.spawn(ledger, "redq_consume", "default")
    consumer.wait_for("serves default")
    first = engine.enqueue()
    engine.wait_until(lambda: first in ledger.done())

    before = seconds_of(consumer.pid)
    threading.Event().wait(IDLE)
    cost = (seconds_of(consumer.pid) - before) / IDLE
    for _ in range(TASKS):
        threading.Event().wait(PAUSE)
        engine.enqueue(time.monotonic(), kind="timed")
    engine.wait_until(lambda: len(ledger.all()) == TASKS + 1)

    late = [int(note.what) / 1000 for note in ledger.all() if note.kind == "timed"]
    p99 = statistics.quantiles(late, n=100)[98]
    figures(
        f"a new task begins after {statistics.median(late):.1f} ms (p99 {p99:.1f} ms), "
        f"waiting takes {cost:.1%} of a core"
    )
    assert consumer.terminate() == 0


def seconds_of(pid):
    """The time of all cores that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

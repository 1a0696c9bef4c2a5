"""A node of a Cluster goes: the other shards go on, those that are hit go on when a replica has taken over."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from django_redq.broker import faults
from django_redq.broker.keys import shard_of
from django_redq.devserver import DevServer
from django_redq.handlers import handler
from django_redq.queue import Queue
from tests.harness import PATIENCE, until

QUICK = {
    "CONCURRENCY": 4,
    "PENDING_MIN_IDLE": 2,
    "RECOVERY_INTERVAL": 0.3,
    "BLOCK_TIMEOUT": 0.5,
    "SHARDS": 8,
}
SHARDS = QUICK["SHARDS"]
ALL = set(range(SHARDS))


class Work:
    """What the handler ran, and a producer that goes on, whatever is refused."""

    def __init__(self, engine):
        self.engine = engine
        self.accepted = {}
        """Task ID -> when."""
        self.runs = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce)

        @handler("default")
        def work(task):
            self.runs.append(task.id)

        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def served(self, since):
        """The shards of which a task was done that was accepted after this moment."""
        accepted = self.accepted.copy()
        return {shard_of(one, SHARDS) for one in set(self.runs) if accepted.get(one, 0) >= since}

    def missing(self):
        return set(self.accepted) - set(self.runs)

    def _produce(self):
        number = 0
        while not self._stop.wait(0.005):
            number += 1
            try:
                task_id = self.engine.enqueue(delay=0.2 if number % 3 == 0 else None)
            except faults.REDIS_ERRORS:
                continue
            self.accepted[task_id] = time.monotonic()


@pytest.fixture
def work(cluster_engine):
    cluster_engine.configure(**QUICK)
    made = Work(cluster_engine)
    yield made
    made.stop()


def shards_of(engine, node):
    owner_of = engine.redq.cluster.owner_of
    return {n for n in range(SHARDS) if owner_of(engine.key("meta", shard=n)) is node}


def settle_accounts(engine, work, at_risk=frozenset()):
    """All that was accepted is done, but for what Redis itself had no time to copy; how many those are."""
    work.stop()
    until(lambda: work.missing() <= at_risk)
    lost = work.missing()
    queue = Queue("default")
    until(lambda: (stats := queue.stats()).scheduled == stats.ready == stats.running == 0)
    assert queue.stats().dead == 0
    return lost


@pytest.mark.parametrize("blow", [DevServer.kill, DevServer.pause])
def test_a_master_is_gone(cluster_engine, work, blow, figures, caplog):
    caplog.set_level(logging.INFO, "django_redq.cluster")
    engine, cluster = cluster_engine, cluster_engine.redq.cluster
    engine.start("default")
    engine.scheduler().start()
    until(lambda: work.served(0) == ALL)
    node = cluster.nodes[1]
    hit = shards_of(engine, node)
    assert hit
    assert hit != ALL

    blow(node)
    struck = time.monotonic()
    until(lambda: work.served(struck) >= ALL - hit)
    others = time.monotonic() - struck
    until(lambda: work.served(struck) == ALL)
    everything = time.monotonic() - struck
    told = [text for text in caplog.messages if f":{node.port}" in text]

    if blow is DevServer.pause:
        node.resume()  # It learns that another has its place.
        assert node not in {cluster.owner_of(engine.key("meta", shard=n)) for n in hit}
    at_risk = {
        one
        for one, moment in work.accepted.items()
        if shard_of(one, SHARDS) in hit and struck - 1 < moment < struck
    }
    lost = settle_accounts(engine, work, at_risk)
    figures(
        f"{len(work.accepted)} accepted, {len(lost)} lost by Redis, {len(work.runs)} runs; the other "
        f"shards went on after {others:.1f} s, all after {everything:.1f} s"
    )
    assert ["is away" in text for text in told] == [True, False]


def test_a_slot_moves_under_a_running_consumer(cluster_engine, work, figures):
    engine, cluster = cluster_engine, cluster_engine.redq.cluster
    engine.start("default")
    engine.scheduler().start()
    until(lambda: work.served(0) == ALL)
    key = engine.key("meta", shard=3)
    source = cluster.owner_of(key)
    target = next(one for one in cluster.nodes[:3] if one is not source)

    begun = time.monotonic()
    cluster.move_slot(key, source, target)
    moved = time.monotonic()
    until(lambda: work.served(moved) == ALL)
    figures(f"moved in {moved - begun:.1f} s, all went on {time.monotonic() - moved:.1f} s later")
    assert cluster.owner_of(key) is target
    assert settle_accounts(engine, work) == set()


def test_a_cluster_that_is_away_at_the_start_is_waited_for(cluster_engine):
    engine, cluster = cluster_engine, cluster_engine.redq.cluster
    engine.configure(**QUICK)
    ran = threading.Event()

    @handler("default")
    def work(task):
        ran.set()

    for node in cluster.nodes:
        node.pause()
    engine.start("default")
    engine.scheduler().start()
    for node in cluster.nodes:
        node.resume()
    until(lambda: _accepts(engine))
    assert ran.wait(PATIENCE)


def _accepts(engine):
    try:
        engine.enqueue(delay=0.1)
    except faults.REDIS_ERRORS:
        return False
    return True

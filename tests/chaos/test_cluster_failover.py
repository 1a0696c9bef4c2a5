"""A node of a Cluster goes: the other shards go on, those that are hit go on when a replica has taken over."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from django_redq.broker import faults
from django_redq.devserver import DevServer
from django_redq.handlers import handler
from tests.chaos.steady import Work
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


@pytest.fixture
def work(cluster_engine):
    cluster_engine.configure(**QUICK)
    made = Work(cluster_engine)
    yield made
    made.stop()


def shards_of(engine, node):
    owner_of = engine.redq.cluster.owner_of
    return {n for n in range(SHARDS) if owner_of(engine.key("meta", shard=n)) is node}


@pytest.mark.parametrize(
    "blow", [DevServer.kill, pytest.param(DevServer.pause, marks=pytest.mark.long)]
)
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
    lost = work.settle_accounts(work.uncopied(struck, hit))
    figures(
        f"others went on after {others:.1f} s, all after {everything:.1f} s; {work.figures(lost)}"
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
    assert work.settle_accounts() == 0


@pytest.mark.long
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

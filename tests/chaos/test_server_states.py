"""The server is there but refuses, or is away: nobody spins, each change is said once, and work goes on."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time

import pytest
import redis

from django_redq.broker.keys import shard_of
from django_redq.errors import Reject
from django_redq.handlers import handler
from tests.harness import PATIENCE, connect, until

RECOVERY = 10.0
"""Seconds within which work goes on once Redis is well again."""
NOBODY = ("127.0.0.1", 1)
"""Where no server listens."""
FILLING = 30_000
"""Keys whose loading takes seconds, slowed down as it is."""


class Work:
    """Handlers that wait for the test, and what they ran."""

    def __init__(self):
        self.runs = []
        self.gate = threading.Event()
        self.inside = threading.Semaphore(0)

        @handler("default")
        def work(task):
            self.runs.append((task.payload, task.attempt))
            self.inside.release()
            assert self.gate.wait(PATIENCE)
            if task.payload == "flaky" and task.attempt == 1:
                raise ValueError
            if task.payload == "doomed":
                raise Reject

    def begin(self, engine):
        """Four that run, and one that is due in a second."""
        for payload in ("held", "held", "flaky", "doomed"):
            engine.enqueue(payload)
        for _ in range(4):
            assert self.inside.acquire(timeout=PATIENCE)
        engine.enqueue("later", delay=1)

    def assert_done_once(self, engine, consumer):
        held = [("held", 1), ("held", 1)]
        assert sorted(self.runs) == [("doomed", 1), ("flaky", 1), ("flaky", 2), *held, ("later", 1)]
        assert consumer.counts == {"Done": 4, "RetryAt": 1, "Dead": 1}
        assert [engine.count("meta", name) for name in ("done", "retried", "dead")] == [4, 1, 1]
        assert [one["reason"] for one in engine.dead()] == ["rejected"]


@pytest.fixture
def work(own_engine):
    made = Work()
    yield made
    made.gate.set()


@contextlib.contextmanager
def configured(engine, **options):
    before = {name: engine.client.config_get(name)[name] for name in options}
    engine.client.config_set(*[part for pair in options.items() for part in pair])
    try:
        yield
    finally:
        engine.client.config_set(*[part for pair in before.items() for part in pair])


def full(engine, proxy):
    return configured(engine, maxmemory=1)


def too_few_replicas(engine, proxy):
    return configured(engine, **{"min-replicas-to-write": 1})


@contextlib.contextmanager
def demoted(engine, proxy):
    engine.client.replicaof(*NOBODY)
    try:
        yield
    finally:
        engine.client.replicaof("NO", "ONE")


@contextlib.contextmanager
def demoted_without_master(engine, proxy):
    with configured(engine, **{"replica-serve-stale-data": "no"}), demoted(engine, proxy):
        yield


@contextlib.contextmanager
def unable_to_save(engine, proxy):
    in_the_way = engine.redq.server.data_dir / "dump.rdb"
    (in_the_way / "file").mkdir(parents=True)
    with configured(engine, save="3600 1000000"):
        engine.client.bgsave()
        until(lambda: engine.client.info("persistence")["rdb_last_bgsave_status"] == "err")
        try:
            yield
        finally:
            shutil.rmtree(in_the_way)
            engine.client.bgsave()
            until(lambda: engine.client.info("persistence")["rdb_last_bgsave_status"] == "ok")


@contextlib.contextmanager
def busy(engine, proxy):
    engine.client.config_set("busy-reply-threshold", 50)

    def spin():
        with connect(engine.redq.url) as client, contextlib.suppress(redis.RedisError):
            client.execute_command("CLIENT", "SETNAME", "spinner")
            client.connection_pool.connection_kwargs["socket_timeout"] = None
            client.eval("while true do end", 0)

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        engine.client.script_kill()
        thread.join(PATIENCE)


@contextlib.contextmanager
def loading(engine, proxy):
    server = engine.redq.server
    with engine.client.pipeline(transaction=False) as pipe:
        for n in range(FILLING):
            pipe.set(f"{engine.redq.namespace}:filling:{n}", "")
        pipe.execute()
    server.options["key-load-delay"] = "300"
    server.kill()
    thread = threading.Thread(target=server.start)
    thread.start()

    def is_loading():
        with contextlib.suppress(redis.RedisError):
            return engine.client.info("persistence")["loading"]

    until(is_loading)
    try:
        yield
        assert is_loading()
    finally:
        engine.client.config_set("key-load-delay", 0)
        thread.join(PATIENCE)


@contextlib.contextmanager
def away(engine, proxy):
    engine.redq.server.kill()
    try:
        yield
    finally:
        engine.redq.server.start()


@contextlib.contextmanager
def frozen(engine, proxy):
    engine.redq.server.pause()
    try:
        yield
    finally:
        engine.redq.server.resume()


@contextlib.contextmanager
def silent(engine, proxy):
    proxy.silence()
    try:
        yield
    finally:
        proxy.speak()


QUICK = (full, too_few_replicas, demoted, silent)
LONG = (demoted_without_master, unable_to_save, busy, loading, away, frozen)


def loops_of(consumer, scheduler):
    """The failed tries of each loop of both, as they are at this moment."""
    return {**consumer._outage._failing, **scheduler._ticker._outage._failing}


@pytest.mark.parametrize(
    "state",
    [*QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)],
    ids=lambda state: state.__name__,
)
def test_work_goes_on_after(own_engine, own_proxied, work, caplog, figures, state):
    caplog.set_level(logging.INFO, "django_redq")
    engine, proxy = own_engine, own_proxied
    engine.configure(
        CONCURRENCY=5, PENDING_MIN_IDLE=0.6, RETRY={"POLICY": "fixed", "INTERVAL": 0.05}
    )
    engine.through(proxy.url, socket_timeout=0.5)
    consumer, scheduler = engine.start("default"), engine.scheduler()
    scheduler.start()
    work.begin(engine)
    caplog.clear()

    began, asked, connections = time.monotonic(), proxy.asked, proxy.connections
    with state(engine, proxy):
        work.gate.set()
        engine.wait_until(lambda: loops_of(consumer, scheduler).get("consumer", 0) >= 3)
        engine.wait_until(lambda: loops_of(consumer, scheduler).get("scheduler", 0) >= 2)
        lasted, tries = time.monotonic() - began, loops_of(consumer, scheduler)
        asked, connections = proxy.asked - asked, proxy.connections - connections
    back = time.monotonic()
    until(lambda: consumer.counts.get("Done", 0) == 4, RECOVERY)
    figures(f"work went on {time.monotonic() - back:.1f} s after {state.__name__} was over")
    figures(f"tries in {lasted:.1f} s: {tries}, {connections} connections")

    # Where these are allowed they go their usual way.
    del asked["heads"], asked["renew"]
    assert all(times <= 2 * lasted + 3 for times in (*tries.values(), *asked.values()))
    assert connections <= 2 * lasted * 8  # loops
    work.assert_done_once(engine, consumer)
    for text in ("does not answer", "is back"):
        engine.wait_until(lambda text=text: caplog.text.count(text) == 2)
    assert "it goes on" not in caplog.text
    assert "cannot be" not in caplog.text


@pytest.mark.long
def test_one_node_of_a_cluster_that_refuses_keeps_nobody_waiting(
    cluster_engine, cluster, figures, caplog
):
    engine, runs = cluster_engine, []
    handler("default")(lambda task: runs.append(task.id))
    ids = {
        n: f"t{n}-{next(i for i in range(999) if shard_of(f't{n}-{i}', 8) == n)}" for n in range(8)
    }
    for task_id in ids.values():
        engine.enqueue(task_id=task_id)
    node = cluster.owner_of(engine.key("stream"))
    hit = {ids[n] for n in ids if cluster.owner_of(engine.key("stream", shard=n)) is node}
    with cluster.client_of(node) as client:
        client.config_set("min-replicas-to-write", 9)
        consumer = engine.start("default")
        began = time.monotonic()
        engine.wait_until(lambda: set(runs) == set(ids.values()) - hit)
        engine.wait_counts(consumer, Done=len(ids) - len(hit))
        assert "does not answer" not in caplog.text
        figures(
            f"the other nodes' {len(ids) - len(hit)} were done in {time.monotonic() - began:.1f} s"
        )
        client.config_set("min-replicas-to-write", 0)
    back = time.monotonic()
    engine.wait_counts(consumer, Done=8)
    figures(f"work of the node went on {time.monotonic() - back:.1f} s after it was well")
    assert sorted(runs) == sorted(ids.values())

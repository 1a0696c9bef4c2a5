"""More work at once than can be done for a while: Redis serves others meanwhile, and nobody starves."""

from __future__ import annotations

import sys
import time

import pytest

from django_redq.broker import calls
from django_redq.broker.sync import get_broker
from django_redq.dead_letters import DeadLetterQueue
from django_redq.handlers import handler
from django_redq.producer import Producer
from django_redq.task import TaskSpec
from tests.engine import GHOST, LONG, engine_on
from tests.harness import ROOT, Redq

sys.path.append(str(ROOT / "benchmarks"))  # programs beside the package

from pinging import Pinger
from seeding import batched, seed_letters, seed_scheduled

SLOW_MS = 50
SHARDS = 4
KINDS = ("invoice", "ship", "email", "refund")
"""Of the tasks that are seeded."""


class Watch:
    """What others notice: scripts that take long, pings that wait, leases that change hands."""

    def __init__(self, engine, pinger, shards=SHARDS):
        self._client = engine.client
        self._leases = [engine.key("lease", shard=shard) for shard in range(shards)]
        self._client.config_set("slowlog-log-slower-than", SLOW_MS * 1000)
        self._client.slowlog_reset()
        self._pinger = pinger
        self._holders = self.holders()
        self._begun = time.monotonic()

    def holders(self):
        return self._client.mget(self._leases)

    def end(self):
        """(what took over 50 ms, figures)"""
        seconds, pings = time.monotonic() - self._begun, self._pinger.end()
        assert self.holders() == self._holders
        slow = {
            entry["command"][:48].decode()
            for entry in self._client.slowlog_get(100)
            if entry["command"].startswith(b"EVAL")
        }
        if pings["p99"] > SLOW_MS:
            slow.add("PING")
        return slow, f"{seconds:.1f} s, PING p99 {pings['p99']:.1f} ms, max {pings['max']:.0f} ms"


@pytest.fixture
def watch():
    """Begins a watch."""
    pingers = []

    def begin(engine, **options):
        pingers.append(Pinger(engine.redq.url))
        return Watch(engine, pingers[-1], **options)

    yield begin
    for pinger in pingers:
        pinger.close()


@pytest.fixture
def calm(figures):
    """Deals a blow; what seems slow has to be so twice: a busy machine may take the CPU from a server
    in the middle of a script, but not of the same one again.
    """

    def deal(blow):
        slow, told = blow()
        figures(told)
        if slow:
            again, told = blow()
            figures(f"{told}; once more, since these were slow: {sorted(slow)}")
            slow &= again
        assert not slow

    return deal


@pytest.fixture
def own_engine(own_server):
    """On a server of its own that writes nothing to disk: what a disk takes is not what is looked at."""
    redq = Redq(own_server())
    with engine_on(redq) as made:
        yield made
    redq.close()


@pytest.fixture
def guarded(own_engine):
    """An engine with two schedulers, one of them a standby."""
    own_engine.redq.configure(
        queues={"default": {"SHARDS": SHARDS, "CONCURRENCY": 8}, "other": {"SHARDS": 1}}
    )
    schedulers = [own_engine.redq.spawn("redq_scheduler") for _ in range(2)]
    for scheduler in schedulers:
        scheduler.wait_for("serves")
    leases = [own_engine.key("lease", shard=shard) for shard in range(SHARDS)]
    own_engine.wait_until(lambda: own_engine.client.exists(*leases) == SHARDS)
    return own_engine


def size_of(engine, name):
    return sum(engine.client.zcard(engine.key(name, shard=shard)) for shard in range(SHARDS))


def forget(engine):
    """Takes all tasks out of Redis."""
    for shard in range(SHARDS):
        for name in ("delay", "payload", "state", "entry", "stream", "dlq", "groups"):
            engine.client.unlink(engine.key(name, shard=shard))


def sizes(small, big):
    return pytest.mark.parametrize("size", [small, pytest.param(big, marks=pytest.mark.long)])


@sizes(5_000, 300_000)
def test_tasks_that_are_due_at_once(guarded, calm, watch, size):
    engine, started = guarded, []
    for kind in KINDS:
        handler("default", kind=kind)(lambda task: started.append(task.queue))
    handler("other")(lambda task: started.append(task.queue))

    def blow():
        seed_scheduled(engine.client, get_broker(), "default", size)
        watched, consumer = watch(engine), engine.start("default", "other")
        for shard in range(SHARDS):
            delay = engine.key("delay", shard=shard)
            engine.client.zunionstore(delay, {delay: 0})
        engine.wait_until(lambda: len(started) > 0)
        # In its own queue it would come behind what is ready by now; other queues do not wait.
        engine.enqueue(queue="other")
        engine.wait_until(lambda: "other" in started)
        assert len(started) < size
        engine.wait_until(lambda: size_of(engine, "delay") == 0)
        found = watched.end()
        consumer.stop()
        forget(engine)
        started.clear()
        return found

    calm(blow)


def replay(engine, size):
    assert sum(one.replayed for one in DeadLetterQueue("default").replay_batch()) == size


def replay_by_command(engine, size):
    done = engine.redq.manage("redq_dlq", "replay", "default", "--all", "--json")
    assert done.returncode == 0, done.stderr


def replay_in_bulk(engine, size):
    letters = DeadLetterQueue("default")
    bulk = letters.start_replay()
    engine.wait_until(lambda: letters.bulk(bulk.id).is_over)
    assert letters.bulk(bulk.id).changed == size


def purge(engine, size):
    assert DeadLetterQueue("default").purge() == size


def purge_by_command(engine, size):
    done = engine.redq.manage("redq_dlq", "purge", "default", "--all")
    assert done.returncode == 0, done.stderr


def discard_in_bulk(engine, size):
    letters = DeadLetterQueue("default")
    bulk = letters.start_discard()
    engine.wait_until(lambda: letters.bulk(bulk.id).is_over)
    assert letters.bulk(bulk.id).changed == size


@pytest.mark.parametrize(
    ("act", "size"),
    [
        (replay, 1_000),
        (discard_in_bulk, 1_000),
        *(
            pytest.param(act, 50_000, marks=pytest.mark.long)
            for act in (
                replay,
                replay_by_command,
                replay_in_bulk,
                purge,
                purge_by_command,
                discard_in_bulk,
            )
        ),
    ],
)
def test_dead_letters(guarded, calm, watch, act, size):
    engine = guarded
    streams = [engine.key("stream", shard=shard) for shard in range(SHARDS)]

    def blow():
        seed_letters(engine.client, get_broker(), "default", size)
        watched = watch(engine)
        act(engine, size)
        found = watched.end()
        assert DeadLetterQueue("default").count() == 0
        ready = sum(engine.client.xlen(stream) for stream in streams)
        assert ready == (size if act.__name__.startswith("replay") else 0)
        forget(engine)
        return found

    calm(blow)


@sizes(2_000, 20_000)
def test_a_consumer_that_died_with_many_pending(own_engine, calm, watch, figures, size):
    engine, waited = own_engine, []
    engine.configure(SHARDS=1, CONCURRENCY=8)
    started = []

    @handler("default")
    def work(task):
        started.append(task.id)

    def blow():
        started.clear()
        for some in batched([TaskSpec(None)] * size, 500):
            Producer("default").enqueue_many(some, mode="immediate")
        abandon_all(engine)
        watched, consumer = watch(engine, shards=1), engine.start("default")
        while len(started) < size:
            begun, newer = time.monotonic(), engine.enqueue()
            engine.wait_until(lambda: newer in started)  # noqa: B023
            waited.append(time.monotonic() - begun)
        assert len(waited) > 1, "the newer tasks had to wait until all were recovered"
        engine.assert_drained()
        found = watched.end()
        consumer.stop()
        return found

    calm(blow)
    figures(f"{len(waited)} newer tasks waited up to {max(waited) * 1000:.0f} ms")


def test_one_fetch_brings_no_more_than_a_script_may_however_much_is_asked_for(engine):
    many = calls.MAX_SCRIPT_TASKS + 100
    for some in batched([TaskSpec(None)] * many, 500):
        Producer("default").enqueue_many(some, mode="immediate")
    handler("default")(lambda task: task.id)
    consumer = engine.consumer(concurrency=many, read_count=many)
    assert consumer.run_once() == calls.MAX_SCRIPT_TASKS
    assert consumer.run_once() == 100


def abandon_all(engine):
    """All that is ready becomes what a consumer held that vanished."""
    stream = engine.key("stream")
    while entries := engine.deliver(limit=5_000):
        with engine.client.pipeline(transaction=False) as pipe:
            for entry in entries:
                pipe.xclaim(stream, "default", GHOST, 0, [entry], idle=LONG, justid=True)
            pipe.execute()

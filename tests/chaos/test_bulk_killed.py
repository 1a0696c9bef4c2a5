"""``kill -9`` of the schedulers in the midst of bulk work: others carry it on, and the counts are right."""

from __future__ import annotations

import pytest

from django_redq import BulkState, DeadLetterQueue
from django_redq.broker.keys import shard_of
from django_redq.task import new_task_id

SHARDS = 4
BLOWS = 3
"""Schedulers that are killed."""


@pytest.fixture
def graveyard(engine):
    """A queue whose leases lapse soon."""
    engine.redq.configure(
        queues={"default": {"SHARDS": SHARDS, "CONCURRENCY": 8, "BLOCK_TIMEOUT": 0.5}},
        SCHEDULER={"LEASE_TTL": 0.5, "TICK_INTERVAL": 0.1},
    )
    return engine


def bury(engine, number, *, payload=True):
    """Dead tasks, over all shards; their IDs."""
    ids = [new_task_id() for _ in range(number)]
    with engine.client.pipeline(transaction=False) as pipe:
        for at, task_id in enumerate(ids, 1):
            shard = shard_of(task_id, SHARDS)
            letter = {"id": task_id, "reason": "exhausted", "kind": "", "error": "x" * 500}
            entry_id = f"1000-{at}" if payload else f"2000-{at}"
            pipe.xadd(engine.key("dlq", shard=shard), letter, entry_id)
            pipe.hset(engine.key("entry", shard=shard), task_id, f"dlq {entry_id}")
            if payload:
                record = '{"at":1,"payload":null}'
                pipe.hset(engine.key("payload", shard=shard), task_id, record)
        pipe.execute()
    return ids


def kill_in_the_midst(engine, ledger, letters, bulk, number):
    """Schedulers follow one another, each killed at its work; the last one is left."""
    for blow in range(BLOWS):
        victim = engine.spawn(ledger, "redq_scheduler")
        wanted = number * (blow + 1) // (BLOWS + 2)
        engine.wait_until(lambda wanted=wanted: letters.bulk(bulk.id).changed >= wanted)
        victim.kill()
        assert not letters.bulk(bulk.id).is_over
    last = engine.spawn(ledger, "redq_scheduler")
    engine.wait_until(lambda: letters.bulk(bulk.id).is_over)
    return last


def in_every_shard(engine, name, command):
    return [command(engine.key(name, shard=shard)) for shard in range(SHARDS)]


def test_a_bulk_replay_outlives_its_schedulers(graveyard, ledger):
    engine, letters = graveyard, DeadLetterQueue("default")
    ids = bury(engine, 12_000)
    hopeless = bury(engine, 50, payload=False)
    bulk = letters.start_replay(delay=36_000, spread=3600)

    last = kill_in_the_midst(engine, ledger, letters, bulk, len(ids))

    over = letters.bulk(bulk.id)
    assert over.state is BulkState.DONE
    assert (over.changed, over.missing, over.gone) == (len(ids), len(hopeless), 0)
    assert over.looked_at == len(ids) + len(hopeless)
    scheduled = [
        task_id.decode()
        for found in in_every_shard(engine, "delay", lambda key: engine.client.zrange(key, 0, -1))
        for task_id in found
    ]
    assert sorted(scheduled) == sorted(ids)
    assert sum(in_every_shard(engine, "dlq", engine.client.xlen)) == len(hopeless)
    assert sum(in_every_shard(engine, "stream", engine.client.xlen)) == 0
    assert last.terminate() == 0


def test_what_is_replayed_meanwhile_runs_once(graveyard, ledger):
    engine, letters = graveyard, DeadLetterQueue("default")
    ledger.accepted |= set(bury(engine, 6000))
    worker = engine.spawn(ledger, "redq_consume", "default")
    bulk = letters.start_replay()

    last = kill_in_the_midst(engine, ledger, letters, bulk, len(ledger.accepted))

    assert letters.bulk(bulk.id).changed == len(ledger.accepted)
    engine.wait_until(lambda: not ledger.missing())
    engine.assert_drained()
    assert len(ledger.of("done")) == len(ledger.accepted)
    assert [process.terminate() for process in (worker, last)] == [0, 0]


def test_a_bulk_discard_outlives_its_schedulers(graveyard, ledger):
    engine, letters = graveyard, DeadLetterQueue("default")
    bury(engine, 12_000)
    bulk = letters.start_discard()

    last = kill_in_the_midst(engine, ledger, letters, bulk, 12_000)

    assert letters.bulk(bulk.id).changed == 12_000
    engine.assert_drained()
    assert last.terminate() == 0

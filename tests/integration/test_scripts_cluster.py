"""The scripts on a cluster-enabled server: one shard is one slot, and no script leaves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from django_redq.broker import calls, faults
from django_redq.broker.aio import AsyncBroker
from django_redq.broker.calls import Call, Shard, Submission
from django_redq.conf import get_config
from django_redq.devserver import DevServer
from tests.every_call import every_call
from tests.harness import Redq, until
from tests.integration.worlds import (
    GROUP,
    ME,
    OTHER,
    Dead,
    Here,
    Ready,
    Running,
    Scheduled,
    record,
)

pytestmark = pytest.mark.every_server

SCRIPTS = [call.script for call in every_call(Shard("ns", "email", 0, GROUP))]


@pytest.fixture(scope="module")
def node() -> Iterator[Callable[[Path], DevServer]]:
    """A cluster of one node a binary, which holds all slots."""
    with ExitStack() as stack:

        @cache
        def start(binary: Path) -> DevServer:
            options = {"cluster-enabled": "yes", "cluster-config-file": "nodes.conf"}
            server = stack.enter_context(DevServer(binary=binary, options=options))
            with redis.Redis.from_url(server.url) as client:
                client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
                until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"))
            return server

        yield start


@pytest.fixture
def here(node: Callable[[Path], DevServer], server: DevServer) -> Iterator[Here]:
    """A shard on a cluster-enabled server of the flavour of the shared one."""
    corner = Redq(node(server.binary))
    place = Here(corner)
    yield place
    place.close()
    for key in place.client.scan_iter(f"{corner.namespace}:*"):
        # Not all at once: they lie in several slots.
        place.client.delete(key)
    corner.close()


def call_of(here: Here, script: str) -> Call[Any]:
    [call] = [call for call in every_call(here.shard) if call.script == script]
    return call


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_stays_in_one_slot(here: Here, script: str) -> None:
    here.seed(Running("t", "2-1"), Running("u", "2-2"))

    here.run(call_of(here, script))


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_stays_in_one_slot_where_there_is_nothing(here: Here, script: str) -> None:
    here.run(call_of(here, script))


def test_a_shard_lives_its_life_on_a_cluster(here: Here) -> None:
    """Of every script the branch that does the work, in the order of a task's life."""
    here.seed(
        Scheduled("due", 1),
        Running("lost", "1-3", owner=OTHER, idle=60_000),
        Running("t", "2-1"),
        Running("u", "2-2"),
        Ready("last", "3-2", state="1 1 2 - []"),
        Dead("t2", "4-2"),
    )
    here.client.hset(here.keys.payload, "placeless", record("placeless"))
    here.client.delete(here.keys.lease)
    shard = here.shard

    promotion = here.run(calls.promote(shard, "host-1", 10_000, 10, "5"))
    assert promotion.moved == 1
    assert here.run(calls.repair(shard, "0", "5", grace_ms=1)).put_back == 1
    alone = here.run(calls.fetch([shard], ME, 10, alone=True))
    assert [one.task_id for item in alone for one in item.deliveries] == ["parked"]
    items = here.run(calls.fetch([shard], ME, 10, alone=False))
    brought = [one for item in items for one in item.deliveries]
    assert [one.task_id for one in brought] == ["ready", "due", "placeless"]
    page = here.run(calls.pending_page(shard, min_idle_ms=30_000))
    assert [row.delivery.task_id for row in page.rows] == ["lost"]
    state = brought[0].state
    seen = page.rows[0]
    assert here.run(calls.claim(shard, ME, seen, state, give_count=2, min_idle_ms=30_000))
    assert here.run(calls.renew(shard, ME, brought, "5", hold_ms=1)) == [1, 1, 1]
    assert here.run(calls.release(shard, ME, [(brought[0], None)])) == [1]
    assert here.run(calls.retry(shard, ME, [(brought[1], 500, state)], "5")) == [1]
    done = calls.ack(shard, ME, [brought[2]], "5", retention="keep", cleanup="never")
    assert here.run(done) == [1]


def test_a_fetch_from_several_shards_is_refused_and_nothing_is_taken(here: Here) -> None:
    other = Here(here.redq, 1)
    here.seed(Ready("t", "3-1"), neighbours=False)
    other.seed(Ready("u", "3-1"), neighbours=False)
    before = here.world()

    with pytest.raises(redis.ResponseError) as caught:
        here.run(calls.fetch([here.shard, other.shard], ME, 10, alone=False))

    assert faults.is_cross_slot(caught.value)
    assert not faults.is_outage(caught.value)
    assert here.changes(before) == []
    other.close()


def test_a_broker_learns_to_ask_each_shard_by_itself(here: Here) -> None:
    other = Here(here.redq, 1)
    here.seed(Ready("t", "3-1"), neighbours=False)
    other.seed(Ready("u", "3-1"), neighbours=False)
    broker, shards = here.broker, [here.shard, other.shard]
    refused = broker.run_many(broker.fetch_calls(shards, ME, 10))

    assert broker.learn(refused) is True
    answers = broker.run_many(broker.fetch_calls(shards, ME, 10))

    assert broker.spans_shards is False
    assert broker.learn(refused) is False
    assert [one.task_id for items in answers for item in items for one in item.deliveries] == [
        "t",
        "u",
    ]
    other.close()


def test_the_heads_of_several_shards_are_refused_and_those_of_one_told(here: Here) -> None:
    other = Shard(here.shard.namespace, "email", 1, GROUP)
    here.seed(Scheduled("t", 7))

    refused, told = here.broker.run_many(
        [calls.heads([here.shard, other], "5"), calls.heads([here.shard], "5")]
    )

    assert here.broker.learn([refused]) is True
    assert told.due == [7]


def test_new_tasks_of_many_shards_go_in_together(here: Here) -> None:
    tasks = [
        Submission("email", number % 4, f"t{number}", "", b'"payload":1}') for number in range(8)
    ]

    assert here.broker.enqueue(tasks) == [True] * 8
    assert asyncio.run(enqueue_again(tasks)) == [True] * 8

    streams = [here.redq.key("email", number, "stream") for number in range(4)]
    assert [here.client.xlen(key) for key in streams] == [2, 2, 2, 2]


async def enqueue_again(tasks: list[Submission]) -> list[bool | Exception]:
    broker = AsyncBroker(get_config())
    try:
        return await broker.enqueue(tasks)
    finally:
        await broker.client.aclose()

"""The address leads to another server by now, and the connections that are open to the demoted one."""

from __future__ import annotations

import asyncio

import pytest
import redis

from django_redq import aenqueue
from django_redq.broker import calls
from django_redq.broker.calls import Submission
from django_redq.broker.sync import Broker, shard_for
from django_redq.conf import get_config
from django_redq.consumer import heart
from django_redq.handlers import handler
from django_redq.producer import Producer
from django_redq.task import TaskSpec

NOBODY = ("127.0.0.1", 1)


@pytest.fixture
def fail_over(own_engine, own_proxied, own_server):
    """Has new connections go to a new server, and the old one a replica."""

    def act():
        own_proxied.target = own_server().port
        own_engine.client.replicaof(*NOBODY)

    yield act
    own_engine.client.replicaof("NO", "ONE")


def test_after_one_refusal_the_next_call_goes_to_the_new_one(own_engine, fail_over):
    own_engine.enqueue()
    fail_over()
    with pytest.raises(redis.exceptions.ReadOnlyError):
        own_engine.enqueue()
    assert own_engine.enqueue()


@pytest.mark.parametrize("many", [False, True])
def test_so_does_the_next_that_is_awaited(own_engine, fail_over, many):
    async def enqueue():
        if many:
            specs = [TaskSpec(payload=n) for n in range(600)]
            return await Producer("default").aenqueue_many(specs, mode="immediate")
        return await aenqueue("default", 1, mode="immediate")

    async def act():
        await enqueue()
        fail_over()
        with pytest.raises(redis.exceptions.ReadOnlyError):
            await enqueue()
        assert await enqueue()

    asyncio.run(act())


def test_an_idle_consumer_and_its_listener_go_on_there(own_engine, fail_over, monkeypatch):
    monkeypatch.setattr(heart, "INTERVAL", 0.3)
    engine, runs = own_engine, []
    handler("default")(lambda task: runs.append(task.id))
    consumer = engine.start("default", block_timeout=3600)
    listener = consumer._engine.listener
    engine.wait_until(lambda: listener.listening and not consumer._engine.fetcher.hungry)
    fail_over()
    # By connections of its own, as another process would.
    broker = Broker(get_config())
    shard = shard_for(get_config(), get_config().queue("default"), 0)
    for done, task_id in enumerate(("t", "u"), 1):
        broker.run(calls.enqueue(shard, [Submission("default", 0, task_id, "", b'"payload":1}')]))
        engine.wait_counts(consumer, Done=done)
    broker.close()
    assert runs == ["t", "u"]

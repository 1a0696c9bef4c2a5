"""A person's call was done, and its reply never came: it is told, once; asked again, nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from django.test import override_settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from django_redq import BulkState, acancel, aenqueue
from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import DeadLetterNotFound, Reject
from django_redq.handlers import handler
from django_redq.producer import Producer
from django_redq.queue import Queue
from django_redq.task import TaskSpec, TaskState, new_task_id

NO_REPLY = (redis.ConnectionError, redis.TimeoutError)
DEAD = ("d1", "d2", "d3")


@pytest.fixture
def runs(engine, losing):
    """A handler, what it ran, and three tasks that it has rejected."""
    seen = []

    @handler("default")
    def work(task):
        seen.append((task.id, task.payload))
        if task.payload == "doomed":
            raise Reject

    for task_id in DEAD:
        engine.enqueue("doomed", task_id=task_id)
    dying = engine.start("default", concurrency=1)
    engine.wait_counts(dying, Dead=3)
    dying.stop()
    seen.clear()
    return seen


def letters():
    return DeadLetterQueue("default")


def queue():
    return Queue("default")


def replay_edited(engine):
    letter = letters().get("d1")
    return letters().replay("d1", entry_id=letter.entry_id, payload="mended")


@dataclass(frozen=True)
class Verb:
    """What somebody asks for, and what is there once the reply was lost and it was asked for again."""

    script: str
    act: Callable[[Any], Any]
    again: Any
    """What the second call returns, or raises."""
    then: Callable[[Any], bool]
    ran: tuple[tuple[str, str], ...] = ()
    """What a consumer runs after that."""


VERBS = {
    "run_now": Verb(
        "run_now",
        lambda _: queue().run_now("later"),
        False,
        lambda engine: engine.task("later").state is TaskState.READY,
        (("later", "later"),),
    ),
    "cancel": Verb(
        "cancel",
        lambda _: queue().cancel("later"),
        False,
        lambda engine: engine.task("later") is None,
    ),
    "pause": Verb("pause", lambda _: queue().pause(), False, lambda _: queue().stats().paused),
    "replay": Verb(
        "replay",
        lambda _: letters().replay("d1"),
        DeadLetterNotFound,
        lambda _: letters().count() == 2,
        (("d1", "doomed"),),
    ),
    "replay_edited": Verb(
        "replay_edited",
        replay_edited,
        DeadLetterNotFound,
        lambda _: letters().count() == 2,
        (("d1", "mended"),),
    ),
    "replay_batch": Verb(
        "replay",
        lambda _: len(letters().replay_batch()),
        0,
        lambda _: letters().count() == 0,
        tuple((task_id, "doomed") for task_id in DEAD),
    ),
    "discard": Verb(
        "discard",
        lambda _: letters().discard("d1"),
        False,
        lambda _: letters().count() == 2,
    ),
    "purge": Verb("discard", lambda _: letters().purge(), 0, lambda _: letters().count() == 0),
}


@pytest.mark.parametrize("name", VERBS)
def test_of(engine, losing, runs, name):
    verb = VERBS[name]
    engine.enqueue("later", task_id="later", delay=36_000)
    before = losing.asked[verb.script]
    losing.lose_reply_of(verb.script)
    with pytest.raises(NO_REPLY):
        verb.act(engine)
    losing.wait_lost()
    assert losing.asked[verb.script] == before + 1
    if isinstance(verb.again, type):
        with pytest.raises(verb.again):
            verb.act(engine)
    else:
        assert verb.act(engine) == verb.again
    assert verb.then(engine)
    queue().resume()
    consumer = engine.start("default")
    engine.enqueue("last", task_id="last")
    engine.wait_until(lambda: ("last", "last") in runs)
    engine.wait_until(lambda: consumer.is_idle)
    assert sorted(runs) == sorted([*verb.ran, ("last", "last")])


def test_of_a_resume(engine, losing, runs):
    queue().pause()
    losing.lose_reply_of("pause")
    with pytest.raises(NO_REPLY):
        queue().resume()
    assert queue().resume() is False
    assert not queue().stats().paused


def test_of_many_in_several_calls(engine, losing, runs):
    specs = [TaskSpec(payload="new", task_id=f"new-{n}") for n in range(1100)]
    before = losing.asked["enqueue"]
    losing.lose_reply_of("enqueue")
    with pytest.raises(NO_REPLY):
        Producer("default").enqueue_many(specs, mode="immediate")
    assert losing.asked["enqueue"] <= before + 3
    again = Producer("default").enqueue_many(specs, mode="immediate")
    # What followed the first call may have got there or not; sent by hand it bears another nonce.
    assert sum(one.duplicate for one in again) >= 500
    consumer = engine.start("default", concurrency=50, read_count=50)
    engine.wait_counts(consumer, Done=1100)
    assert len(set(runs)) == len(runs) == 1100


def test_of_the_first_word_with_a_queue(engine, losing, runs):
    losing.lose_reply_of("declare")
    queue_name = "other"
    engine.redq.configure(queues={"default": {"SHARDS": 1}, queue_name: {"SHARDS": 1}})
    with pytest.raises(NO_REPLY):
        engine.enqueue(queue=queue_name, task_id="t")
    engine.enqueue(queue=queue_name, task_id="t")
    assert engine.client.xlen(engine.key("stream", queue_name)) == 1


@pytest.mark.parametrize("script", ["enqueue", "cancel"])
def test_of_what_is_awaited(engine, losing, runs, script):
    async def ask():
        return {
            "enqueue": lambda: aenqueue("default", 1, task_id="t", mode="immediate"),
            "cancel": lambda: acancel("default", "t"),
        }[script]()

    async def act():
        await aenqueue("default", "warm-up", task_id="warm-up", delay=1000, mode="immediate")
        if script == "cancel":
            await aenqueue("default", 1, task_id="t", delay=1000, mode="immediate")
        before = losing.asked[script]
        losing.lose_reply_of(script)
        with pytest.raises(NO_REPLY):
            await (await ask())
        assert losing.asked[script] == before + 1
        return await (await ask())

    result = asyncio.run(act())
    if script == "enqueue":
        assert result.duplicate is True
        assert engine.client.xlen(engine.key("stream")) == 1
    else:
        assert not result.canceled
        assert engine.task("t") is None


# --- what schedulers carry on -------------------------------------------------------------------


@pytest.mark.parametrize(
    "script", ["bulk_begin", "bulk_read", "bulk_step", "bulk_end", "repair", "heads"]
)
def test_of_bulk_work(engine, losing, runs, script):
    engine.client.hset(engine.key("payload"), "lost", b'{"at":1,"payload":"lost"}')
    bulk_id = new_task_id()
    if script == "bulk_begin":
        losing.lose_reply_of(script)
        with pytest.raises(NO_REPLY):
            letters().start_replay(bulk_id=bulk_id)
    letters().start_replay(bulk_id=bulk_id)
    if script != "bulk_begin":
        losing.lose_reply_of(script)
    engine.scheduler(tick_interval=0.05).start()
    losing.wait_lost()
    engine.wait_until(lambda: letters().bulk(bulk_id).state is BulkState.DONE)
    assert letters().bulk(bulk_id).changed == 3
    consumer = engine.start("default")
    engine.wait_counts(consumer, Done=1, Dead=3)
    assert sorted(runs) == [*((task_id, "doomed") for task_id in DEAD), ("lost", "lost")]


@pytest.mark.parametrize("script", ["bulk_end", "bulk_halt"])
def test_of_a_stop(engine, losing, runs, script):
    bulk = letters().start_replay()
    losing.lose_reply_of(script)
    if script == "bulk_end":
        with pytest.raises(NO_REPLY):
            letters().stop_bulk(bulk.id)
        assert letters().stop_bulk(bulk.id) is False
    else:
        # A shard that does not answer stops by the record.
        assert letters().stop_bulk(bulk.id) is True
    engine.scheduler(tick_interval=0.05).run_once()
    assert letters().bulk(bulk.id).state is BulkState.STOPPED
    assert letters().count() == 3


def test_of_a_trim(engine, losing, runs):
    engine.configure(DEAD_LETTER_MAX_COUNT=1)
    losing.lose_reply_of("discard")
    engine.scheduler().start()
    losing.wait_lost()
    engine.wait_until(lambda: [one["id"] for one in engine.dead()] == ["d3"])


@pytest.mark.parametrize(
    "script", ["lease_release", "drop_consumers", "consumer_leave", "consumer_beat", "drop"]
)
def test_of_a_coming_and_going(engine, losing, runs, script):
    if script in {"consumer_beat", "drop"}:
        losing.lose_reply_of(script)
    engine.client.xadd(engine.key("stream"), {"garbage": "1"})
    scheduler, consumer = engine.scheduler(), engine.start("default")
    scheduler.start()
    engine.enqueue("new", task_id="new")
    engine.wait_counts(consumer, Done=1)
    engine.wait_until(lambda: scheduler.leases_held == 1)
    engine.wait_until(lambda: engine.client.xlen(engine.key("stream")) == 0)
    engine.wait_until(lambda: engine.client.hlen(engine.key("consumers")) == 1)
    if script not in {"consumer_beat", "drop"}:
        losing.lose_reply_of(script)
    scheduler.stop()
    consumer.stop()
    losing.wait_lost()
    assert runs == [("new", "new")]
    assert engine.client.get(engine.key("lease")) is None
    assert engine.consumers() == set()
    assert engine.client.hlen(engine.key("consumers")) == 0


def test_an_alias_with_retries_of_its_own(engine, losing, runs):
    options = {
        "CONNECTION_POOL_KWARGS": {"retry": Retry(NoBackoff(), 5), "retry_on_timeout": True},
        "SOCKET_TIMEOUT": 0.5,
    }
    backend = "django_redq.cache.QueueCache"
    alias = {"BACKEND": backend, "LOCATION": losing.url, "OPTIONS": options}
    with override_settings(CACHES={"redq": alias}):
        engine.redq.configure(CONNECTION={"CACHE": "redq"})
    with override_settings(CACHES={"redq": alias}):
        engine.enqueue("warm-up", task_id="warm-up")
        before = losing.asked["enqueue"]
        losing.lose_reply_of("enqueue")
        with pytest.raises(NO_REPLY):
            engine.enqueue("new", task_id="new")
        assert losing.asked["enqueue"] == before + 1

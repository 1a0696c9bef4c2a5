"""From a call to what is in Redis, and back."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import redis
from asgiref.sync import async_to_sync
from django.conf import settings
from django.dispatch import receiver
from django.test import override_settings

from django_redq import registry
from django_redq.broker.sync import get_broker
from django_redq.conf import get_config
from django_redq.errors import ConfigurationError
from django_redq.handlers import handler
from django_redq.outcome import Failure
from django_redq.producer import (
    Producer,
    acancel,
    aenqueue,
    aenqueue_many,
    aget_task,
    cancel,
    enqueue,
    enqueue_many,
    get_task,
)
from django_redq.producer.arguments import prepare
from django_redq.producer.sending import send
from django_redq.signals import task_enqueued
from django_redq.task import CancelResult, EnqueueResult, TaskSpec, TaskState

pytestmark = pytest.mark.every_setup

MOMENT = 1_700_000_000.25
"""What the producers with a clock of their own take for now."""


@pytest.fixture
def one_shard(redq):
    """The queue ``email`` with one shard."""
    redq.configure(queues={"email": {"SHARDS": 1}})
    return redq


@pytest.fixture
def producer(one_shard):
    return Producer("email", now=lambda: MOMENT)


@pytest.fixture
def told():
    """What ``task_enqueued`` told while the test ran."""
    facts = []

    def tell(signal, sender, **kwargs):
        facts.append(kwargs)

    task_enqueued.connect(tell)
    yield facts
    task_enqueued.disconnect(tell)


def world(redq):
    """All task data in the one shard; the records as values."""
    found = {key.removeprefix("{email:0}:"): value for key, value in redq.world().items() if value}
    found.pop("meta", None)
    if "payload" in found:
        found["payload"] = {
            task_id: msgspec.json.decode(raw) for task_id, raw in found["payload"].items()
        }
    return found


# --- enqueue ---------------------------------------------------------------------------------


def test_task_due_now_is_ready(producer, one_shard):
    result = producer.enqueue({"to": "a"}, task_id="t1", kind="k", max_attempts=2)

    found = world(one_shard)
    record = found["payload"]["t1"]
    ((entry_id, fields),) = found["stream"]
    assert result == EnqueueResult("t1", "email", 0, duplicate=False)
    assert record.pop("nonce")
    assert record == {
        "at": 1_700_000_000_250,
        "kind": "k",
        "max": 2,
        "payload": {"to": "a"},
    }
    assert fields == {"id": b"t1"}
    assert found["entry"] == {"t1": entry_id.encode()}
    assert found.keys() == {"payload", "stream", "entry"}


def test_delayed_task_is_scheduled_by_the_clock_of_the_producer(producer, one_shard):
    producer.enqueue(1, task_id="t1", delay=timedelta(minutes=1))

    found = world(one_shard)
    (due,) = found["delay"].values()
    # Less the microseconds that the call itself took, rounded up to ms.
    assert 1_700_000_050_250 < due <= 1_700_000_060_250
    assert found["payload"]["t1"]["due"] == due
    assert found.keys() == {"payload", "delay"}


def test_delayed_task_is_scheduled_by_the_clock_of_redis(one_shard):
    before = one_shard.client.time()
    enqueue("email", 1, task_id="t1", delay=3600)
    after = one_shard.client.time()

    record = world(one_shard)["payload"]["t1"]
    assert before[0] * 1000 <= record["at"] <= after[0] * 1000 + 1000
    assert 3_590_000 < record["due"] - record["at"] <= 3_600_000


def test_run_at_in_the_future_is_when_it_is_due(producer, one_shard):
    producer.enqueue(1, task_id="t1", run_at=datetime(2040, 1, 1, tzinfo=UTC))

    assert world(one_shard)["delay"] == {"t1": 2_208_988_800_000}


@pytest.mark.parametrize("year", [1900, 1970, 2001])
def test_run_at_in_the_past_means_now(producer, one_shard, year):
    producer.enqueue(1, task_id="t1", run_at=datetime(year, 1, 1, tzinfo=UTC))

    found = world(one_shard)
    assert found.keys() == {"payload", "stream", "entry"}
    assert "due" not in found["payload"]["t1"]


def test_second_task_of_an_id_is_a_duplicate_and_changes_nothing(producer, one_shard):
    producer.enqueue("first", task_id="t1", delay=60)
    before = one_shard.world()

    result = producer.enqueue("second", task_id="t1")

    assert result.duplicate is True
    assert one_shard.world() == before


def test_task_that_is_sent_again_is_no_duplicate(one_shard):
    task = prepare(get_config().queue("email"), TaskSpec(payload=1, task_id="t1"))

    assert send([task]) == [True]
    before = one_shard.world()
    assert send([task]) == [True]
    assert one_shard.world() == before


@pytest.mark.every_server
def test_payload_of_every_json_type_comes_back_as_it_was(redq):
    payload = {"a": [1, 1.0, True, None, "é\U0001f600", {}, []], "big": 2**200, "": -0.0}

    enqueue("email", payload, task_id="t1")

    back = get_task("email", "t1").task.payload
    assert back == payload
    assert str(back) == str(payload)


def test_limit_of_the_queue_is_that_of_the_bytes_in_redis(redq):
    redq.configure(queues={"email": {"SHARDS": 1, "MAX_PAYLOAD_BYTES": 100}})

    task_id = enqueue("email", "é" * 43).task_id

    raw = redq.world()["{email:0}:payload"][task_id]
    assert len(raw.partition(b",")[2]) == 99  # all but the time, which Redis adds
    with pytest.raises(ValueError, match="101 bytes"):
        enqueue("email", "é" * 44)


# --- many ------------------------------------------------------------------------------------


def test_many_are_answered_in_their_order(redq):
    enqueue("email", 0, task_id="b")

    results = enqueue_many("email", [TaskSpec(payload=n, task_id=n) for n in "abcdab"])

    assert [result.task_id for result in results] == list("abcdab")
    assert [result.duplicate for result in results] == [False, True, False, False, True, True]
    assert {result.shard for result in results} > {0}
    assert get_task("email", "c").task.payload == "c"


def test_more_than_a_script_takes_are_sent_all(one_shard):
    results = enqueue_many("email", [TaskSpec(payload=n) for n in range(1203)])

    assert len(results) == 1203
    assert one_shard.client.xlen(one_shard.key("email", 0, "stream")) == 1203


def test_many_may_come_from_a_generator_and_may_be_none(one_shard):
    assert len(enqueue_many("email", (TaskSpec(payload=n) for n in range(3)))) == 3
    assert enqueue_many("email", []) == []


def test_one_that_is_wrong_among_many_has_nothing_sent(redq):
    with pytest.raises(ValueError, match=r"tasks\[2\]\.delay"):
        enqueue_many(
            "email",
            [TaskSpec(payload=1), TaskSpec(payload=2), TaskSpec(payload=3, delay=-1)],
        )

    assert redq.keys() == []


def test_each_of_many_is_tried_where_one_fails(one_shard):
    shards = {"email": {"SHARDS": 2}}
    one_shard.configure(queues=shards)
    # The second shard is spoilt: its stream is no stream.
    one_shard.client.set(one_shard.key("email", 1, "stream"), "spoilt")
    specs = [TaskSpec(payload=n, task_id=f"t{n}") for n in range(8)]

    with pytest.raises(redis.ResponseError) as caught:
        enqueue_many("email", specs)

    (note,) = caught.value.__notes__
    stored = one_shard.world()["{email:0}:payload"]
    missing = [spec.task_id for spec in specs if spec.task_id not in stored]
    assert 0 < len(missing) < 8
    assert f"{len(missing)} of 8 task(s) of queue 'email'" in note
    assert all(task_id in note for task_id in missing[:5])


# --- cancel ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [None, 60])
def test_cancelled_task_leaves_nothing_behind(producer, one_shard, delay):
    producer.enqueue(1, task_id="t1", delay=delay)

    assert producer.cancel("t1") == CancelResult("t1", "email", 0, canceled=True)
    assert world(one_shard) == {}
    assert cancel("email", "t1") == CancelResult("t1", "email", 0, canceled=False)


def test_running_task_is_not_cancelled(producer, one_shard):
    producer.enqueue(1, task_id="t1")
    run(one_shard, "c1")
    before = one_shard.world()

    assert producer.cancel("t1").canceled is False
    assert one_shard.world() == before


def run(redq, consumer):
    """Hands the oldest READY task to a consumer."""
    stream = redq.key("email", 0, "stream")
    group = get_config().queue("email").group
    redq.client.xgroup_create(stream, group, "0")
    redq.client.xreadgroup(group, consumer, {stream: ">"}, count=1)


# --- get_task --------------------------------------------------------------------------------


def test_what_is_not_there_is_none(one_shard):
    assert get_task("email", "t1") is None


def test_scheduled_task_says_when_it_is_due(producer):
    producer.enqueue([1], task_id="t1", run_at=datetime(2040, 1, 1, tzinfo=UTC), kind="k")

    info = producer.get_task("t1")

    assert (info.task_id, info.queue, info.shard) == ("t1", "email", 0)
    assert info.state is TaskState.SCHEDULED
    assert info.run_at == info.task.run_at == datetime(2040, 1, 1, tzinfo=UTC)
    assert info.task.enqueued_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)
    assert (info.task.kind, info.task.payload, info.task.attempt) == ("k", [1], 1)
    assert (info.attempts, info.worker_lost, info.errors, info.consumer) == (0, False, (), None)


def test_ready_task_was_due_when_it_came(producer):
    producer.enqueue(1, task_id="t1", idempotency_key="key", metadata={"trace": "abc"})

    info = get_task("email", "t1")

    assert info.state is TaskState.READY
    assert info.run_at is None
    assert info.task.run_at == info.task.enqueued_at
    assert (info.task.idempotency_key, info.task.metadata) == ("key", {"trace": "abc"})


def test_running_task_says_who_runs_it(producer, one_shard):
    producer.enqueue(1, task_id="t1")
    run(one_shard, "c1")

    info = get_task("email", "t1")

    assert (info.state, info.consumer) == (TaskState.RUNNING, "c1")
    assert (info.attempts, info.task.attempt) == (1, 1)


def test_task_that_failed_before_says_how(producer, one_shard):
    from django_redq.broker.state import State
    from django_redq.codec import encode_failures

    failures = [Failure("E", "first", "", 1, 5), Failure("E", "second", "", 2, 6)]
    producer.enqueue(1, task_id="t1", delay=60)
    state = State(attempts=2, lost=True, allowed=3, failures=encode_failures(failures))
    one_shard.client.hset(one_shard.key("email", 0, "state"), "t1", state.encode())
    one_shard.client.zadd(one_shard.key("email", 0, "delay"), {"t1": 2_208_988_800_000})

    info = get_task("email", "t1")

    assert info.run_at == info.task.run_at == datetime(2040, 1, 1, tzinfo=UTC)
    assert (info.attempts, info.worker_lost, info.task.attempt) == (2, True, 3)
    assert info.errors == tuple(failures)
    assert info.task.last_error == failures[1]


@pytest.mark.parametrize(
    ("call", "of_handler", "expected"),
    [(None, None, 4), (None, 7, 7), (9, 7, 9)],
)
def test_call_beats_handler_beats_queue(redq, call, of_handler, expected):
    redq.configure(queues={"email": {"SHARDS": 1, "MAX_ATTEMPTS": 4}})
    with registry.isolated():
        send = handler("email", kind="k", max_attempts=of_handler)(lambda task: task)

        send.enqueue({}, task_id="t1", max_attempts=call)

        assert get_task("email", "t1").task.max_attempts == expected
    assert ("max" in world(redq)["payload"]["t1"]) is (call is not None)


@pytest.mark.parametrize("raw", [b"garbage", b'{"at":1}', b'{"at":1,"payload":"\\ud800"}'])
def test_task_that_does_not_decode_is_still_found(producer, one_shard, raw):
    producer.enqueue(1, task_id="t1")
    one_shard.client.hset(one_shard.key("email", 0, "payload"), "t1", raw)

    info = get_task("email", "t1")

    assert info.state is TaskState.READY
    assert info.task is None


# --- handlers --------------------------------------------------------------------------------


def test_handler_enqueues_to_its_queue_and_kind(one_shard):
    with registry.isolated():
        send = handler("email", kind="welcome")(lambda task: task)

        result = send.enqueue({"to": "a"}, delay=60)
        other = asyncio.run(send.aenqueue({"to": "b"}, mode="immediate"))

    assert (result.queue, get_task("email", result.task_id).task.kind) == ("email", "welcome")
    assert get_task("email", other.task_id).task.payload == {"to": "b"}


# --- Redis away, or not as it should be ------------------------------------------------------


def test_outage_surfaces_as_redis_own_error_with_the_task_id():
    with pytest.raises(redis.ConnectionError) as caught:
        enqueue("email", "secret", task_id="order-7")

    (note,) = caught.value.__notes__
    assert "order-7" in note
    assert "secret" not in note


def test_outage_surfaces_from_async_code_too():
    with pytest.raises(redis.ConnectionError) as caught:
        asyncio.run(aenqueue("email", 1, task_id="order-7", mode="immediate"))

    assert "order-7" in caught.value.__notes__[0]


def test_settings_that_disagree_with_redis_are_told_and_nothing_is_sent(one_shard):
    enqueue("email", 1, task_id="t1")
    before = one_shard.world()
    one_shard.configure(queues={"email": {"SHARDS": 2}})

    with pytest.raises(ConfigurationError, match="SHARDS"):
        enqueue("email", 2)
    assert one_shard.world() == before


# --- the signal ------------------------------------------------------------------------------


def test_signal_tells_of_what_redis_accepted(redq, told):
    enqueue("email", 1, task_id="t1", kind="k")
    enqueue_many("email", [TaskSpec(payload=1, task_id="t1"), TaskSpec(payload=1, task_id="t2")])

    assert told == [
        {"queue": "email", "task_id": "t1", "kind": "k", "duplicate": False},
        {"queue": "email", "task_id": "t1", "kind": "", "duplicate": True},
        {"queue": "email", "task_id": "t2", "kind": "", "duplicate": False},
    ]


def test_signal_does_not_tell_of_what_failed(told):
    with pytest.raises(redis.ConnectionError):
        enqueue("email", 1)

    assert told == []


def test_receiver_that_raises_harms_nothing(redq, told, caplog):
    @receiver(task_enqueued)
    def fails(**kwargs):
        raise RuntimeError("receiver")

    with caplog.at_level(logging.ERROR, "django.dispatch"):
        assert enqueue("email", 1).duplicate is False
        assert asyncio.run(aenqueue("email", 1, mode="immediate")).duplicate is False
    assert len(told) == 2


def test_async_receiver_is_awaited(redq):
    heard = []

    @receiver(task_enqueued)
    async def hears(task_id, **kwargs):
        heard.append((task_id, asyncio.get_running_loop()))

    async def view():
        await aenqueue("email", 1, task_id="t1", mode="immediate")
        return asyncio.get_running_loop()

    loop = asyncio.run(view())
    assert heard == [("t1", loop)]
    enqueue("email", 1, task_id="t2")
    assert heard[1][0] == "t2"


# --- async code ------------------------------------------------------------------------------


def test_every_verb_has_a_twin_to_await(redq):
    async def view():
        first = await aenqueue("email", [1], task_id="t1", mode="immediate", delay=60)
        many = await aenqueue_many(
            "email",
            [TaskSpec(payload=2, task_id="t1"), TaskSpec(payload=3, task_id="t3")],
            mode="immediate",
        )
        assert await aenqueue_many("email", [], mode="immediate") == []
        info = await aget_task("email", "t1")
        gone = await acancel("email", "t1")
        return first, many, info, gone, await aget_task("email", "t1")

    first, many, info, gone, after = asyncio.run(view())

    assert first.duplicate is False
    assert [result.duplicate for result in many] == [True, False]
    assert (info.state, info.task.payload) == (TaskState.SCHEDULED, [1])
    assert gone.canceled is True
    assert after is None


def test_many_loops_in_turn_and_at_once(redq):
    async def view(name):
        results = await asyncio.gather(
            *(aenqueue("email", n, task_id=f"{name}-{n}", mode="immediate") for n in range(20))
        )
        return [result.duplicate for result in results]

    for name in ("first", "second"):
        assert asyncio.run(view(name)) == [False] * 20
    assert async_to_sync(view)("third") == [False] * 20


def test_arguments_are_checked_before_anything_is_awaited(redq):
    async def view():
        await aenqueue("email", {1, 2})

    with pytest.raises(ValueError, match="payload: is a set"):
        asyncio.run(view())
    assert redq.keys() == []


# --- settings --------------------------------------------------------------------------------


def test_settings_that_change_are_obeyed_at_once(redq):
    first = get_broker()
    enqueue("email", 1, task_id="t1")
    with override_settings(REDQ={**settings.REDQ, "NAMESPACE": f"{redq.namespace}-other"}):
        assert enqueue("email", 1, task_id="t1").duplicate is False
        assert get_broker() is not first
        for key in redq.client.scan_iter(f"{redq.namespace}-other:*"):
            redq.client.delete(key)

    assert enqueue("email", 1, task_id="t1").duplicate is True

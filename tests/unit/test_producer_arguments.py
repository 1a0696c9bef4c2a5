"""What the arguments of a call become, and which are refused; nothing here needs a server."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.test import override_settings
from django.utils.safestring import mark_safe

from django_redq import producer
from django_redq.conf import get_config
from django_redq.errors import InvalidArgument, PayloadTooLarge, UnknownQueue
from django_redq.producer import Producer, arguments
from django_redq.task import TaskSpec

QUEUES = {"email": {"SHARDS": 4, "MAX_PAYLOAD_BYTES": 200}}
NEXT_YEAR = datetime.now(UTC) + timedelta(days=365)

pytestmark = pytest.mark.usefixtures("queues")


@pytest.fixture
def queues():
    with override_settings(REDQ={"QUEUES": QUEUES}):
        yield


@pytest.fixture
def monotonic(monkeypatch):
    """The monotonic clock, set by hand."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(arguments.time, "monotonic", lambda: Clock.now)
    return Clock


def prepare(payload=None, **options):
    producer_options = {
        name: options.pop(name) for name in ("id_generator", "now") if name in options
    }
    spec = TaskSpec(payload=payload, **options)
    return arguments.prepare(get_config().queue("email"), spec, **producer_options)


def record(prepared):
    return msgspec.json.decode(b'{"at":0,' + prepared.body)


# --- what becomes of them --------------------------------------------------------------------


def test_least_that_can_be_said_is_sent_as_the_payload_alone():
    task = prepare({"to": "a"})

    assert task.body == b'"payload":{"to":"a"}}'
    assert task.submission().when == ""
    assert (task.queue, task.kind) == ("email", "")


def test_default_id_is_a_uuid_of_version_7():
    ids = {prepare().task_id for _ in range(100)}

    assert len(ids) == 100
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab].{16}", id_) for id_ in ids
    )


def test_shard_follows_from_the_id():
    shards = {f"order-{n}": prepare(task_id=f"order-{n}").shard for n in range(50)}

    assert set(shards.values()) == {0, 1, 2, 3}
    assert all(prepare(task_id=id_).shard == shard for id_, shard in shards.items())


def test_an_id_that_others_may_have_too_gets_a_nonce():
    first, second = prepare(task_id="order-7"), prepare(task_id="order-7")

    assert first.task_id == "order-7"
    assert record(first)["nonce"] != record(second)["nonce"]
    assert "nonce" not in record(prepare())


def test_id_generator_makes_the_id_where_the_call_gives_none():
    made = prepare(id_generator=lambda: mark_safe("made"))

    assert type(made.task_id) is str
    assert made.task_id == "made"
    assert "nonce" in record(made)
    assert prepare(task_id="given", id_generator=lambda: "made").task_id == "given"


def test_everything_said_is_in_the_record():
    task = prepare(
        [1],
        task_id="t",
        kind="welcome",
        max_attempts=5,
        idempotency_key="key",
        metadata={"trace": "abc"},
    )

    assert {**record(task), "nonce": "n"} == {
        "at": 0,
        "kind": "welcome",
        "max": 5,
        "key": "key",
        "meta": {"trace": "abc"},
        "nonce": "n",
        "payload": [1],
    }


@pytest.mark.parametrize(
    ("delay", "when"),
    [
        (None, ""),
        (0, ""),
        (0.0, ""),
        (timedelta(0), ""),
        (300, "+300000"),
        (0.25, "+250"),
        (0.0001, "+1"),
        (timedelta(hours=1), "+3600000"),
        (timedelta(microseconds=1), "+1"),
        (timedelta(days=36_000), "+3110400000000"),
    ],
)
def test_delay_is_sent_in_milliseconds_rounded_up(monotonic, delay, when):
    assert prepare(delay=delay).submission().when == when


def test_delay_counts_from_the_call(monotonic):
    task = prepare(delay=5)

    monotonic.now += 3.5
    assert task.submission().when == "+1500"
    monotonic.now += 10
    assert task.submission().when == ""


def test_run_at_is_sent_as_it_is(monotonic):
    task = prepare(run_at=datetime(2040, 1, 1, tzinfo=UTC))

    monotonic.now += 60
    assert task.submission().when == "2208988800000"


def test_run_at_before_the_epoch_is_long_past():
    assert prepare(run_at=datetime(1900, 1, 1, tzinfo=UTC)).submission().when == "0"


# --- what is refused -------------------------------------------------------------------------

REFUSALS = [
    ({"delay": -1}, "delay", "seconds"),
    ({"delay": -0.001}, "delay", "seconds"),
    ({"delay": timedelta(seconds=-1)}, "delay", "timedelta"),
    ({"delay": True}, "delay", "seconds"),
    ({"delay": "5"}, "delay", "seconds"),
    ({"delay": math.nan}, "delay", "seconds"),
    ({"delay": math.inf}, "delay", "seconds"),
    ({"delay": 10**400}, "delay", "seconds"),
    ({"delay": 10**5000}, "delay", "seconds"),
    ({"delay": 1e12}, "delay", "to 3,153,599,999 s"),
    ({"delay": Decimal(5)}, "delay", "seconds"),
    ({"delay": NEXT_YEAR}, "delay", "seconds"),
    ({"run_at": 5}, "run_at", "datetime"),
    ({"run_at": "2040-01-01"}, "run_at", "datetime"),
    ({"run_at": date(2040, 1, 1)}, "run_at", "datetime"),
    ({"run_at": datetime(2040, 1, 1)}, "run_at", "naive"),  # noqa: DTZ001 - that is the point
    ({"run_at": NEXT_YEAR, "delay": 5}, "run_at", "delay"),
    ({"run_at": NEXT_YEAR, "delay": 0}, "run_at", "delay"),
    ({"task_id": ""}, "task_id", "1 to 256"),
    ({"task_id": "a b"}, "task_id", "without whitespace"),
    ({"task_id": "a{b}"}, "task_id", "braces"),
    ({"task_id": "a" * 257}, "task_id", "1 to 256"),
    ({"task_id": "a\ud800"}, "task_id", "printable"),
    ({"task_id": 7}, "task_id", "text"),
    ({"kind": "a b"}, "kind", "letter or digit"),
    ({"kind": None}, "kind", "letter or digit"),
    ({"kind": b"k"}, "kind", "letter or digit"),
    ({"max_attempts": 0}, "max_attempts", "whole number from 1"),
    ({"max_attempts": -1}, "max_attempts", "whole number"),
    ({"max_attempts": True}, "max_attempts", "whole number"),
    ({"max_attempts": 2.0}, "max_attempts", "whole number"),
    ({"max_attempts": "2"}, "max_attempts", "whole number"),
    ({"max_attempts": 10**5000}, "max_attempts", "whole number"),
    ({"idempotency_key": 5}, "idempotency_key", "text"),
    ({"metadata": {"a": 1}}, "metadata.a", "text"),
    ({"metadata": [("a", "b")]}, "metadata", "dict"),
    ({"payload": {"order": {1, 2}}}, "payload.order", "set"),
]


@pytest.mark.parametrize(("options", "field", "reason"), REFUSALS)
def test_argument_that_breaks_its_rule_is_named_with_the_rule(options, field, reason):
    with pytest.raises(InvalidArgument) as caught:
        prepare(**{"payload": 1, **options})

    assert caught.value.field == field
    assert reason in caught.value.reason
    assert str(caught.value) == f"{field}: {caught.value.reason}"


@pytest.mark.parametrize(("options", "field", "reason"), REFUSALS)
def test_argument_of_one_of_many_is_named_with_its_place(options, field, reason):
    specs = [TaskSpec(payload=1), TaskSpec(**{"payload": 1, **options})]

    with pytest.raises(InvalidArgument) as caught:
        Producer("email").enqueue_many(specs)

    assert caught.value.field == f"tasks[1].{field}"
    assert str(caught.value) == f"tasks[1].{field}: {caught.value.reason}"


@pytest.mark.parametrize(
    ("tasks", "field"),
    [
        ([TaskSpec(payload=1), {"payload": 2}], "tasks[1]"),
        ([1], "tasks[0]"),
        (TaskSpec(payload=1), "tasks"),
        ({"payload": 1}, "tasks"),
        ("tasks", "tasks"),
        (None, "tasks"),
    ],
)
def test_many_tasks_are_a_list_of_specs(tasks, field):
    with pytest.raises(InvalidArgument, match="TaskSpec") as caught:
        Producer("email").enqueue_many(tasks)

    assert caught.value.field == field


def test_too_large_is_told_in_bytes_and_with_its_place():
    with pytest.raises(PayloadTooLarge) as caught:
        Producer("email").enqueue_many([TaskSpec(payload="é" * 100)])

    assert (caught.value.size, caught.value.limit) == (len('"payload":""}') + 200, 200)
    assert caught.value.field == "tasks[0].payload"


@pytest.mark.parametrize("made", ["", 7, None, "a b"])
def test_what_an_id_generator_makes_is_checked(made):
    with pytest.raises(InvalidArgument, match="task_id"):
        prepare(id_generator=lambda: made)


@pytest.mark.parametrize("mode", ["outbox", "", "ON_COMMIT", True, 1])
def test_unknown_mode_is_refused_with_the_known_ones(mode):
    with pytest.raises(InvalidArgument, match="'on_commit' or 'immediate'") as caught:
        producer.enqueue("email", 1, mode=mode)

    assert caught.value.field == "mode"


@pytest.mark.parametrize("queue", ["emial", "", None, ["email"]])
@pytest.mark.parametrize(
    "call",
    [
        lambda queue: producer.enqueue(queue, 1),
        lambda queue: producer.enqueue_many(queue, []),
        lambda queue: producer.cancel(queue, "t"),
        lambda queue: producer.get_task(queue, "t"),
        Producer,
    ],
)
def test_unknown_queue_is_told_with_the_known_ones(call, queue):
    with pytest.raises(UnknownQueue, match="known: email"):
        call(queue)


@pytest.mark.parametrize("call", [producer.cancel, producer.get_task])
def test_what_is_no_task_id_is_not_looked_for(call):
    with pytest.raises(InvalidArgument, match="task_id"):
        call("email", "a b")


@pytest.mark.parametrize("option", ["id_generator", "now"])
def test_options_of_a_producer_are_callables(option):
    with pytest.raises(InvalidArgument, match="callable") as caught:
        Producer("email", **{option: 5})

    assert caught.value.field == option


def test_misspelt_argument_is_a_type_error():
    with pytest.raises(TypeError, match="dealy"):
        producer.enqueue("email", 1, dealy=5)
    with pytest.raises(TypeError, match="dealy"):
        Producer("email").enqueue(1, dealy=5)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("enqueue", ("email", 1)),
        ("enqueue_many", ("email", [])),
        ("cancel", ("email", "t")),
        ("get_task", ("email", "t")),
    ],
)
def test_blocking_call_on_an_event_loop_names_what_to_await(name, arguments):
    import asyncio

    async def view():
        getattr(producer, name)(*arguments)

    with pytest.raises(SynchronousOnlyOperation, match=rf"await a{name}\(\)"):
        asyncio.run(view())

"""Signals and dead-letter handlers: told once Redis has it, and harmless whatever they do."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager

import pytest

from django_redq import signals
from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import Reject
from django_redq.handlers import dead_letter_handler, handler
from django_redq.outcome import Reason
from django_redq.task import TaskState
from tests.engine import Heard

RETRY = {"POLICY": "fixed", "INTERVAL": 60}
both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def failing_once(is_async=False, error=ValueError("no luck")):  # noqa: B008 - never changed
    """A handler that fails in the first attempt."""
    if is_async:

        @handler("default", kind="k")
        async def work(task):
            if task.attempt == 1:
                raise error

    else:

        @handler("default", kind="k")
        def work(task):
            if task.attempt == 1:
                raise error


@both
def test_every_step_is_told(engine, is_async):
    engine.configure(RETRY=RETRY)
    failing_once(is_async)
    heard = engine.heard()
    consumer = engine.start("default")
    task_id = engine.enqueue(7, kind="k")
    heard.wait("task_retried")
    engine.promote()
    engine.wait_counts(consumer, Done=1)
    assert [name for name, _ in heard.all] == [
        "task_enqueued",
        "task_started",
        "task_retried",
        "task_started",
        "task_succeeded",
    ]
    assert {facts["queue"] for _, facts in heard.all} == {"default"}
    assert {facts["task_id"] for _, facts in heard.all} == {task_id}
    enqueued, started, retried, again, succeeded = (facts for _, facts in heard.all)
    assert (enqueued["kind"], enqueued["duplicate"]) == ("k", False)
    assert (started["task"].attempt, started["task"].payload) == (1, 7)
    assert (retried["delay"], retried["failure"].error) == (60.0, "no luck")
    assert retried["task"] == started["task"]
    assert again["task"].attempt == 2
    assert succeeded["task"] == again["task"]


def test_a_retry_is_told_once_redis_has_it(engine):
    engine.configure(RETRY=RETRY)
    failing_once()
    states = []

    def look(task_id, **facts):
        states.append(engine.task(task_id).state)

    with connected(signals.task_retried, look):
        consumer = engine.start("default")
        engine.enqueue(kind="k")
        engine.wait_counts(consumer, RetryAt=1)
        consumer.stop()
    assert states == [TaskState.SCHEDULED]


@contextmanager
def connected(signal, receiver):
    """In here the receiver listens."""
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


class Harm(BaseException):
    """What a receiver may come up with."""


@pytest.fixture(params=[ValueError, SystemExit, KeyboardInterrupt, Harm], ids=lambda e: e.__name__)
def harmful(request, engine):
    """Receivers of all that a consumer tells, and a dead-letter handler, that raise; who has come
    there so far. Asked for after ``heard``, they come after it.
    """
    came = []

    def receiver(signal, **facts):
        came.append("receiver")
        raise request.param("harm")

    @dead_letter_handler("default")
    def angry(letter):
        came.append("dead-letter handler")
        raise request.param("harm")

    for name in Heard.NAMES[1:]:
        getattr(signals, name).connect(receiver, weak=False)
    yield came
    for name in Heard.NAMES[1:]:
        getattr(signals, name).disconnect(receiver)


@pytest.fixture
def heard(engine):
    return engine.heard()


@both
def test_a_receiver_that_raises_harms_nothing(engine, heard, harmful, is_async):
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 0}, MAX_ATTEMPTS=2)
    runs = []

    def run(task):
        runs.append((task.payload, task.attempt))
        if task.payload == "fails" or task.attempt == 1:
            raise ValueError

    if is_async:

        @handler("default")
        async def work(task):
            run(task)

    else:
        handler("default")(run)
    consumer = engine.start("default", concurrency=2)
    for _ in range(2):
        engine.enqueue("works")
        engine.enqueue("fails")
    engine.wait_counts(consumer, Done=2, Dead=2, RetryAt=4)
    consumer.stop()
    assert sorted(runs) == sorted([("fails", 1), ("fails", 2), ("works", 1), ("works", 2)] * 2)
    assert {name: len(heard.named(name)) for name in Heard.NAMES} == {
        "task_enqueued": 4,
        "task_started": 8,
        "task_succeeded": 2,
        "task_retried": 4,
        "task_dead_lettered": 2,
    }
    assert Counter(harmful) == {"receiver": 16, "dead-letter handler": 2}


# --- dead-letter handlers ----------------------------------------------------------------------


@both
def test_a_dead_letter_handler_gets_what_the_queue_of_dead_letters_shows(engine, is_async):
    failing_once(is_async, error=Reject("no such customer"))
    letters, done = [], threading.Event()

    @dead_letter_handler("default")
    def tell(letter):
        # It may act on it at once.
        letters.append((letter, DeadLetterQueue("default").get(letter.task_id)))
        done.set()

    engine.start("default")
    task_id = engine.enqueue({"a": [1]}, kind="k")
    assert done.wait(60)
    ((told, stored),) = letters
    assert (told.task_id, told.queue, told.shard) == (task_id, "default", 0)
    assert (told.entry_id, told.reason, told.kind) == (stored.entry_id, Reason.REJECTED, "k")
    assert (told.error, told.exception_type) == (stored.error, stored.exception_type)
    assert (told.traceback, told.attempts) == (stored.traceback, 1)
    assert told.replayable
    assert told.task.payload == {"a": [1]}


@pytest.mark.parametrize("once", [False, True])
def test_a_dead_letter_handler_may_be_async(engine, once):
    failing_once(error=Reject())
    told = []

    @dead_letter_handler("default")
    async def tell(letter):
        told.append(letter.task_id)

    task_id = engine.enqueue(kind="k")
    if once:
        engine.consumer().run_once()
    else:
        engine.start("default")
    engine.wait_until(lambda: told == [task_id])


def test_dead_letters_of_another_queue_are_not_told(engine):
    engine.redq.configure(queues={"default": {"SHARDS": 1}, "other": {"SHARDS": 1}})
    failing_once(error=Reject())
    told = []

    @dead_letter_handler("other")
    def tell(letter):
        told.append(letter)

    engine.enqueue(kind="k")
    engine.consumer().run_once()
    assert len(engine.dead()) == 1
    assert told == []


def test_what_is_to_be_told_is_told_before_the_consumer_has_stopped(engine):
    failing_once(error=Reject())
    told = []

    @dead_letter_handler("default")
    def tell(letter):
        told.append(letter.task_id)

    consumer = engine.start("default")
    ids = {engine.enqueue(kind="k") for _ in range(5)}
    engine.wait_counts(consumer, Dead=5)
    consumer.stop()
    assert set(told) == ids


@pytest.mark.django_db(transaction=True)
def test_a_dead_letter_handler_may_use_the_database(engine, django_user_model):
    failing_once(error=Reject())
    done = threading.Event()

    @dead_letter_handler("default")
    def tell(letter):
        django_user_model.objects.create(username=letter.task_id)
        done.set()

    engine.start("default")
    task_id = engine.enqueue(kind="k")
    assert done.wait(60)
    assert django_user_model.objects.get().username == task_id


# --- mock.patch --------------------------------------------------------------------------------


def patched_later(task):
    """Stands at module level, so that a test can put something in its place."""
    raise AssertionError("the original was called")


def test_what_stands_in_the_handlers_place_is_called(engine, monkeypatch):
    handler("default", kind="patched")(patched_later)
    seen = []
    monkeypatch.setattr(f"{__name__}.patched_later", seen.append)
    task_id = engine.enqueue(kind="patched")
    assert engine.consumer().run_once() == 1
    assert [task.id for task in seen] == [task_id]

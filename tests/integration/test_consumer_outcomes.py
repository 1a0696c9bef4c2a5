"""Each way in which a run can end, from ``enqueue`` to what is left in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from django_redq.errors import Reject, Retry
from django_redq.handlers import handler
from django_redq.outcome import Reason
from django_redq.task import Task, TaskState

pytestmark = pytest.mark.every_setup

FIXED = {"POLICY": "fixed", "INTERVAL": 60}
NOW = 2_000_000_000.0
"""Seconds since the epoch, a moment in 2033."""


class Broken(Exception):
    """What the handlers of this module fail with."""


NO_LUCK = Broken("no luck")


def grumpy_policy(attempt: int, error: BaseException) -> float | None:
    """A policy that is named by its dotted path in settings."""
    return None if isinstance(error, LookupError) else 100.0 * attempt


def failing(queue="default", error=NO_LUCK, **options):
    """A handler that always fails; the tasks that it saw."""
    seen = []

    @handler(queue, **options)
    def work(task):
        seen.append(task)
        raise error

    return seen


def due_in(engine, task_id):
    """Seconds from :data:`NOW` until a task is due."""
    return engine.client.zscore(engine.key("delay"), task_id) / 1000 - NOW


def at_now(engine, **options):
    """A consumer of two tasks at a time at whose place it is :data:`NOW`."""
    return engine.consumer(concurrency=2, now=lambda: NOW, **options)


# --- done --------------------------------------------------------------------------------------


@pytest.mark.every_server
def test_a_task_runs_once_and_leaves_nothing(engine):
    seen = []

    @handler("default")
    def work(task):
        seen.append(task)

    consumer = engine.start("default")
    task_id = engine.enqueue(
        {"n": 1}, idempotency_key="order-7", metadata={"by": "test"}, max_attempts=9
    )
    engine.wait_counts(consumer, Done=1)
    engine.assert_drained()
    (task,) = seen
    assert (task.id, task.queue, task.kind, task.payload) == (task_id, "default", "", {"n": 1})
    assert (task.attempt, task.max_attempts) == (1, 9)
    assert (task.idempotency_key, task.metadata) == ("order-7", {"by": "test"})
    assert task.last_error is None
    assert not task.lost
    assert task.run_at == task.enqueued_at
    assert engine.count("meta", "done") == 1


def test_an_async_handler_runs_like_a_sync_one(engine):
    seen = []

    @handler("default")
    async def work(task):
        seen.append(task.payload)

    consumer = engine.start("default")
    engine.enqueue([1, 2])
    engine.wait_counts(consumer, Done=1)
    engine.assert_drained()
    assert seen == [[1, 2]]


def test_a_typed_payload_arrives_as_its_type(engine):
    @dataclass
    class Welcome:
        to: str
        times: int = 1

    seen = []

    @handler("default", payload=Welcome)
    def work(task: Task):
        seen.append(task.payload)

    engine.enqueue({"to": "a@example.org"})
    assert at_now(engine).run_once() == 1
    assert seen == [Welcome("a@example.org")]


def test_the_kind_chooses_the_handler(engine):
    seen = []

    @handler("default", kind="a")
    def work_a(task):
        seen.append(("a", task.kind))

    @handler("default", kind="b")
    def work_b(task):
        seen.append(("b", task.kind))

    engine.enqueue(kind="b")
    engine.enqueue(kind="a")
    assert at_now(engine).run_once() == 2
    assert seen == [("b", "b"), ("a", "a")]


# --- retried -----------------------------------------------------------------------------------


def test_a_fixed_retry_waits_the_interval_and_keeps_what_happened(engine):
    engine.configure(RETRY=FIXED)
    seen = failing()
    task_id = engine.enqueue()
    consumer = at_now(engine)
    assert consumer.run_once() == 1
    assert due_in(engine, task_id) == 60
    info = engine.task(task_id)
    assert (info.state, info.attempts, info.worker_lost) == (TaskState.SCHEDULED, 1, False)
    (error,) = info.errors
    assert (error.error, error.attempt) == ("no luck", 1)
    assert error.exception_type.endswith("test_consumer_outcomes.Broken")
    assert "raise error" in error.traceback
    assert engine.promote() == 1
    assert consumer.run_once() == 1
    assert seen[1].attempt == 2
    assert seen[1].last_error == error
    assert len(engine.task(task_id).errors) == 2


def test_an_exponential_retry_doubles(engine):
    engine.configure(
        MAX_ATTEMPTS=5, RETRY={"POLICY": "exponential", "INITIAL": 100, "MAX": 350, "JITTER": 0}
    )
    failing()
    task_id = engine.enqueue()
    consumer, waits = at_now(engine), []
    for _ in range(4):
        assert consumer.run_once() == 1
        waits.append(due_in(engine, task_id))
        engine.promote()
    assert waits == [100, 200, 350, 350]


def test_a_policy_named_by_its_path_decides(engine):
    engine.configure(RETRY="tests.integration.test_consumer_outcomes.grumpy_policy")
    failing(kind="slow")
    failing(kind="never", error=KeyError("x"))
    engine.enqueue(task_id="slow", kind="slow")
    engine.enqueue(task_id="never", kind="never")
    assert at_now(engine).run_once() == 2
    assert due_in(engine, "slow") == 100
    assert engine.only_dead()["id"] == "never"
    assert engine.only_dead()["reason"] == Reason.EXHAUSTED


def test_a_handlers_own_policy_beats_the_queues(engine):
    engine.configure(RETRY=FIXED)
    failing(retry=lambda _attempt, _error: timedelta(minutes=50))
    task_id = engine.enqueue()
    at_now(engine).run_once()
    assert due_in(engine, task_id) == 3000


def test_a_policy_that_fails_is_replaced_by_the_default_one(engine, caplog):
    failing(retry=lambda _attempt, _error: 1 / 0)
    task_id = engine.enqueue()
    at_now(engine).run_once()
    assert engine.task(task_id).state is TaskState.SCHEDULED
    assert "retry policy" in caplog.text


@pytest.mark.parametrize(("delay", "seconds"), [(200, 200), (timedelta(hours=1), 3600), (0, None)])
def test_retry_with_a_delay_beats_the_policy(engine, delay, seconds):
    engine.configure(RETRY=FIXED)
    failing(error=Retry("later", delay=delay))
    task_id = engine.enqueue()
    at_now(engine).run_once()
    info = engine.task(task_id)
    assert info.errors[-1].error == "later"
    if seconds is None:
        assert (info.state, info.attempts) == (TaskState.READY, 1)
    else:
        assert due_in(engine, task_id) == seconds


def test_retry_without_a_delay_asks_the_policy(engine):
    engine.configure(RETRY=FIXED)
    failing(error=Retry())
    task_id = engine.enqueue()
    at_now(engine).run_once()
    assert due_in(engine, task_id) == 60


@pytest.mark.parametrize("delay", [float("nan"), "soon", object()])
@pytest.mark.parametrize("is_async", [False, True])
def test_retry_with_no_delay_at_all_falls_back_to_the_policy(engine, delay, is_async):
    engine.configure(RETRY=FIXED)
    if is_async:

        @handler("default")
        async def work(task):
            raise Retry(delay=delay)

    else:
        failing(error=Retry(delay=delay))
    heard = engine.heard()
    consumer = engine.start("default", now=lambda: NOW)
    task_id = engine.enqueue()
    heard.wait("task_retried")
    assert due_in(engine, task_id) == 60
    engine.wait_until(lambda: consumer.is_idle)


def test_a_retry_is_promoted_and_run_by_running_parts(engine):
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 0.05})
    attempts = []

    @handler("default")
    def work(task):
        attempts.append(task.attempt)
        if task.attempt < 3:
            raise Broken

    engine.scheduler().start()
    consumer = engine.start("default")
    engine.enqueue()
    engine.wait_counts(consumer, Done=1, RetryAt=2)
    engine.assert_drained()
    assert attempts == [1, 2, 3]


# --- dead --------------------------------------------------------------------------------------


def test_the_last_attempt_leads_to_the_dead_letters(engine):
    engine.configure(MAX_ATTEMPTS=2, RETRY=FIXED)
    failing(kind="mail")
    task_id = engine.enqueue({"to": "x"}, kind="mail")
    consumer = at_now(engine)
    consumer.run_once()
    engine.promote()
    consumer.run_once()
    letter = engine.only_dead()
    assert letter["id"] == task_id
    assert letter["reason"] == Reason.EXHAUSTED
    assert (letter["kind"], letter["attempts"], letter["error"]) == ("mail", "2", "no luck")
    assert letter["type"].endswith("Broken")
    assert "raise error" in letter["traceback"]
    info = engine.task(task_id)
    assert (info.state, info.attempts, len(info.errors)) == (TaskState.DEAD, 2, 2)
    assert info.task.payload == {"to": "x"}
    assert engine.pending() == []


def test_call_beats_handler_beats_queue_in_max_attempts(engine):
    engine.configure(MAX_ATTEMPTS=7)
    failing(max_attempts=1)
    engine.enqueue(task_id="as-the-handler")
    engine.enqueue(task_id="as-the-call", max_attempts=2)
    at_now(engine).run_once()
    assert engine.only_dead()["id"] == "as-the-handler"
    assert engine.task("as-the-call").state is TaskState.SCHEDULED


def test_a_rejected_task_is_dead_at_once(engine):
    failing(error=Reject("no such customer"))
    engine.enqueue()
    at_now(engine).run_once()
    letter = engine.only_dead()
    assert (letter["reason"], letter["error"]) == (Reason.REJECTED, "no such customer")
    assert letter["attempts"] == "1"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_payload_that_does_not_fit_its_type_is_dead_at_once(engine, is_async):
    @dataclass
    class Order:
        pk: int

    seen = []
    if is_async:

        @handler("default", payload=Order, kind="order")
        async def work(task):
            seen.append(task)

    else:

        @handler("default", payload=Order, kind="order")
        def work(task):
            seen.append(task)

    engine.enqueue({"pk": "seven"}, kind="order")
    consumer = engine.start("default")
    engine.wait_counts(consumer, Dead=1)
    letter = engine.only_dead()
    assert (letter["reason"], letter["kind"]) == (Reason.INVALID_PAYLOAD, "order")
    assert "payload.pk" in letter["error"]
    assert "Expected `int`, got `str`" in letter["error"]
    assert seen == []


def test_an_unknown_kind_is_retried_and_then_dead(engine):
    engine.configure(MAX_ATTEMPTS=2, RETRY=FIXED)
    failing(kind="known")
    task_id = engine.enqueue(kind="newer")
    consumer = at_now(engine)
    consumer.run_once()
    assert due_in(engine, task_id) == 60
    assert "known kinds: 'known'" in engine.task(task_id).errors[0].error
    engine.promote()
    consumer.run_once()
    letter = engine.only_dead()
    assert (letter["reason"], letter["kind"]) == (Reason.EXHAUSTED, "newer")


def test_an_unknown_kind_runs_once_a_newer_worker_is_there(engine):
    engine.configure(RETRY=FIXED)
    engine.enqueue(kind="newer")
    at_now(engine).run_once()
    engine.promote()
    seen = []

    @handler("default", kind="newer")
    def work(task):
        seen.append(task.attempt)

    at_now(engine).run_once()
    assert seen == [2]


def test_a_round_over_all_shards_is_gone_through_without_a_wait(engine, setup):
    engine.configure(SHARDS=4)
    loop = engine.consumer(concurrency=1)._engine
    pauses = [loop.step() for _ in range(4)]
    # A Cluster is asked as many shards at a time as there are free slots.
    rounds = 4 if setup == "cluster" else 1
    assert pauses[: rounds - 1] == [0.0] * (rounds - 1)
    assert all(pauses[rounds - 1 :])

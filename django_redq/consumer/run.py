"""Runs one task: decode, find the handler, call it; whatever happens becomes an outcome."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync

from django_redq import registry, signals
from django_redq.codec import Record, build_task, decode_failures, decode_payload, decode_record
from django_redq.conf import QueueConfig
from django_redq.consumer import database, failure
from django_redq.consumer.deadlines import Deadline, Deadlines
from django_redq.consumer.decide import decide
from django_redq.consumer.table import Held
from django_redq.errors import ConfigurationError, HandlerTimeout, InvalidPayload, UnknownKind
from django_redq.lines import get_logger
from django_redq.outcome import Dead, Done, Drop, Failure, Keep, Outcome, Reason
from django_redq.registry import Registration
from django_redq.retry import RetryPolicy
from django_redq.task import Task

logger = get_logger("django_redq.consumer")


@dataclass(frozen=True, slots=True)
class Run:
    """A delivery whose record was read and whose handler was found."""

    held: Held
    record: Record
    handler: Registration
    max_attempts: int
    policy: RetryPolicy


def max_attempts_of(record: Record, queue: QueueConfig, handler: Registration | None) -> int:
    """How many runs a task gets: the call beats the handler, which beats the queue."""
    if record.max is not None:
        return record.max
    if handler is not None and handler.max_attempts is not None:
        return handler.max_attempts
    return queue.max_attempts


def allowed_attempts(raw: bytes, queue: QueueConfig) -> int:
    """How many runs a stored task gets; the queue's number where it does not decode."""
    try:
        record = decode_record(raw)
    except InvalidPayload:
        return queue.max_attempts
    return max_attempts_of(record, queue, _handler_of(queue.name, record.kind))


def _handler_of(queue: str, kind: str) -> Registration | None:
    try:
        return registry.find(queue, kind)
    except (UnknownKind, ConfigurationError):
        return None


def identify(held: Held, queue: QueueConfig) -> None:
    """Sets what can be told of a task that will not be run: its kind, and the task if it decodes."""
    if held.delivery.record is None:
        return
    with contextlib.suppress(InvalidPayload):
        record = decode_record(held.delivery.record)
        held.kind, held.key = record.kind, record.key
        handler = _handler_of(queue.name, record.kind)
        payload_type = handler.payload if handler is not None else None
        held.task = _task(held, record, payload_type, max_attempts_of(record, queue, handler))


def prepare(held: Held, queue: QueueConfig) -> Run | Outcome:
    """Reads the record and finds the handler; an outcome where that ends it already."""
    try:
        return _prepare(held, queue)
    except Exception as error:  # noqa: BLE001 - a fault of one task must not stop the others
        kept = failure.describe(error, held.delivery.attempt)
        return decide(error, kept, max_attempts=queue.max_attempts, policy=queue.retry)


def _prepare(held: Held, queue: QueueConfig) -> Run | Outcome:
    one = held.delivery
    if held.given_up:
        return Keep("it was lost before it began")
    if not one.task_id:
        return Drop("it names no task")
    if one.what == "second":
        return Drop("its task lives in another entry")
    if one.record is None:
        return _without_payload(held, queue)
    try:
        record = decode_record(one.record)
    except InvalidPayload as error:
        return Dead(Reason.INVALID_PAYLOAD, failure.describe(error, one.attempt))
    held.kind, held.key = record.kind, record.key
    try:
        handler = registry.find(one.queue, record.kind)
    except UnknownKind as error:
        # An older worker in a rolling deploy: a newer one may know the kind.
        held.task = _task(held, record, None, max_attempts_of(record, queue, None))
        return decide(
            error,
            failure.describe(error, one.attempt),
            max_attempts=held.task.max_attempts,
            policy=queue.retry,
        )
    return Run(
        held,
        record,
        handler,
        max_attempts_of(record, queue, handler),
        handler.retry or queue.retry,
    )


def _without_payload(held: Held, queue: QueueConfig) -> Outcome:
    words = "its payload is not in Redis: it was removed there"
    if queue.missing_payload == "keep_pending":
        return Keep(words)
    missing = failure.in_words("django_redq.errors.MissingPayload", words, held.delivery.attempt)
    return Dead(Reason.MISSING_PAYLOAD, missing)


def _task(held: Held, record: Record, payload_type: Any | None, max_attempts: int) -> Task[Any]:
    one = held.delivery
    failures = decode_failures(one.state.failures)
    return build_task(
        record,
        task_id=one.task_id,
        queue=one.queue,
        payload=decode_payload(record.payload, payload_type),
        attempt=one.attempt,
        max_attempts=max_attempts,
        last_error=failures[-1] if failures else None,
        ownership=held.ownership,
    )


def run_in_thread(run: Run, deadlines: Deadlines) -> Outcome:
    """Runs a sync handler in this thread of the consumer's own."""
    return Context().run(_run_clean, run, deadlines)


def _run_clean(run: Run, deadlines: Deadlines) -> Outcome:
    # A thread that timed out late may still be interrupted in here, so nothing may escape.
    outcome: Outcome | None = None
    try:
        with database.clean_thread():
            outcome = _run_sync(run, deadlines)
    except BaseException as error:  # noqa: BLE001 - a failed task, never a dead worker
        return _after_trouble(run, outcome, error)
    return outcome


def _after_trouble(run: Run, outcome: Outcome | None, error: BaseException) -> Outcome:
    """What the run ended in, where the work around it failed."""
    if outcome is None:
        return _failed(run, error)
    # The handler has done its work: to run it again would do that twice.
    logger.warning(
        "cleaning up after %s failed: %s: %s", run.handler.path, type(error).__name__, error
    )
    return outcome


def run_inline(run: Run, deadlines: Deadlines) -> Outcome:
    """Runs any handler in the calling thread, whose database connections stay as they are."""
    if run.handler.is_async:
        return Context().run(async_to_sync(_run_in_caller), run)
    return Context().run(_run_sync, run, deadlines)


def _run_sync(run: Run, deadlines: Deadlines) -> Outcome:
    try:
        task = _begin(run)
        if isinstance(task, Dead):
            return task
        _call(run, task, deadlines)
        return _succeeded(task)
    except BaseException as error:  # noqa: BLE001 - a failed task, never a dead worker
        return _failed(run, error)


def _call(run: Run, task: Task[Any], deadlines: Deadlines) -> None:
    handler = run.handler
    if handler.timeout is None:
        _refuse_awaitable(run, handler.target()(task))
        return
    deadline = Deadline(f"ran longer than its timeout of {handler.timeout:g} s")
    try:
        try:
            deadlines.add(deadline, handler.timeout)
            _refuse_awaitable(run, handler.target()(task))
        finally:
            deadline.disarm()
    except HandlerTimeout:
        # It may have struck inside disarm(), before that was through.
        deadline.disarm()
        raise HandlerTimeout(deadline.message) from None


def _refuse_awaitable(run: Run, result: object) -> None:
    """Nobody awaits it here: to acknowledge the task would lose it.

    Raises:
        TypeError: a sync handler returned something to await.
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"handler {run.handler.path} is no coroutine function, but returned something to await; "
            "a decorator around an async def has to be async, too, or to mark what it returns with "
            "asgiref.sync.markcoroutinefunction"
        )


async def run_on_loop(run: Run) -> Outcome:
    """Runs an async handler on the running loop, its ORM calls in a thread of their own."""
    return await _run_async(run, database.clean_loop())


async def _run_in_caller(run: Run) -> Outcome:
    return await _run_async(run, contextlib.nullcontext())


async def _run_async(run: Run, hygiene: contextlib.AbstractAsyncContextManager[None]) -> Outcome:
    outcome: Outcome | None = None
    try:
        async with hygiene:
            outcome = await _attempt(run)
    except BaseException as error:  # noqa: BLE001 - a failed task, never a dead worker
        return _after_trouble(run, outcome, error)
    return outcome


async def _attempt(run: Run) -> Outcome:
    try:
        task = _begin(run)
        if isinstance(task, Dead):
            return task
        await _acall(run, task)
        return _succeeded(task)
    except BaseException as error:  # noqa: BLE001 - a failed task, never a dead worker
        return _failed(run, error)


async def _acall(run: Run, task: Task[Any]) -> None:
    limit = run.handler.timeout
    try:
        async with asyncio.timeout(limit) as timer:
            await run.handler.target()(task)
    except TimeoutError:
        if not timer.expired():
            raise
        raise HandlerTimeout(f"ran longer than its timeout of {limit:g} s") from None


def _begin(run: Run) -> Task[Any] | Dead:
    held = run.held
    try:
        held.task = _task(held, run.record, run.handler.payload, run.max_attempts)
    except InvalidPayload as error:
        return Dead(Reason.INVALID_PAYLOAD, failure.describe(error, held.delivery.attempt))
    task = held.task
    signals.send_from_worker(signals.task_started, queue=task.queue, task_id=task.id, task=task)
    return task


def _succeeded(task: Task[Any]) -> Done:
    signals.send_from_worker(signals.task_succeeded, queue=task.queue, task_id=task.id, task=task)
    return Done()


def _failed(run: Run, error: BaseException) -> Outcome:
    # Where it is not ours that cancels, the handler has cancelled itself: its own failure.
    if run.held.given_up and isinstance(error, asyncio.CancelledError):
        return Keep("its run was cancelled")
    kept: Failure = failure.describe(error, run.held.delivery.attempt)
    return decide(error, kept, max_attempts=run.max_attempts, policy=run.policy)

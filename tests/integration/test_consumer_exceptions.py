"""Handlers that raise what ends a thread, a loop or a process, or never end: all are failed tasks."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_redq.errors import HandlerTimeout
from django_redq.handlers import handler
from django_redq.outcome import Reason
from django_redq.task import TaskState

# CPython 3.11 spins in every traced thread while an exception waits for a thread that is in C.
untraced = pytest.mark.no_cover


class Odd(BaseException):
    """Neither an Exception nor one that Python knows."""


RAISED = [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), Odd("odd"), StopIteration()]
by_name = pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)


@pytest.fixture
def dead_at_once(engine):
    engine.configure(MAX_ATTEMPTS=1)
    return engine


def raising(error):
    """Two handlers that raise, one sync and one async, and one of each that works."""

    @handler("default", kind="sync")
    def fail(task):
        raise error

    @handler("default", kind="async")
    async def fail_async(task):
        await asyncio.sleep(0)
        raise error

    @handler("default", kind="sync-ok")
    def work(task): ...

    @handler("default", kind="async-ok")
    async def work_async(task): ...


@by_name
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_a_handler_raises_is_a_failed_task(dead_at_once, error, kind):
    raising(error)
    consumer = dead_at_once.start("default")
    for _ in range(3):
        dead_at_once.enqueue(kind=kind)
    for ok in ("sync-ok", "async-ok"):
        dead_at_once.enqueue(kind=ok)
    dead_at_once.wait_counts(consumer, Dead=3, Done=2)
    letters = dead_at_once.dead()
    assert {letter["reason"] for letter in letters} == {Reason.EXHAUSTED}
    # A coroutine cannot raise StopIteration; Python makes a RuntimeError of it.
    assert all(type(error).__name__ in letter["traceback"] for letter in letters)


@by_name
def test_run_once_takes_it_likewise(dead_at_once, error):
    raising(error)
    consumer = dead_at_once.consumer(concurrency=3)
    for kind in ("sync", "async", "sync-ok"):
        dead_at_once.enqueue(kind=kind)
    assert consumer.run_once() == 3
    assert consumer.run_once() == 0
    assert len(dead_at_once.dead()) == 2


@pytest.mark.parametrize("error", RAISED[:4], ids=lambda error: type(error).__name__)
def test_what_a_spawned_asyncio_task_raises_ends_neither_loop_nor_consumer(
    dead_at_once, error, caplog
):
    strays = set()

    @handler("default")
    async def work(task):
        async def stray():
            raise error

        spawned = asyncio.ensure_future(stray())
        strays.add(spawned)
        # It is done, however it ended; the exception of an Odd one is nobody's.
        await asyncio.wait([spawned])
        spawned.exception()

    consumer = dead_at_once.start("default")
    for _ in range(3):
        dead_at_once.enqueue()
    dead_at_once.wait_counts(consumer, Done=3)
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        assert "a stray asyncio task raised" in caplog.text
    dead_at_once.assert_drained()


def test_a_cancelled_error_of_the_handlers_own_is_a_failed_task(dead_at_once):
    @handler("default", kind="raise")
    async def fail(task):
        raise asyncio.CancelledError

    @handler("default", kind="cancel")
    async def cancel_itself(task):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    consumer = dead_at_once.start("default")
    for kind in ("raise", "cancel"):
        dead_at_once.enqueue(kind=kind)
    dead_at_once.wait_counts(consumer, Dead=2)
    assert {letter["type"] for letter in dead_at_once.dead()} == {
        "asyncio.exceptions.CancelledError"
    }
    assert dead_at_once.pending() == []


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_sync_handler_that_returns_a_coroutine_is_a_failed_task(dead_at_once, timeout):
    """Nobody would await it, and the task would be lost as done."""

    async def send(task): ...

    @handler("default", timeout=timeout)
    def decorated(task):
        return send(task)

    consumer = dead_at_once.start("default")
    dead_at_once.enqueue()
    dead_at_once.wait_counts(consumer, Dead=1)
    letter = dead_at_once.only_dead()
    assert letter["type"] == "TypeError"
    assert "returned something to await" in letter["error"]


def test_an_async_handler_that_takes_too_long_is_cancelled(dead_at_once):
    cancelled = threading.Event()

    @handler("default", timeout=0.05)
    async def work(task):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    consumer = dead_at_once.start("default")
    dead_at_once.enqueue()
    dead_at_once.wait_counts(consumer, Dead=1)
    assert cancelled.is_set()
    letter = dead_at_once.only_dead()
    assert letter["type"] == "django_redq.errors.HandlerTimeout"
    assert letter["error"] == "ran longer than its timeout of 0.05 s"


@untraced
def test_a_sync_handler_that_takes_too_long_is_interrupted(dead_at_once):
    seen = []

    @handler("default", timeout=0.05)
    def work(task):
        try:
            while True:
                # Each wait ends in Python, where the exception can strike.
                threading.Event().wait(0.01)
        except Exception:
            seen.append("an ordinary except took it")
        except HandlerTimeout:
            seen.append("it may clean up")
            raise

    consumer = dead_at_once.start("default")
    dead_at_once.enqueue()
    dead_at_once.wait_counts(consumer, Dead=1)
    assert seen == ["it may clean up"]
    letter = dead_at_once.only_dead()
    assert letter["type"] == "django_redq.errors.HandlerTimeout"
    assert letter["error"] == "ran longer than its timeout of 0.05 s"


@pytest.mark.parametrize("is_async", [False, True])
def test_run_once_limits_the_time_too(dead_at_once, is_async):
    if is_async:

        @handler("default", timeout=0.05)
        async def work(task):
            await asyncio.Event().wait()

    else:

        @handler("default", timeout=0.05)
        def work(task):
            while True:
                threading.Event().wait(0.01)

    dead_at_once.enqueue()
    assert dead_at_once.consumer().run_once() == 1
    assert dead_at_once.only_dead()["type"] == "django_redq.errors.HandlerTimeout"


def test_a_handler_in_time_is_not_interrupted_afterwards(dead_at_once):
    @handler("default", timeout=1, kind="quick")
    def quick(task): ...

    @handler("default", kind="long")
    def longer(task):
        # Until the moment at which the one before it would have been interrupted is over.
        dead_at_once.wait_until(lambda: not deadlines._heap)

    # One thread, so that the second runs where the first one's deadline would strike.
    consumer = dead_at_once.start("default", concurrency=1, prefetch=1)
    deadlines = consumer._engine.executor._threads._deadlines
    dead_at_once.enqueue(kind="quick")
    dead_at_once.enqueue(kind="long")
    dead_at_once.wait_counts(consumer, Done=2)


def test_a_timeout_error_of_the_handlers_own_stays_what_it_is(dead_at_once):
    @handler("default", timeout=60)
    async def work(task):
        raise TimeoutError("the partner did not answer")

    dead_at_once.enqueue()
    dead_at_once.consumer().run_once()
    letter = dead_at_once.only_dead()
    assert (letter["type"], letter["error"]) == ("TimeoutError", "the partner did not answer")


@untraced
def test_a_thread_that_cannot_be_interrupted_keeps_its_slot_until_it_returns(dead_at_once):
    gate, inside, others = threading.Event(), threading.Event(), []

    @handler("default", timeout=0.05, kind="stuck")
    def stuck(task):
        inside.set()
        # One call into C: the exception strikes when it is over.
        gate.wait()

    @handler("default", kind="other")
    def other(task):
        others.append(task.id)

    renewals = threading.Semaphore(0)
    consumer = dead_at_once.start("default", concurrency=1, pending_min_idle=0.3)
    original = consumer._renewer.renew_all

    def renew_all():
        original()
        renewals.release()

    consumer._renewer.renew_all = renew_all
    task_id = dead_at_once.enqueue(kind="stuck")
    assert inside.wait(60)
    dead_at_once.enqueue(kind="other")
    for _ in range(4):
        # Renewed, long after it timed out, and nothing else begun.
        assert renewals.acquire(timeout=60)
    assert others == []
    assert dead_at_once.task(task_id).state is TaskState.RUNNING
    gate.set()
    dead_at_once.wait_counts(consumer, Dead=1, Done=1)
    assert dead_at_once.only_dead()["type"] == "django_redq.errors.HandlerTimeout"

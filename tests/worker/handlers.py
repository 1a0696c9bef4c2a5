"""Handlers of the queue ``default``; each notes what it does."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import signal
import time

from django_redq.errors import Reject
from django_redq.handlers import handler
from tests.harness import until
from tests.ledger import Ledger

EXIT_CODE = 9


@handler("default")
def work(task):
    """Is done at once."""
    Ledger.here().note("done", task)


@handler("default", kind="async")
async def work_async(task):
    """The same on the event loop."""
    Ledger.here().note("done", task)


@handler("default", kind="held")
def hold(task):
    """Runs until the test opens the gate."""
    ledger = Ledger.here()
    ledger.note("begun", task)
    until(ledger.is_open)
    ledger.note("done", task)


@handler("default", kind="told")
def end_as_told(task):
    """Runs until the test opens the gate, then ends as its payload says."""
    ledger = Ledger.here()
    ledger.note("begun", task)
    until(ledger.is_open)
    if task.payload == "fails":
        raise ValueError("no luck")
    if task.payload == "rejected":
        raise Reject("no use")
    ledger.note("done", task)


@handler("default", kind="flaky")
def fail_once(task):
    """Fails in its first attempt."""
    Ledger.here().note("begun", task)
    if task.attempt == 1:
        raise ValueError("no luck")
    Ledger.here().note("done", task)


@handler("default", kind="bad")
def fail(task):
    """Fails always."""
    Ledger.here().note("begun", task)
    raise ValueError("no luck")


@handler("default", kind="poison")
def poison(task):
    """Ends its process, once as many neighbours have begun there as its payload says."""
    ledger = Ledger.here()
    ledger.note("begun", task)
    neighbours = task.payload if task.attempt < task.max_attempts else 0
    until(lambda: len(ledger.of("begun", kind="neighbour", pid=os.getpid())) >= neighbours)
    os._exit(EXIT_CODE)


@handler("default", kind="neighbour")
def neighbour(task):
    """Would run for ever, but is done in its last attempt."""
    ledger = Ledger.here()
    ledger.note("begun", task)
    until(lambda: task.attempt == task.max_attempts)
    ledger.note("done", task)


@handler("default", kind="deadly")
def die(task):
    """Ends its process in the way that its payload names."""
    Ledger.here().note("begun", task)
    _end(task.payload)


@handler("default", kind="deadly_async")
async def adie(task):
    """The same on the event loop."""
    Ledger.here().note("begun", task)
    _end(task.payload)


def _end(how):
    if how == "exit":
        os._exit(EXIT_CODE)
    os.kill(os.getpid(), signal.Signals[how])
    until(lambda: False)


@handler("default", kind="swelling")
def swell(task):
    """Wants more memory than there is."""
    ledger = Ledger.here()
    ledger.note("begun", task)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**33, limits[1]))
    try:
        bytearray(2**34)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@handler("default", kind="long")
def last(task):
    """Takes as many seconds as its payload says, most of them in short steps."""
    Ledger.here().note("begun", task)
    ends = time.monotonic() + task.payload
    until(lambda: time.monotonic() >= ends)
    Ledger.here().note("done", task)


@handler("default", kind="long_async")
async def alast(task):
    """The same on the event loop."""
    Ledger.here().note("begun", task)
    await asyncio.sleep(task.payload)
    Ledger.here().note("done", task)


@handler("default", kind="greedy")
def hold_the_interpreter(task):
    """Lets no other thread of its process run for as many seconds as its payload says, the first time."""
    Ledger.here().note("begun", task)
    if task.attempt == 1:
        begun = time.perf_counter()
        sum(itertools.repeat(1, _STEP))
        took = time.perf_counter() - begun
        sum(itertools.repeat(1, int(_STEP * task.payload / took)))
    Ledger.here().note("done", task)


_STEP = 5_000_000
"""Additions in one call of C, by which the length of the long one is found."""


@handler("default", kind="frozen")
def outlive_itself(task):
    """Ends as its payload says once its second attempt has begun, and that one once the gate is open."""
    ledger = Ledger.here()
    ledger.note("begun", task)
    if task.attempt > 1:
        until(ledger.is_open)
        ledger.note("done", task)
        return
    until(lambda: ledger.of("begun", task_id=task.id, attempt=2))
    ledger.note("late", task)
    if task.payload == "failed":
        raise ValueError("too late")
    if task.payload == "rejected":
        raise Reject("too late")


@handler("default", kind="timed")
def tell_how_late(task):
    """Notes how many microseconds ago its payload was read off the clock that all processes share."""
    Ledger.here().note(str(int((time.monotonic() - task.payload) * 1e6)), task)

"""Handlers of the queue ``default``; each notes what it does."""

from __future__ import annotations

import os

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

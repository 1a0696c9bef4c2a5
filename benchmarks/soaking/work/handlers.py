"""What tasks do: each notes its run as it begins and as it ends, and takes as long as it is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_redq import DeadLetter, Reject, Task, dead_letter_handler, handler
from soaking.ledger import Ledger
from soaking.settings import QUEUES

_ledger = Ledger.here()
Payload = dict[str, Any]


@contextmanager
def _noted(task: Task[Any]) -> Iterator[None]:
    _ledger.note("run", task.id, str(task.attempt))
    how = "broken"
    try:
        yield
        how = "done"
    except (ArithmeticError, Reject):
        how = "failed"
        raise
    finally:
        _ledger.note(how, task.id)


@handler("orders")
@handler("mails")
def work(task: Task[Payload]) -> None:
    """Takes a while."""
    with _noted(task):
        time.sleep(task.payload["takes"])


@handler("orders", kind="async")
@handler("mails", kind="async")
async def work_async(task: Task[Payload]) -> None:
    """The same on the event loop."""
    with _noted(task):
        await asyncio.sleep(task.payload["takes"])


@handler("orders", kind="flaky")
@handler("mails", kind="flaky")
def fail_once(task: Task[Payload]) -> None:
    """Is done in the second attempt."""
    with _noted(task):
        time.sleep(task.payload["takes"])
        if task.attempt == 1:
            raise ArithmeticError("no luck this time")


@handler("orders", kind="doomed", max_attempts=2)
@handler("mails", kind="doomed", max_attempts=2)
def fail_until_mended(task: Task[Payload]) -> None:
    """Fails until a moment that its payload names: it dies, and a replay after that is done."""
    with _noted(task):
        if time.time() < task.payload["mended_at"]:
            raise ArithmeticError("the partner is down")


@handler("orders", kind="hopeless")
@handler("mails", kind="hopeless")
def refuse(task: Task[Payload]) -> None:
    """Is dead at once, for good."""
    with _noted(task):
        raise Reject("nobody can do this")


def _note_death(letter: DeadLetter) -> None:
    _ledger.note("dead", letter.task_id, f"{letter.entry_id} {letter.reason}")


for _queue in QUEUES:
    dead_letter_handler(_queue)(_note_death)

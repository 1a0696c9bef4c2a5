"""A task's whole life, from code of either kind: delayed, failed, retried, dead, replayed, done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django_redq import DeadLetterQueue, aenqueue, aget_task, enqueue, get_task
from django_redq.broker.aio import get_async_broker
from django_redq.handlers import handler
from django_redq.task import TaskState
from tests.engine import Engine

QUEUE = "default"
PAYLOAD = {"to": "ada@example.org", "ü": [1, 2.5, None, "\N{SNOWMAN}"]}


def whole_life(engine: Engine, face: str) -> None:
    """Lives it through, on ``engine.configure(RETRY=...)`` with a short interval.

    Args:
        engine: nothing of it may run yet.
        face: ``sync`` or ``async``: whence the task is enqueued, looked at, and replayed.
    """
    runs: list[int] = []

    @handler(QUEUE)
    def work(task: Any) -> None:
        assert task.payload == PAYLOAD
        runs.append(task.attempt)
        if len(runs) <= 2:
            raise ValueError("no luck")

    with _face(face) as (put, look, replay):
        task_id = put(QUEUE, PAYLOAD, delay=0.05, max_attempts=2, mode="immediate").task_id
        assert look(QUEUE, task_id).state is TaskState.SCHEDULED
        scheduler, consumer = engine.scheduler(), engine.start()
        scheduler.start()
        engine.wait_until(lambda: look(QUEUE, task_id).state is TaskState.DEAD)
        assert DeadLetterQueue(QUEUE).get(task_id).error == "no luck"
        assert replay(task_id).replayed
        engine.wait_counts(consumer, RetryAt=1, Dead=1, Done=1)
        assert look(QUEUE, task_id) is None
    assert runs == [1, 2, 1]
    engine.assert_drained()
    scheduler.stop()
    consumer.stop()


@contextmanager
def _face(face: str) -> Iterator[tuple[Callable[..., Any], ...]]:
    letters = DeadLetterQueue(QUEUE)
    if face == "sync":
        yield enqueue, get_task, letters.replay
        return
    with asyncio.Runner() as runner:
        yield tuple(
            partial(_awaited, runner, one) for one in (aenqueue, aget_task, letters.areplay)
        )
        runner.run(_hang_up())


def _awaited(runner: asyncio.Runner, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    return runner.run(function(*args, **kw))


async def _hang_up() -> None:
    await get_async_broker().client.aclose()

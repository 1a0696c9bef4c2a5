"""When a burst is over: ``redq_consume --burst`` looks again and again."""

from __future__ import annotations

import pytest

from django_redq import Queue, cancel
from django_redq.management.burst import Burst
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.graves import BORN

NOTHING = "burst over: 0 done, 0 to be retried, 0 dead; 0 scheduled for later"


def test_it_is_not_over_while_anything_is_ready_or_running(engine: Engine) -> None:
    burst = Burst(["default"], promoting=False)
    assert burst.is_over()
    assert burst.summary({}) == NOTHING

    engine.enqueue(None, task_id="t")
    assert not burst.is_over()
    [entry] = engine.deliver()
    assert not burst.is_over()
    engine.client.xack(engine.key("stream"), "default", entry)
    assert not burst.is_over()
    cancel("default", "t")
    assert burst.is_over()


@pytest.mark.parametrize("promoting", [True, False])
def test_what_is_due_is_waited_for_where_a_scheduler_runs_beside(
    redq: Redq, engine: Engine, promoting: bool
) -> None:
    burst = Burst(["default"], promoting=promoting)
    engine.enqueue(None, delay=3600)
    assert burst.is_over()

    redq.client.zadd(engine.key("delay"), {"due": BORN})

    assert burst.is_over() is not promoting
    assert burst.summary({"Done": 3, "RetryAt": 2, "Dead": 1, "Release": 9}) == (
        "burst over: 3 done, 2 to be retried, 1 dead; 2 scheduled for later"
    )


def test_of_a_paused_queue_it_is_told_once(
    redq: Redq, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    redq.configure(queues={"default": {}, "email": {}})
    burst = Burst(["default", "email"], promoting=True)
    engine.enqueue(None)
    engine.enqueue(None, "email", task_id="t")
    Queue("default").pause()

    assert not burst.is_over()
    assert not burst.is_over()
    cancel("email", "t")
    assert burst.is_over()

    assert [one.getMessage() for one in caplog.records] == [
        "queue 'default' is paused and not waited for; 1 task(s) are ready in it"
    ]


def test_a_redis_that_is_away_is_waited_for(own_engine: Engine) -> None:
    burst = Burst(["default"], promoting=False)
    assert burst.is_over()

    own_engine.redq.server.kill()

    assert not burst.is_over()

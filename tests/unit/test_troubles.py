"""What of a queue needs a person, told from its numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from django_redq.broker.inspector import ShardStats
from django_redq.broker.meter import Activity
from django_redq.queue_stats import QueueStats, SeenConsumer
from django_redq.troubles import LATE, SLOW_START, Trouble, TroubleCode, troubles_of

CONSUMER = SeenConsumer(
    name="c-1",
    running=0,
    idle=1.0,
    last_seen=1.0,
    alive=True,
    host="",
    pid=None,
    version="",
    started_at=None,
    concurrency=None,
    tasks=(),
)
SHARD = ShardStats(
    shard=0,
    scheduled=0,
    ready=0,
    running=0,
    dead=0,
    oldest_ready_age=None,
    lateness=None,
    lease_holder="s-1",
    paused=False,
    succeeded=0,
    retried=0,
    died=0,
    consumers=(),
)
QUIET = QueueStats(
    queue="email",
    scheduled=0,
    ready=0,
    running=0,
    dead=0,
    succeeded=0,
    retried=0,
    died=0,
    oldest_ready_age=None,
    lateness=None,
    paused=False,
    consumers=(CONSUMER,),
    lease_holders=("s-1",),
    last_hour=(),
    shards=(SHARD, SHARD),
)
DEATHS = tuple(Activity(datetime(2030, 1, 1, tzinfo=UTC), 60, died=number) for number in (2, 0, 1))


def found(**changed: Any) -> list[tuple[str, float]]:
    return [(one.code.value, one.number) for one in troubles_of(replace(QUIET, **changed))]


def test_a_queue_that_works_has_no_troubles() -> None:
    assert troubles_of(QUIET) == ()


@pytest.mark.parametrize(
    ("changed", "trouble"),
    [
        ({"consumers": ()}, ("no_consumer", 0)),
        ({"consumers": (replace(CONSUMER, alive=False),)}, ("no_consumer", 0)),
        ({"shards": (SHARD, replace(SHARD, lease_holder=None))}, ("no_scheduler", 1)),
        ({"lateness": LATE + 1}, ("late", LATE + 1)),
        ({"ready": 1, "oldest_ready_age": SLOW_START + 1}, ("slow_start", SLOW_START + 1)),
        ({"dead": 1, "last_hour": DEATHS}, ("dying", 3)),
        ({"unreachable": (3, 7)}, ("unreachable", 2)),
    ],
)
def test_each_trouble_is_told_with_its_number(changed: Any, trouble: tuple[str, float]) -> None:
    assert found(**changed) == [trouble]


@pytest.mark.parametrize(
    "changed",
    [
        {"lateness": LATE},
        {"oldest_ready_age": SLOW_START},
        # They were replayed or discarded since.
        {"dead": 0, "last_hour": DEATHS},
        # They are of long ago.
        {"dead": 5},
        {"paused": True},
        {"paused": True, "consumers": (), "oldest_ready_age": SLOW_START + 1},
        {"consumers": (replace(CONSUMER, alive=False), CONSUMER)},
    ],
)
def test_what_is_as_it_should_be_is_no_trouble(changed: Any) -> None:
    assert found(**changed) == []


def test_a_paused_queue_needs_its_scheduler() -> None:
    shards = (replace(SHARD, lease_holder=None),)

    assert found(paused=True, shards=shards, lateness=9) == [("no_scheduler", 1), ("late", 9)]


def test_the_worst_comes_first() -> None:
    everything = found(
        unreachable=(1,),
        consumers=(),
        shards=(replace(SHARD, lease_holder=None),),
        lateness=9,
        oldest_ready_age=99,
        dead=1,
        last_hour=DEATHS,
    )

    assert [code for code, _ in everything] == [code.value for code in TroubleCode]
    assert isinstance(troubles_of(replace(QUIET, lateness=9))[0], Trouble)

"""lua/shard_stats.lua: how full a shard is and who works on it."""

from __future__ import annotations

import pytest

from django_redq.broker import inspector
from django_redq.broker.inspector import ShardStats
from tests.integration.worlds import FAR, GROUP, ME, NOW, OTHER, Here, Ready, Running, Scheduled

pytestmark = pytest.mark.every_server


def stats(here: Here, now: str = str(NOW)) -> ShardStats:
    shown, _lately = here.run(inspector.shard_stats(here.shard, now))
    return shown


def test_shard_stats_counts_tasks_in_every_state(here: Here) -> None:
    here.seed(Running("t", "2-1"), Running("u", "2-2"), Ready("v", "3-2"), Scheduled("w"))
    here.client.hset(here.keys.meta, mapping={"done": 5, "retried": 6, "dead": 7})
    before = here.world()

    found = stats(here)

    # A parked task is READY: nobody runs it.
    assert (found.scheduled, found.ready, found.running, found.dead) == (2, 3, 3, 1)
    assert (found.succeeded, found.retried, found.died) == (5, 6, 7)
    assert (found.lease_holder, found.paused, found.lateness) == ("someone-3", False, None)
    assert {one.name: one.running for one in found.consumers} == {ME: 2, OTHER: 1}
    assert here.changes(before) == []
    assert here.heard() == []


def test_shard_stats_of_nothing_are_zero(here: Here) -> None:
    assert stats(here) == ShardStats(0, 0, 0, 0, 0, None, None, None, False, 0, 0, 0, ())

    assert here.world() == set()


def test_shard_stats_tell_how_late_the_first_scheduled_task_is(here: Here) -> None:
    here.seed(Scheduled("t", NOW - 2500), Scheduled("u", NOW - 1))

    assert stats(here).lateness == 2.5
    assert stats(here, str(NOW - 2500)).lateness == 0
    assert stats(here, str(NOW - 2501)).lateness is None


@pytest.mark.parametrize("with_group", [True, False])
def test_shard_stats_tell_how_long_the_first_ready_task_has_waited(
    here: Here, with_group: bool
) -> None:
    now = here.clock()
    here.client.xadd(here.keys.stream, {"id": "t"}, id=f"{now - 60_000}-0")
    here.client.xadd(here.keys.stream, {"id": "u"}, id=f"{now - 30_000}-0")
    if with_group:
        here.client.xgroup_create(here.keys.stream, GROUP, "0")
        here.client.xreadgroup(GROUP, OTHER, {here.keys.stream: ">"}, count=1)
    # Somebody else's, which has read everything.
    here.client.xgroup_create(here.keys.stream, "a", "$")
    here.client.xgroup_create(here.keys.stream, "z", "$")

    waited = stats(here).oldest_ready_age

    least = 30 if with_group else 60
    assert waited is not None
    assert least <= waited <= least + (here.clock() - now) / 1000


def test_shard_stats_take_a_parked_task_for_one_that_waits(here: Here) -> None:
    here.seed(Running("t", "1-0", owner="_suspects"), neighbours=False)

    found = stats(here)

    assert (found.ready, found.running) == (1, 0)
    assert found.oldest_ready_age is not None


def test_shard_stats_know_that_a_queue_is_paused(here: Here) -> None:
    here.client.hset(here.keys.meta, "paused", 1)

    assert stats(here).paused is True


def test_shard_stats_bear_rows_whose_entry_is_gone(here: Here) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)
    here.client.xdel(here.keys.stream, "2-1")

    found = stats(here)

    assert (found.ready, found.running) == (0, 0)


def test_shard_stats_bear_garbled_counters_and_a_task_that_is_never_due(here: Here) -> None:
    here.client.hset(here.keys.meta, mapping={"done": "rubbish"})
    here.client.zadd(here.keys.delay, {"never": "inf"})

    found = stats(here, str(FAR))

    assert (found.succeeded, found.scheduled, found.lateness) == (0, 1, None)

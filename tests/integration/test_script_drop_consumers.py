"""lua/drop_consumers.lua: names of consumers that hold nothing are forgotten."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from tests.integration.worlds import GROUP, ME, OTHER, Here, Running

pytestmark = pytest.mark.every_server


def know(here: Here, *names: str) -> None:
    """Consumers that hold nothing."""
    for name in names:
        here.client.xgroup_createconsumer(here.keys.stream, GROUP, name)


def test_drop_consumers_forgets_ones_own_name(here: Here) -> None:
    here.seed()
    know(here, ME, "idle-4")
    before = here.world()

    assert here.run(calls.drop_consumers(here.shard, name=ME)) == [ME]

    assert here.changes(before) == ["- consumer me-1"]


def test_drop_consumers_keeps_a_name_that_holds_something(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    before = here.world()

    assert here.run(calls.drop_consumers(here.shard, name=ME)) == []

    assert here.changes(before) == []


def test_drop_consumers_forgets_all_that_hold_nothing(here: Here) -> None:
    here.seed()
    know(here, "idle-4", "idle-5")
    before = here.world()

    assert sorted(here.run(calls.drop_consumers(here.shard))) == ["idle-4", "idle-5"]

    # Left are OTHER and the suspects' consumer, which hold a task each.
    assert here.changes(before) == ["- consumer idle-4", "- consumer idle-5"]
    assert {f"consumer {OTHER}", "consumer _suspects"} <= here.world()


def test_drop_consumers_keeps_who_was_heard_of_lately(here: Here) -> None:
    here.seed()
    know(here, "idle-4")
    before = here.world()

    assert here.run(calls.drop_consumers(here.shard, min_idle_ms=3_600_000)) == []

    assert here.changes(before) == []


def test_drop_consumers_sent_twice_finds_nothing(here: Here) -> None:
    here.seed()
    know(here, ME)
    here.run(calls.drop_consumers(here.shard, name=ME))
    before = here.world()

    assert here.run(calls.drop_consumers(here.shard, name=ME)) == []

    assert here.changes(before) == []


def test_drop_consumers_finds_nobody_where_stream_or_group_are_gone(here: Here) -> None:
    here.seed()
    here.client.xgroup_destroy(here.keys.stream, GROUP)
    assert here.run(calls.drop_consumers(here.shard)) == []

    here.wipe()
    assert here.run(calls.drop_consumers(here.shard, name=ME)) == []
    assert here.world() == set()

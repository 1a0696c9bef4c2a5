"""lua/drop.lua: pending entries that stand for no task are removed."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from tests.integration.worlds import GROUP, ME, OTHER, Garbage, Here, Running

pytestmark = pytest.mark.every_server

RUBBISH = Garbage("2-1", (("colour", "red"),), owner=ME)


def test_drop_removes_entry_and_row(here: Here) -> None:
    here.seed(RUBBISH)
    before = here.world()

    assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 1

    assert here.world() == before - {"pending 2-1 me-1 1", "stream 2-1 colour=red"}


def test_drop_sent_twice_finds_nothing(here: Here) -> None:
    here.seed(RUBBISH)
    here.run(calls.drop(here.shard, [(ME, "2-1")]))
    before = here.world()

    assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 0

    assert here.changes(before) == []


def test_drop_leaves_what_somebody_else_holds_by_now(here: Here) -> None:
    here.seed(RUBBISH)
    here.hand_over("2-1", OTHER)
    before = here.world()

    assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 0

    assert here.changes(before) == []


def test_drop_leaves_what_nobody_holds(here: Here) -> None:
    here.seed()
    before = here.world()

    assert here.run(calls.drop(here.shard, [(ME, "3-1")])) == 0

    assert here.changes(before) == []


def test_drop_removes_a_row_whose_entry_is_gone_and_leaves_the_task(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    before = here.world()

    assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 1

    assert here.world() == before - {"pending 2-1 me-1 1"}


def test_drop_takes_several_and_counts_what_went(here: Here) -> None:
    here.seed(
        RUBBISH,
        Garbage("2-2", (("x", "1"),), owner=OTHER),
        Garbage("2-3", (("x", "2"),), owner=OTHER),
    )
    before = here.world()

    dropped = here.run(calls.drop(here.shard, [(ME, "2-1"), (ME, "2-2"), (OTHER, "2-3")]))

    assert dropped == 2
    assert here.world() == before - {
        "pending 2-1 me-1 1",
        "stream 2-1 colour=red",
        f"pending 2-3 {OTHER} 1",
        "stream 2-3 x=2",
    }


def test_drop_finds_nothing_where_stream_or_group_are_gone(here: Here) -> None:
    here.seed(RUBBISH)
    here.client.xgroup_destroy(here.keys.stream, GROUP)
    assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 0

    here.wipe()
    assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 0
    assert here.world() == set()

"""lua/dead_bounds.lua: how many dead letters a shard has, and which are the newest and the oldest."""

from __future__ import annotations

import pytest

from django_redq.broker import dead_walk
from django_redq.broker.dead_walk import Bounds
from tests.integration.worlds import Dead, Here

pytestmark = pytest.mark.every_server


def bounds(here: Here) -> Bounds:
    return here.run(dead_walk.bounds(here.shard))


def test_dead_bounds_count_the_letters_and_name_both_ends(here: Here) -> None:
    here.seed(Dead("t", "4-2"), Dead("u", "4-7"))
    here.client.hset(here.keys.meta, "tombstones", 2)
    before = here.world()

    assert bounds(here) == Bounds(3, "4-7", 2, "4-1")

    assert here.changes(before) == []


def test_dead_bounds_of_nothing(here: Here) -> None:
    assert bounds(here) == Bounds(0, "", 0)

    assert here.world() == set()


def test_dead_bounds_bear_a_garbled_count(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.meta, "tombstones", "rubbish")

    assert bounds(here) == Bounds(1, "4-1", 0, "4-1")

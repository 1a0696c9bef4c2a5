"""lua/declare.lua: the first to use a queue writes down how it is laid out; all others read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_redq.broker import operator_calls
from django_redq.broker.operator_calls import LAYOUT, Declared
from tests.integration.worlds import GROUP, Here

pytestmark = pytest.mark.every_server


def test_declare_writes_the_layout_where_none_is(here: Here) -> None:
    assert here.run(operator_calls.declare(here.shard, 4)) == Declared(LAYOUT, "4", GROUP)

    assert here.world() == {f"meta layout {LAYOUT}", "meta shards 4", f"meta group {GROUP}"}


def test_declare_answers_what_stands_and_leaves_it(here: Here) -> None:
    here.seed()
    before = here.world()
    other = replace(here.shard, group="mine")

    assert here.run(operator_calls.declare(other, 16)) == Declared("1", "4", GROUP)

    assert here.changes(before) == []


def test_declare_sent_twice_writes_once(here: Here) -> None:
    here.run(operator_calls.declare(here.shard, 4))
    before = here.world()

    assert here.run(operator_calls.declare(here.shard, 4)) == Declared(LAYOUT, "4", GROUP)

    assert here.changes(before) == []


@pytest.mark.parametrize("missing", ["layout", "shards", "group"])
def test_declare_completes_what_is_half_written(here: Here, missing: str) -> None:
    here.seed()
    before = here.world()
    here.client.hdel(here.keys.meta, missing)

    assert here.run(operator_calls.declare(here.shard, 4)) == Declared(LAYOUT, "4", GROUP)

    assert here.changes(before) == []


def test_declare_beside_a_pause_and_counters(here: Here) -> None:
    here.client.hset(here.keys.meta, mapping={"paused": 1, "done": 7})

    here.run(operator_calls.declare(here.shard, 4))

    assert {"meta paused 1", "meta done 7", "meta shards 4"} <= here.world()

"""lua/renew.lua: what a consumer holds stays its own, without a delivery being counted."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Call, Renewed
from tests.integration.worlds import (
    GROUP,
    ME,
    NOW,
    OTHER,
    Blow,
    Here,
    Ready,
    Running,
    not_mine,
)

pytestmark = pytest.mark.every_server

HOLD = 30_000
IDLE = 3_600_000
"""Idle times below it have been reset."""


def renew(here: Here, *tokens: tuple[str, str], now: str = str(NOW)) -> Call[list[Renewed]]:
    held = [here.mine(*token) for token in tokens or [("t", "2-1")]]
    return calls.renew(here.shard, ME, held, now, hold_ms=HOLD)


def is_idle(here: Here, entry_id: str) -> bool:
    row = here.row(entry_id)
    assert row is not None
    return row[2] >= IDLE


def test_renew_resets_the_idle_time_and_nothing_else(here: Here) -> None:
    here.seed(Running("t", "2-1", count=1, idle=IDLE), Running("u", "2-2", idle=IDLE))
    before = here.world()

    assert here.run(renew(here)) == [Renewed.KEPT]

    assert here.changes(before) == []
    assert not is_idle(here, "2-1")
    assert is_idle(here, "2-2")
    assert here.heard() == []


def test_renew_can_be_sent_twice(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    before = here.world()

    assert [here.run(renew(here)), here.run(renew(here))] == [[Renewed.KEPT]] * 2

    assert here.changes(before) == []


@not_mine
def test_renew_says_that_a_task_is_lost_and_touches_nothing(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1"))
    blow(here)
    if row := here.row("2-1"):
        here.hand_over("2-1", row[0], row[1], IDLE)
    before = here.world()

    assert here.run(renew(here)) == [Renewed.LOST]

    assert here.changes(before) == []
    assert row is None or is_idle(here, "2-1")


def _entry_gone(here: Here) -> None:
    here.client.xdel(here.keys.stream, "2-1")


def _row_gone(here: Here) -> None:
    here.client.xack(here.keys.stream, GROUP, "2-1")
    here.client.xdel(here.keys.stream, "2-1")


def _group_gone(here: Here) -> None:
    here.client.xgroup_destroy(here.keys.stream, GROUP)


def _stream_gone(here: Here) -> None:
    here.client.delete(here.keys.stream)


@pytest.mark.parametrize("blow", [_entry_gone, _row_gone, _group_gone, _stream_gone])
def test_renew_holds_a_task_whose_entry_vanished_by_a_mark(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1"))
    blow(here)
    before = here.world()

    assert here.run(renew(here)) == [Renewed.KEPT]

    assert here.world() == before - {"entry t 2-1"} | {f"entry t 2-1 {NOW + HOLD}"}


def test_renew_extends_the_mark(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    _stream_gone(here)
    here.run(renew(here))

    assert here.run(renew(here, now=str(NOW + 10))) == [Renewed.KEPT]

    assert f"entry t 2-1 {NOW + 10 + HOLD}" in here.world()


def test_renew_takes_the_mark_of_the_janitor_for_its_own_place(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    _stream_gone(here)
    here.client.hset(here.keys.entry, "t", f"2-1 {NOW + 1}")

    assert here.run(renew(here)) == [Renewed.KEPT]

    assert f"entry t 2-1 {NOW + HOLD}" in here.world()


def test_renew_counts_the_mark_from_redis_own_clock(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    _stream_gone(here)
    earliest = here.clock() + HOLD

    here.run(renew(here, now=""))

    until = int(here.client.hget(here.keys.entry, "t").split()[1])
    assert earliest <= until <= here.clock() + HOLD


def test_renew_says_gone_where_entry_and_payload_vanished(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    _entry_gone(here)
    here.client.hdel(here.keys.payload, "t")
    before = here.world()

    assert here.run(renew(here)) == [Renewed.GONE]

    assert here.changes(before) == []


def test_renew_keeps_a_task_without_a_payload_while_it_has_its_entry(here: Here) -> None:
    here.seed(Running("t", "2-1", idle=IDLE))
    here.client.hdel(here.keys.payload, "t")

    assert here.run(renew(here)) == [Renewed.KEPT]

    assert not is_idle(here, "2-1")


def test_renew_says_gone_after_everything_was_wiped(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.wipe()

    assert here.run(renew(here)) == [Renewed.GONE]

    assert here.world() == set()


def test_renew_says_gone_of_what_is_settled(here: Here) -> None:
    here.seed()
    before = here.world()

    assert here.run(renew(here)) == [Renewed.GONE]

    assert here.changes(before) == []


def test_renew_leaves_a_new_task_of_the_same_id_alone(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    before = here.world()

    assert here.run(renew(here)) == [Renewed.LOST]

    assert here.changes(before) == []


def test_renew_answers_for_each_task_of_a_batch(here: Here) -> None:
    here.seed(
        Running("t", "2-1", idle=IDLE),
        Running("u", "2-2", owner=OTHER, idle=IDLE),
        Running("w", "2-4"),
    )
    here.client.xdel(here.keys.stream, "2-4")
    before = here.world()
    batch = renew(here, ("u", "2-2"), ("w", "2-4"), ("v", "2-3"), ("t", "2-1"))

    assert here.run(batch) == [Renewed.LOST, Renewed.KEPT, Renewed.GONE, Renewed.KEPT]

    assert here.world() == before - {"entry w 2-4"} | {f"entry w 2-4 {NOW + HOLD}"}
    assert not is_idle(here, "2-1")
    assert is_idle(here, "2-2")


def test_renew_takes_as_many_as_a_call_may_carry(here: Here) -> None:
    names = [(f"t{at}", f"2-{at}") for at in range(1, calls.MAX_SCRIPT_TASKS + 1)]
    here.seed(*(Running(*name, idle=IDLE) for name in names), neighbours=False)

    assert here.run(renew(here, *names)) == [Renewed.KEPT] * len(names)

    rows = here.client.xpending_range(here.keys.stream, GROUP, "-", "+", 1000, idle=IDLE)
    assert rows == []

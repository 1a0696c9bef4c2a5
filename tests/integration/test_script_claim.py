"""lua/claim.lua: one delivery is taken over from an owner that vanished, as it was seen or not at all."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Call
from django_redq.broker.delivery import PendingRow
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.state import State
from tests.integration.worlds import GROUP, ME, OTHER, Blow, Here, Running

pytestmark = pytest.mark.every_server

MIN_IDLE = 30_000
LOST = State(0, lost=True, allowed=3)


def claim(here: Here, consumer: str = ME, give_count: int = 2) -> Call[bool]:
    seen = PendingRow(here.mine("t", "2-1"), OTHER, in_stream=True)
    return calls.claim(
        here.shard, consumer, seen, LOST, give_count=give_count, min_idle_ms=MIN_IDLE
    )


def test_claim_takes_the_delivery_over_and_remembers_the_lost_worker(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=MIN_IDLE))
    before = here.world()

    assert here.run(claim(here)) is True

    assert here.world() == before - {f"pending 2-1 {OTHER} 1"} | {
        "pending 2-1 me-1 2",
        "consumer me-1",
        "state t 0 1 3 - ",
    }
    row = here.row("2-1")
    assert row is not None
    assert row[2] < MIN_IDLE
    assert here.heard() == []


def test_claim_parks_a_suspect_with_its_count_put_back(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=MIN_IDLE))
    before = here.world()

    assert here.run(claim(here, SUSPECTS_CONSUMER, give_count=1)) is True

    assert here.world() == before - {f"pending 2-1 {OTHER} 1", "meta suspects 1"} | {
        "pending 2-1 _suspects 1",
        "state t 0 1 3 - ",
        "meta suspects 2",
    }


@pytest.mark.parametrize(("consumer", "give_count"), [(ME, 2), (SUSPECTS_CONSUMER, 1)])
def test_claim_sent_twice_has_it_already(here: Here, consumer: str, give_count: int) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=MIN_IDLE))
    here.run(claim(here, consumer, give_count))
    before = here.world()

    assert here.run(claim(here, consumer, give_count)) is True

    assert here.changes(before) == []


def _renewed(here: Here) -> None:
    here.hand_over("2-1", OTHER, idle=0)


def _claimed_by_a_third(here: Here) -> None:
    here.hand_over("2-1", "third-3", idle=MIN_IDLE)


def _delivered_again(here: Here) -> None:
    here.hand_over("2-1", OTHER, count=2, idle=MIN_IDLE)


def _mine_with_another_count(here: Here) -> None:
    here.hand_over("2-1", ME, count=1, idle=MIN_IDLE)


def _settled(here: Here) -> None:
    here.client.xack(here.keys.stream, GROUP, "2-1")
    here.client.xdel(here.keys.stream, "2-1")


def _entry_gone(here: Here) -> None:
    here.client.xdel(here.keys.stream, "2-1")


def _stream_gone(here: Here) -> None:
    here.client.delete(here.keys.stream)


def _group_gone(here: Here) -> None:
    here.client.xgroup_destroy(here.keys.stream, GROUP)


def _paused(here: Here) -> None:
    here.client.hset(here.keys.meta, "paused", 1)


@pytest.mark.parametrize(
    "blow",
    [
        _renewed,
        _claimed_by_a_third,
        _delivered_again,
        _mine_with_another_count,
        _settled,
        _entry_gone,
        _stream_gone,
        _group_gone,
        _paused,
        Here.wipe,
    ],
    ids=lambda blow: blow.__name__.strip("_"),
)
def test_claim_changes_nothing_that_is_not_as_it_was_seen(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=MIN_IDLE))
    blow(here)
    before = here.world()

    assert here.run(claim(here)) is False

    assert here.changes(before) == []


def test_claim_takes_a_task_without_a_payload(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=MIN_IDLE))
    here.client.hdel(here.keys.payload, "t")

    assert here.run(claim(here)) is True

    assert "pending 2-1 me-1 2" in here.world()

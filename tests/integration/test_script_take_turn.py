"""lua/take_turn.lua: one process a queue at a time empties itself for a parked suspect."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from tests.integration.worlds import ME, NOW, OTHER, Here

pytestmark = pytest.mark.every_server

TTL = 30_000


def take(here: Here, consumer: str = ME, ttl_ms: int = TTL, now: str = str(NOW)) -> bool:
    return here.run(calls.take_turn(here.shard, consumer, ttl_ms, now))


def turn(here: Here, consumer: str, till: int) -> None:
    here.client.hset(here.keys.meta, "turn", f"{consumer} {till}")


def test_take_turn_takes_a_free_turn(here: Here) -> None:
    here.seed()
    before = here.world()

    assert take(here) is True

    assert here.changes(before) == [f"+ meta turn me-1 {NOW + TTL}"]
    assert here.heard() == []


def test_take_turn_is_refused_while_another_has_it(here: Here) -> None:
    turn(here, OTHER, NOW + 1)

    assert take(here) is False

    assert here.world() == {f"meta turn {OTHER} {NOW + 1}"}


def test_take_turn_takes_over_a_turn_that_has_lapsed(here: Here) -> None:
    turn(here, OTHER, NOW)

    assert take(here) is True

    assert here.world() == {f"meta turn me-1 {NOW + TTL}"}


def test_take_turn_keeps_ones_own(here: Here) -> None:
    turn(here, ME, NOW + 1)

    assert take(here) is True

    assert here.world() == {f"meta turn me-1 {NOW + TTL}"}


def test_take_turn_gives_it_back(here: Here) -> None:
    turn(here, ME, NOW + 1)

    assert [take(here, ttl_ms=0), take(here, ttl_ms=0)] == [True, True]

    assert here.world() == set()


def test_take_turn_does_not_give_another_ones_turn_back(here: Here) -> None:
    turn(here, OTHER, NOW + 1)

    assert take(here, ttl_ms=0) is False

    assert here.world() == {f"meta turn {OTHER} {NOW + 1}"}


@pytest.mark.parametrize("garbage", ["", "rubbish", "a b c"])
def test_take_turn_takes_garbage_for_nobody(here: Here, garbage: str) -> None:
    here.client.hset(here.keys.meta, "turn", garbage)

    assert take(here) is True

    assert here.world() == {f"meta turn me-1 {NOW + TTL}"}


def test_take_turn_goes_by_redis_own_clock(here: Here) -> None:
    earliest = here.clock() + TTL

    take(here, now="")

    till = int(here.client.hget(here.keys.meta, "turn").split()[1])
    assert earliest <= till <= here.clock() + TTL

"""How the rings of a meter are read: ``broker.meter`` without a server."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from django_redq.broker.meter import DAY, HOUR, Activity, Reading, Ring, added_up

NOW = 1_700_000_030_000
MINUTE = NOW // 60_000


def slot(number: int, *counts: int) -> bytes:
    return struct.pack(">6Iq", number, *counts)


def ring(*slots: bytes) -> Reading:
    return Reading(NOW, b"".join(slots))


def test_the_rings_lie_one_behind_the_other() -> None:
    assert HOUR.bytes == (0, 60 * 32 - 1)
    assert DAY.bytes == (60 * 32, 156 * 32 - 1)


@pytest.mark.parametrize(("of", "seconds"), [(HOUR, 60), (DAY, 900)])
def test_nothing_that_happened_is_zeros(of: Ring, seconds: int) -> None:
    for readings in ([], [ring()], [ring(b"\0" * 64)]):
        found = added_up(of, readings)

        assert len(found) == of.slots
        assert {one.seconds for one in found} == {seconds}
        assert all(one == Activity(one.since, seconds) for one in found)


def test_slots_are_put_in_order_and_the_current_one_is_the_last() -> None:
    found = added_up(
        HOUR, [ring(slot(MINUTE, 5, 0, 0, 0, 0, 0), slot(MINUTE - 59, 1, 0, 0, 0, 0, 0))]
    )

    assert (found[-1].succeeded, found[0].succeeded) == (5, 1)
    assert sum(one.succeeded for one in found) == 6
    assert found[-1].since == datetime.fromtimestamp(MINUTE * 60, UTC)
    assert [(b.since - a.since).seconds for a, b in pairwise(found)] == [60] * 59


def test_shards_are_added_up_and_the_longest_wait_is_the_longest_of_all() -> None:
    one, two = slot(MINUTE, 1, 2, 3, 4, 50, 100), slot(MINUTE, 10, 20, 30, 6, 40, 100)

    found = added_up(HOUR, [ring(one), ring(slot(MINUTE - 1, 9, 9, 9, 9, 9, 9), two)])

    last = found[-1]
    assert (last.succeeded, last.failed, last.died, last.started) == (11, 22, 33, 10)
    assert (last.mean_wait, last.longest_wait) == (0.02, 0.05)
    assert found[-2].started == 9


def test_what_is_too_old_or_of_another_clock_is_not_told() -> None:
    stale, ahead = slot(MINUTE - 60, 7, 7, 7, 7, 7, 7), slot(MINUTE + 1, 7, 7, 7, 7, 7, 7)

    found = added_up(HOUR, [ring(stale, ahead)])

    assert sum(one.succeeded for one in found) == 0


def test_garbage_hurts_nobody() -> None:
    garbage = b"\xff" * 100

    found = added_up(HOUR, [ring(garbage), ring(slot(MINUTE, 1, 0, 0, 1, 0, -5), b"tail")])

    assert (found[-1].succeeded, found[-1].mean_wait) == (1, 0.0)


def test_the_latest_clock_counts_where_shards_differ() -> None:
    late = Reading(NOW + 60_000, slot(MINUTE + 1, 3, 0, 0, 0, 0, 0))

    found = added_up(HOUR, [ring(slot(MINUTE, 2, 0, 0, 0, 0, 0)), late])

    assert [one.succeeded for one in found[-2:]] == [2, 3]

"""What happened lately: each script that settles or delivers adds to the meter, in constant space."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from django_redq.broker import calls, meter
from django_redq.broker.calls import Call, Letter
from django_redq.broker.meter import DAY, HOUR, Activity, added_up
from django_redq.broker.state import State
from tests.integration.worlds import GROUP, ME, NOW, Here, Ready, Running

pytestmark = pytest.mark.every_server

STATE = State(1, lost=False, allowed=3, came_from=b"2-1", failures=b"[]")
LETTER = Letter("exhausted", "", "error", "OSError", "", 1)
SIZE = 156 * 32


def lately(here: Here, now: int = NOW, ring: meter.Ring = HOUR) -> tuple[Activity, ...]:
    return added_up(ring, [here.run(meter.history(here.shard, ring, str(now)))])


def ack(here: Here, *numbers: int, now: int = NOW) -> Call[Any]:
    mine = [here.mine(f"t{number}", f"2-{number}") for number in numbers]
    return calls.ack(
        here.shard, ME, mine, str(now), retention="delete_on_ack", cleanup="on_success"
    )


def running(here: Here, number: int) -> None:
    here.seed(*(Running(f"t{at}", f"2-{at}") for at in range(1, number + 1)), neighbours=False)


def test_success_is_counted_in_both_rings(here: Here) -> None:
    running(here, 3)

    here.run(ack(here, 1, 2))
    here.run(ack(here, 3, now=NOW + 60_000))

    hour, day = lately(here, NOW + 60_000), lately(here, NOW + 60_000, DAY)
    assert [one.succeeded for one in hour[-2:]] == [2, 1]
    assert [one.succeeded for one in day[-2:]] == [0, 3]
    assert here.client.strlen(here.keys.meter) <= SIZE


def test_what_was_done_before_is_not_counted_again(here: Here) -> None:
    running(here, 1)

    for _ in range(2):
        here.run(ack(here, 1))

    assert lately(here)[-1].succeeded == 1


def test_failures_are_counted_and_deaths_are_failures_too(here: Here) -> None:
    running(here, 3)

    mine = [(here.mine(f"t{number}", f"2-{number}"), 500, STATE) for number in (1, 2)]
    here.run(calls.retry(here.shard, ME, mine, str(NOW)))
    last = here.mine("t3", "2-3")
    here.run(calls.dead_letter(here.shard, ME, last, STATE, LETTER, str(NOW)))

    found = lately(here)[-1]
    assert (found.succeeded, found.failed, found.died) == (0, 3, 1)


def test_a_delivery_is_counted_with_how_long_it_had_waited(here: Here) -> None:
    now = here.clock()
    for number in range(3):
        here.client.hset(here.keys.payload, f"t{number}", "{}")
        here.client.xadd(here.keys.stream, {"id": f"t{number}"}, f"{now - 6000 + number}-0")
    here.run(calls.fetch([here.shard], ME, 10, alone=False))

    found = lately(here, here.clock())
    started = [one for one in found if one.started]
    assert sum(one.started for one in started) == 3
    assert started[-1].longest_wait is not None
    assert started[-1].mean_wait is not None
    assert 5.9 <= started[-1].mean_wait <= started[-1].longest_wait < 60


def test_the_longest_wait_is_kept(here: Here) -> None:
    now = here.clock()
    for number, entry_id in enumerate((f"{now - 6000}-0", f"{now}-0")):
        here.client.hset(here.keys.payload, f"t{number}", "{}")
        here.client.xadd(here.keys.stream, {"id": f"t{number}"}, entry_id)
        here.run(calls.fetch([here.shard], ME, 10, alone=False))

    longest = [one.longest_wait for one in lately(here, here.clock()) if one.longest_wait]
    assert max(longest) >= 5.9


def test_an_entry_of_the_future_has_not_waited(here: Here) -> None:
    here.client.hset(here.keys.payload, "t", "{}")
    here.client.xadd(here.keys.stream, {"id": "t"}, f"{NOW}-0")

    here.run(calls.fetch([here.shard], ME, 10, alone=False))

    found = [one for one in lately(here, here.clock()) if one.started]
    assert [(one.mean_wait, one.longest_wait) for one in found] == [(0.0, 0.0)]


def test_what_finds_nothing_counts_nothing(here: Here) -> None:
    here.seed(Ready("t", "3-2"), neighbours=False)
    here.run(calls.fetch([here.shard], ME, 10, alone=False))
    before = here.client.get(here.keys.meter)

    here.run(calls.fetch([here.shard], ME, 10, alone=False))
    here.run(ack(here, 9))

    assert here.client.get(here.keys.meter) == before


def test_a_slot_begins_anew_when_its_time_comes_round(here: Here) -> None:
    running(here, 3)
    hours = 60 * 60_000

    here.run(ack(here, 1))
    here.run(ack(here, 2, now=NOW + hours))
    here.run(ack(here, 3, now=NOW + 24 * hours))

    assert [one.succeeded for one in lately(here, NOW + 24 * hours)][-1] == 1
    assert sum(one.succeeded for one in lately(here, NOW + 24 * hours)) == 1
    day = lately(here, NOW + 24 * hours, DAY)
    assert sum(one.succeeded for one in day) == 2
    assert here.client.strlen(here.keys.meter) <= SIZE


@pytest.mark.parametrize("written", [b"\xff" * SIZE, b"\xff" * 7, b"rubbish"])
def test_garbage_in_the_meter_fails_nobody(here: Here, written: bytes) -> None:
    running(here, 1)
    here.client.set(here.keys.meter, written)

    here.run(ack(here, 1))

    assert here.client.hlen(here.keys.payload) == 0
    lately(here)
    lately(here, ring=DAY)


@pytest.mark.parametrize("waited", [2**63 - 1, -(2**63)])
def test_counts_stop_at_their_largest(here: Here, waited: int) -> None:
    running(here, 1)
    minute, most = NOW // 60_000, 2**32 - 1
    full = struct.pack(">6Iq", minute, most, most, most, most, most, waited)
    here.client.setrange(here.keys.meter, minute % 60 * 32, full)

    here.run(ack(here, 1))

    found = lately(here)[-1]
    assert (found.succeeded, found.failed, found.died, found.started) == (most, most, most, most)
    assert found.longest_wait == most / 1000
    assert found.mean_wait is not None
    assert found.mean_wait >= 0


@pytest.mark.parametrize("how", ["ack", "retry", "dead_letter", "fetch"])
def test_a_meter_of_another_type_fails_nobody(here: Here, how: str) -> None:
    running(here, 1)
    here.client.rpush(here.keys.meter, "no string")
    mine = here.mine("t1", "2-1")
    by_name: dict[str, Call[Any]] = {
        "ack": ack(here, 1),
        "retry": calls.retry(here.shard, ME, [(mine, 500, STATE)], str(NOW)),
        "dead_letter": calls.dead_letter(here.shard, ME, mine, STATE, LETTER, str(NOW)),
        "fetch": calls.fetch([here.shard], ME, 10, alone=False),
    }
    if how == "fetch":
        here.client.xadd(here.keys.stream, {"id": "new"})

    here.run(by_name[how])

    if how == "fetch":
        assert here.client.xpending(here.keys.stream, GROUP)["pending"] == 2
    else:
        assert here.client.xlen(here.keys.stream) == 0
    assert sum(one.succeeded for one in lately(here)) == 0


def test_history_of_nothing(here: Here) -> None:
    assert len(lately(here)) == 60
    assert here.redq.keys() == []

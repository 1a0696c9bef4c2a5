"""lua/bulk_begin, _end, _halt, _read, _drop: what bulk work there is, and when it is over."""

from __future__ import annotations

import pytest

from django_redq.broker import bulk_calls
from django_redq.broker.bulk_calls import MAX_OPEN, StoredBulk, StoredPart
from tests.integration.worlds import NOW, Here

pytestmark = pytest.mark.every_server

NOW_TEXT = str(NOW)
OPEN = f"open 7 {NOW} 0 {{}}"
GOING = f"going 4-1 4-9 8 4 2 1 {NOW - 5} 0"


def begin(here: Here, bulk_id: str = "b1", now: str = NOW_TEXT) -> int:
    return here.run(bulk_calls.begin(here.shard, bulk_id, b'{"a": 1}', now))


def keep(here: Here, field: str, value: str) -> None:
    here.client.hset(here.keys.bulk, field, value)


def till_of(here: Here) -> int:
    return here.run(bulk_calls.read(here.shard)).records["b1"].till


# --- begin


def test_begin_writes_the_record_down(here: Here) -> None:
    here.seed()
    before = here.world()

    assert begin(here) == 1

    assert here.changes(before) == [f'+ bulk b1 open {till_of(here)} {NOW} 0 {{"a": 1}}']


def test_begin_means_what_is_there_by_redis_own_clock_whatever_time_is_brought(here: Here) -> None:
    earliest = here.clock()

    begin(here)

    assert earliest <= till_of(here) <= here.clock()


def test_begin_sent_twice_begins_once(here: Here) -> None:
    begin(here)
    before = here.world()

    assert begin(here, now=str(NOW + 1)) == 0

    assert here.changes(before) == []


def test_begin_is_refused_where_too_many_are_open(here: Here) -> None:
    for number in range(MAX_OPEN - 1):
        keep(here, f"other{number}", OPEN)
        keep(here, f"over{number}", f"done 7 {NOW} {NOW} {{open 1}}")
        keep(here, f"other{number} part", GOING)
    keep(here, "garbled", "rubbish")

    assert begin(here, "last") == 1
    before = here.world()

    assert begin(here, "one more") == -1
    # What was begun is begun, however many there are.
    assert begin(here, "last") == 0
    assert here.changes(before) == []


# --- end


@pytest.mark.parametrize("state", ["done", "stopped"])
def test_end_ends_the_record_and_leaves_the_parts(here: Here, state: str) -> None:
    here.seed()
    keep(here, "b1", f"open 7 {NOW - 9} 0 {{\n0 0}}")
    keep(here, "b1 part", GOING)
    before = here.world()

    assert here.run(bulk_calls.end(here.shard, "b1", state, NOW_TEXT)) == 1

    assert here.changes(before) == [
        f"- bulk b1 open 7 {NOW - 9} 0 {{\n0 0}}",
        f"+ bulk b1 {state} 7 {NOW - 9} {NOW} {{\n0 0}}",
    ]


@pytest.mark.parametrize("record", [f"done 7 {NOW} {NOW} {{}}", "stopped 7 1 2 {}", "rubbish"])
def test_end_leaves_alone_what_is_over_or_garbled(here: Here, record: str) -> None:
    keep(here, "b1", record)
    before = here.world()

    assert here.run(bulk_calls.end(here.shard, "b1", "stopped", NOW_TEXT)) == 0

    assert here.changes(before) == []


def test_end_knows_nothing_of_what_never_began(here: Here) -> None:
    here.seed()
    before = here.world()

    assert here.run(bulk_calls.end(here.shard, "b1", "stopped", NOW_TEXT)) == -1

    assert here.changes(before) == []


# --- halt


def test_halt_stops_a_part_and_keeps_its_counts(here: Here) -> None:
    here.seed()
    keep(here, "b1 part", GOING)
    before = here.world()

    assert here.run(bulk_calls.halt(here.shard, "b1", NOW_TEXT)) is True

    assert here.changes(before) == [
        f"- bulk b1 part {GOING}",
        f"+ bulk b1 part stopped 4-1 4-9 8 4 2 1 {NOW - 5} {NOW}",
    ]


@pytest.mark.parametrize("part", ["", "rubbish"])
def test_halt_stops_a_part_before_its_first_step(here: Here, part: str) -> None:
    if part:
        keep(here, "b1 part", part)

    assert here.run(bulk_calls.halt(here.shard, "b1", NOW_TEXT)) is True

    assert here.world() == {f"bulk b1 part stopped - - 0 0 0 0 {NOW} {NOW}"}


@pytest.mark.parametrize("state", ["done", "stopped"])
def test_halt_leaves_alone_what_is_over(here: Here, state: str) -> None:
    keep(here, "b1 part", f"{state} 4-1 4-9 8 4 2 1 1 2")
    before = here.world()

    assert here.run(bulk_calls.halt(here.shard, "b1", NOW_TEXT)) is False

    assert here.changes(before) == []


# --- read


def test_read_tells_all_that_there_is(here: Here) -> None:
    keep(here, "b1", f"open 7 {NOW} 0 {{\n0 0}}")
    keep(here, "b2", "stopped 7 8 9 {}")
    keep(here, "b2 part", f"stopped 4-1 4-9 8 4 2 1 {NOW} 9")
    keep(here, "b3 part", f"stopped - - 0 0 0 0 {NOW} 9")
    before = here.world()

    found = here.run(bulk_calls.read(here.shard))

    assert found.records == {
        "b1": StoredBulk("b1", "open", 7, NOW, 0, b"{\n0 0}"),
        "b2": StoredBulk("b2", "stopped", 7, 8, 9, b"{}"),
    }
    assert found.parts == {
        "b2": StoredPart("stopped", 8, 4, 2, 1, NOW, 9),
        "b3": StoredPart("stopped", 0, 0, 0, 0, NOW, 9),
    }
    assert here.changes(before) == []


def test_read_tells_what_is_open(here: Here) -> None:
    keep(here, "b1", OPEN)
    keep(here, "b1 part", GOING)
    keep(here, "b2", "done 7 8 9 {}")

    found = here.run(bulk_calls.read(here.shard, open_only=True))

    assert (list(found.records), dict(found.parts)) == (["b1"], {})


@pytest.mark.parametrize("garbled", [b"", b"rubbish", b"open 1 2 x {}", b"open -1 2 3 {}", b"\xff"])
def test_read_takes_in_whatever_lies_there(here: Here, garbled: bytes) -> None:
    here.client.hset(here.keys.bulk, mapping={b"b1": garbled, b"b1 part": garbled, b"\xff": b"x"})

    found = here.run(bulk_calls.read(here.shard))

    assert found.records["b1"].state == ""
    assert found.parts == {"b1": StoredPart("")}


def test_read_finds_nothing(here: Here) -> None:
    found = here.run(bulk_calls.read(here.shard))

    assert (found.records, found.parts) == ({}, {})


# --- drop


def test_drop_forgets_parts_and_where_it_is_told_to_the_records_too(here: Here) -> None:
    here.seed()
    before = here.world()
    for bulk_id in ("b1", "b2"):
        keep(here, bulk_id, OPEN)
        keep(here, f"{bulk_id} part", GOING)

    assert here.run(bulk_calls.drop(here.shard, ["b1", "b9"], records=False)) == 1

    assert here.changes(before) == [
        f"+ bulk b1 {OPEN}",
        f"+ bulk b2 {OPEN}",
        f"+ bulk b2 part {GOING}",
    ]
    assert here.run(bulk_calls.drop(here.shard, ["b1", "b2"], records=True)) == 3
    assert here.run(bulk_calls.drop(here.shard, ["b1", "b2"], records=True)) == 0
    assert here.changes(before) == []

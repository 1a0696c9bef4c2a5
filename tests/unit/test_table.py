"""The table of what a process holds."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from django_redq.broker.delivery import Delivery
from django_redq.broker.state import NEW
from django_redq.consumer import table as tables
from django_redq.consumer.table import (
    Held,
    Table,
    process_has_aside,
    process_is_empty,
    process_runs_suspect,
)
from django_redq.outcome import Done


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Tables of other tests that nobody has collected yet do not count."""
    monkeypatch.setattr(tables, "_tables", type(tables._tables)())


def held(entry="1-1", *, suspect=False, recovered=False):
    state = replace(NEW, attempts=2, lost=suspect, allowed=3)
    return Held(Delivery("default", 0, f"task-{entry}", entry, 1, b"{}", state), recovered)


def table(capacity=3):
    return Table(capacity, lambda: None)


def test_no_more_is_reserved_than_there_is_room():
    some = table(3)
    assert some.reserve(2) == 2
    assert some.reserve(2) == 1
    assert some.reserve(2) == 0
    assert not some.has_room
    some.unreserve(3)
    assert some.has_room


def test_what_is_held_takes_room():
    some = table(2)
    some.add(held("1-1"))
    assert some.reserve(5) == 1
    assert len(some) == 1


def test_a_task_that_left_makes_room_once():
    some, one = table(1), held()
    some.add(one)
    some.remove(one)
    some.remove(one)
    assert some.reserve(5) == 1


def test_of_recovered_tasks_no_more_than_the_limit_are_held():
    some = table(5)
    some.add(held("1-1", recovered=True))
    assert some.reserve_for_recovered(5, 2) == 1
    some.unreserve(1)
    some.add(held("1-2", recovered=True))
    assert some.reserve_for_recovered(5, 2) == 0
    # No slot is kept for what the limit keeps away.
    assert some.reserve(5) == 3


def test_recovered_tasks_and_others_take_turns():
    some, taken = table(1), []
    for _ in range(6):
        recovered = not some.reserve(1)
        if recovered:
            assert some.reserve_for_recovered(2, None) == 1
        taken.append(recovered)
        # While the slot is taken, the recoverer asks in vain.
        assert some.reserve_for_recovered(2, None) == 0
        some.unreserve(1)
    assert taken == [False, True, False, True, False, True]


def test_a_slot_is_kept_only_while_recovered_tasks_wait():
    told = []
    some = Table(1, lambda: told.append("finished"))
    some.on_room = lambda: told.append("room")
    one = held()
    some.add(one)
    assert some.reserve_for_recovered(1, None) == 0
    some.remove(one)
    assert (some.reserve(1), told) == (0, ["room"])
    some.await_none()
    assert (some.reserve(1), told) == (1, ["room", "finished"])


def test_nothing_is_reserved_beside_a_suspect_by_any_table_of_the_process():
    some, other, suspect = table(), table(), held(suspect=True)
    some.add(suspect)
    assert process_runs_suspect()
    assert (some.reserve(1), other.reserve(1)) == (0, 0)
    assert not some.has_room
    some.remove(suspect)
    assert not process_runs_suspect()
    assert (some.reserve(1), other.reserve(1)) == (1, 1)


def test_the_process_is_empty_when_all_tables_are():
    some, other, one = table(), table(), held()
    assert process_is_empty()
    some.add(one)
    assert not process_is_empty()
    some.remove(one)
    other.reserve(1)
    assert not process_is_empty()
    other.unreserve(1)
    assert process_is_empty()


def test_a_task_is_found_by_its_entry():
    some, one = table(), held("1-1")
    some.add(one)
    assert some.get(held("1-1").delivery) is one
    assert some.get(held("1-2").delivery) is None
    assert some.snapshot() == [one]


def test_finished_tasks_come_in_order_and_are_held_until_removed():
    some, many = table(3), [held(f"1-{n}") for n in range(3)]
    for one in many:
        some.add(one)
        some.finish(one, Done())
    assert some.has_finished
    first = some.take_finished(2)
    assert first == many[:2]
    some.put_back(first)
    assert some.take_finished(10) == many
    assert not some.has_finished
    assert len(some) == 3


def test_finishing_tells():
    told = threading.Event()
    some, one = Table(1, told.set), held()
    some.add(one)
    some.finish(one, Done())
    assert told.is_set()
    assert one.outcome == Done()


def test_losing_a_task_tells_it_and_cancels_it():
    cancelled = threading.Event()
    one = held()
    one.cancel = cancelled.set
    one.lose()
    assert one.ownership.lost
    assert cancelled.is_set()


def test_a_closed_table_holds_only_what_still_runs():
    some, done, running = table(), held("1-1"), held("1-2")
    some.add(done)
    some.add(running)
    some.finish(done, Done())
    some.close()
    assert some.snapshot() == [running]
    some.finish(running, Done())
    assert some.is_empty
    assert not some.has_finished


def test_what_lies_aside_is_held_takes_no_slot_and_comes_again(monkeypatch):
    some, one = table(1), held()
    some.add(one)
    some.finish(one, Done())
    some.put_aside(some.take_finished(1))
    assert (len(some), some.has_aside, some.has_finished) == (1, True, False)
    assert one.was_tried
    assert process_has_aside()
    assert some.reserve(1) == 1
    monkeypatch.setattr(tables.time, "monotonic", lambda: float("inf"))
    assert some.take_finished(1) == [one]
    assert not some.has_aside


def test_a_suspect_that_lies_aside_is_beside_nobody():
    some, suspect = table(2), held(suspect=True)
    some.add(suspect)
    some.finish(suspect, Done())
    assert some.has_suspect
    some.put_aside(some.take_finished(1))
    assert not some.has_suspect
    assert some.has_room
    some.close()
    assert some.is_empty
    assert not some.has_suspect

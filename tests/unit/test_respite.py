"""Who is left alone by recovery, and for how long."""

from __future__ import annotations

import pytest

from django_redq.broker.calls import Shard
from django_redq.consumer import respite
from django_redq.consumer.respite import Respites

A, B = (Shard("n", "q", number, "g") for number in range(2))


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(respite.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def respites(clock):
    return Respites({A: 60.0, B: 30.0})


def test_nobody_has_one_at_first(respites):
    assert respites.wants_asking(A)
    assert not respites.covers(A)
    assert not respites.answered(A)
    assert respites.next_end() == float("inf")


def test_in_doubt_it_is_asked_and_nothing_is_taken(respites):
    respites.doubt([A])
    assert respites.wants_asking(A)
    assert respites.covers(A)
    assert not respites.covers(B)


def test_it_begins_with_the_first_answer_however_long_that_took(respites, clock):
    respites.doubt([A])
    clock.now += 1000
    assert respites.answered(A)
    assert not respites.wants_asking(A)
    assert respites.next_end() == clock.now + 60
    clock.now += 60
    assert respites.wants_asking(A)
    assert not respites.covers(A)
    assert not respites.answered(A)


def test_each_has_its_own_length_and_the_next_to_end_is_told(respites, clock):
    respites.give([A, B])
    assert respites.next_end() == clock.now + 30
    clock.now += 31
    assert (respites.covers(A), respites.covers(B)) == (True, False)
    assert respites.next_end() == 160


def test_a_short_one_ends_no_longer_one(respites, clock):
    respites.give([A, B], 3)
    assert respites.next_end() == 103
    respites.give([A])
    respites.give([A], 3)
    clock.now += 59
    assert (respites.covers(A), respites.covers(B)) == (True, False)


def test_who_is_in_doubt_again_is_asked_during_its_respite(respites):
    respites.give([A])
    assert not respites.wants_asking(A)
    respites.doubt([A])
    assert respites.wants_asking(A)

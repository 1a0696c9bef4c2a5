"""The scheduler's book of leases and due times; the test's clock, no server."""

from __future__ import annotations

import pytest

from django_redq.broker.calls import Heads, Promotion, Shard
from django_redq.scheduler import leases as module
from django_redq.scheduler.leases import BAD_SHARD_PAUSE, ROUNDING, Leases

TTL = 9.0
REDIS_EPOCH = 5_000_000.0
"""What Redis' clock shows, in ms, when the test's shows 1000 s."""


class Clock:
    """A monotonic clock that moves when the test says so."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    @property
    def redis(self):
        """The same moment by Redis' clock, in ms."""
        return REDIS_EPOCH + (self.now - 1000.0) * 1000


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def shards():
    return [Shard("redq", "email", number, "default") for number in range(3)]


@pytest.fixture
def leases(clock, shards):
    return Leases(shards, "me", TTL)


def held(clock, next_due=None):
    return Promotion(True, 0, None, next_due, clock.redis)


def not_held(clock, lapses_in):
    return Promotion(False, 0, lapses_in, None, clock.redis)


def note_all(leases, shards, promotion):
    for shard in shards:
        leases.note(shard, promotion)


def test_at_first_every_lease_is_wanted(leases, shards):
    assert leases.to_promote() == shards
    assert leases.wait() == 0.0


def test_a_lease_is_renewed_every_third_of_its_length(leases, shards, clock):
    note_all(leases, shards, held(clock))
    assert leases.held == set(shards)
    assert leases.to_promote() == []
    assert leases.wait() == pytest.approx(TTL / 3)
    clock.now += TTL / 3
    assert leases.to_promote() == shards


def test_a_shard_is_due_when_its_first_task_is(leases, shards, clock):
    note_all(leases, shards, held(clock))
    leases.note(shards[1], held(clock, clock.redis + 500))
    assert leases.wait() == pytest.approx(0.5 + ROUNDING)
    clock.now += 0.5
    assert leases.to_promote() == []
    clock.now += ROUNDING * 2
    assert leases.to_promote() == [shards[1]]


def test_a_task_without_an_end_is_never_due(leases, shards, clock):
    note_all(leases, shards, held(clock, float("inf")))
    assert leases.wait() == pytest.approx(TTL / 3)


def test_a_lease_of_another_is_tried_when_it_lapses(leases, shards, clock):
    note_all(leases, shards, held(clock))
    leases.note(shards[0], not_held(clock, 1000.0))
    assert leases.held == set(shards[1:])
    assert 1.0 <= leases.wait() <= 1.1
    clock.now += leases.wait()
    assert leases.to_promote() == [shards[0]]


def test_a_lease_of_another_is_looked_at_every_third_all_the_same(leases, shards, clock):
    """Its owner may have released it, and the hint been lost."""
    note_all(leases, shards, not_held(clock, 60_000.0))
    assert leases.wait() == pytest.approx(TTL / 3)


def test_what_is_due_in_a_shard_of_another_does_not_matter(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis + 500))
    note_all(leases, shards, not_held(clock, 60_000.0))
    leases.hint(shards[0].due, f"0 {clock.redis + 1:.0f}")
    leases.take_hints()
    clock.now += 1
    assert leases.to_promote() == []


def test_a_hint_of_something_sooner_is_heeded(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis + 2000))
    leases.hint(shards[2].due, f"2 {clock.redis + 100:.0f}")
    leases.take_hints()
    assert leases.wait() == pytest.approx(0.1, abs=0.001)


def test_a_hint_of_something_later_changes_nothing(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis + 500))
    leases.hint(shards[2].due, f"2 {clock.redis + 900:.0f}")
    leases.take_hints()
    assert leases.wait() == pytest.approx(0.5 + ROUNDING)


def test_a_released_lease_is_tried_at_once(leases, shards, clock):
    note_all(leases, shards, not_held(clock, 60_000.0))
    leases.hint(shards[1].due, "1")
    leases.take_hints()
    assert leases.to_promote() == [shards[1]]


def test_a_new_channel_means_that_all_are_looked_at(leases, shards, clock):
    note_all(leases, shards, held(clock))
    leases.hint("", "")
    leases.take_hints()
    assert leases.to_promote() == shards


@pytest.mark.parametrize("message", ["", "x", "9", "-1", "1 soon", "1 ", "² 5", "1 nan", "\x00"])
def test_a_garbled_hint_harms_nothing(leases, shards, clock, message):
    note_all(leases, shards, held(clock))
    leases.hint(shards[0].due, message)
    leases.hint("redq:wake:other:due", "0")
    leases.take_hints()
    assert set(leases.to_promote()) <= {shards[1]}
    assert 0 <= leases.wait() <= TTL / 3


def test_heads_tell_when_each_is_due(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis + 100))
    heads = Heads([None, clock.redis + 1000, None], clock.redis)
    leases.note_heads(shards, heads)
    assert leases.wait() == pytest.approx(1 + ROUNDING)


def test_redis_clock_counts_not_ours(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis + 1000))
    # Redis' clock was set forward by 10 s: what was due in a second is due now.
    heads = Heads([clock.redis + 1000, None, None], clock.redis + 10_000)
    leases.note_heads(shards, heads)
    assert leases.to_promote() == [shards[0]]


def test_a_shard_that_failed_is_tried_again_after_a_pause(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis))
    note_all(leases, shards, held(clock))
    leases.failed(shards[0])
    assert leases.held == set(shards[1:])
    assert leases.wait() == pytest.approx(BAD_SHARD_PAUSE)
    clock.now += BAD_SHARD_PAUSE
    assert leases.to_promote() == [shards[0]]


def test_what_was_given_up_is_forgotten(leases, shards, clock):
    note_all(leases, shards, held(clock, clock.redis))
    leases.forget()
    assert leases.held == set()
    assert leases.to_promote() == []


def test_who_goes_through_those_held_is_not_disturbed(leases, clock, shards):
    leases.note(shards[0], held(clock))
    before = leases.held
    leases.note(shards[1], held(clock))
    leases.failed(shards[0])
    assert before == {shards[0]}
    assert leases.held == {shards[1]}

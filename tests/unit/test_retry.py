"""The retry policies that come with the package."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redq.retry import Exponential, Fixed, seconds

ERROR = ValueError()


@given(st.integers(1, 10_000))
def test_fixed_is_the_same_each_time(attempt):
    assert Fixed(2.5)(attempt, ERROR) == 2.5


def test_exponential_grows_to_its_maximum():
    policy = Exponential(initial=1.0, maximum=10.0, multiplier=2.0, jitter=0.0)
    assert [policy(attempt, ERROR) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_multiplier_of_one_does_not_grow():
    policy = Exponential(initial=3.0, maximum=10.0, multiplier=1.0, jitter=0.0)
    assert {policy(attempt, ERROR) for attempt in (1, 2, 100)} == {3.0}


@pytest.mark.parametrize("attempt", [1_024, 10**9])
def test_a_late_attempt_does_not_overflow(attempt):
    assert Exponential(maximum=60.0, jitter=0.0)(attempt, ERROR) == 60.0


@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 100), st.floats(1, 10))
def test_jitter_spreads_around_the_delay_and_never_above_the_maximum(
    attempt, jitter, initial, multiplier
):
    exact = Exponential(initial, 60.0, multiplier, 0.0)(attempt, ERROR)
    delay = Exponential(initial, 60.0, multiplier, jitter)(attempt, ERROR)
    assert 0 <= delay <= 60.0
    assert exact * (1 - jitter) - 1e-9 <= delay <= exact * (1 + jitter) + 1e-9


def test_jitter_differs_from_time_to_time():
    policy = Exponential(initial=10.0, maximum=60.0, jitter=0.5)
    assert len({policy(1, ERROR) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("delay", "expected"),
    [(1, 1.0), (0.5, 0.5), (timedelta(minutes=1), 60.0), (-1, 0.0), (timedelta(days=-1), 0.0)],
)
def test_seconds_of_a_delay(delay, expected):
    assert seconds(delay) == expected

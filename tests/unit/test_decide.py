"""What follows a failed attempt, decided without a server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_redq.consumer.decide import MAX_DELAY, decide
from django_redq.errors import Reject, Retry
from django_redq.outcome import Dead, Failure, Reason, RetryAt
from django_redq.retry import Exponential, Fixed


def failure(attempt=1):
    return Failure("ValueError", "no luck", "", attempt, 0)


def outcome(error=None, *, attempt=1, max_attempts=3, policy=None):
    """What is decided of an attempt of three that failed."""
    return decide(
        error or ValueError(),
        failure(attempt),
        max_attempts=max_attempts,
        policy=policy or Fixed(60.0),
    )


def test_a_failed_attempt_is_retried_as_the_policy_says():
    assert outcome() == RetryAt(60.0, failure())


def test_the_policy_is_asked_with_the_attempt_and_the_error():
    asked = []
    error = KeyError("x")

    def policy(attempt, given):
        asked.append((attempt, given))
        return 1.0

    outcome(error, attempt=2, policy=policy)
    assert asked == [(2, error)]


@pytest.mark.parametrize("attempt", [3, 4])
def test_the_last_attempt_is_dead(attempt):
    assert outcome(attempt=attempt) == Dead(Reason.EXHAUSTED, failure(attempt))


def test_a_policy_may_end_it_earlier():
    assert outcome(policy=lambda _attempt, _error: None) == Dead(Reason.EXHAUSTED, failure())


def test_reject_is_dead_whatever_attempts_are_left():
    assert outcome(Reject("no")) == Dead(Reason.REJECTED, failure())
    assert outcome(Reject("no"), attempt=3) == Dead(Reason.REJECTED, failure(3))


def test_retry_gives_no_attempt_that_is_not_there():
    assert outcome(Retry(delay=1), attempt=3) == Dead(Reason.EXHAUSTED, failure(3))


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (5, 5.0),
        (0.25, 0.25),
        (timedelta(minutes=2), 120.0),
        (0, 0.0),
        (-5, 0.0),
        (timedelta(seconds=-1), 0.0),
        (float("inf"), MAX_DELAY),
        (1e300, MAX_DELAY),
        (timedelta.max, MAX_DELAY),
    ],
)
def test_a_delay_is_seconds_neither_negative_nor_endless(delay, seconds):
    assert outcome(Retry(delay=delay)) == RetryAt(seconds, failure())
    assert outcome(policy=lambda _attempt, _error: delay) == RetryAt(seconds, failure())


def test_retry_without_a_delay_asks_the_policy():
    assert outcome(Retry("later")) == RetryAt(60.0, failure())


@pytest.mark.parametrize("delay", [float("nan"), "soon", object(), 10**400, [1]])
def test_a_retry_whose_delay_is_none_asks_the_policy(delay, caplog):
    assert outcome(Retry(delay=delay)) == RetryAt(60.0, failure())
    assert "is no delay" in caplog.text


@pytest.mark.parametrize("answer", [float("nan"), "soon", object(), 10**400])
def test_what_a_policy_may_not_answer_leaves_it_to_the_default_policy(answer, caplog):
    _assert_default(outcome(policy=lambda _attempt, _error: answer))
    assert "retry policy" in caplog.text


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_policy_that_raises_leaves_it_to_the_default_policy(error, caplog):
    def policy(attempt, given):
        raise error

    _assert_default(outcome(policy=policy))
    assert "retry policy" in caplog.text


def _assert_default(decided):
    assert isinstance(decided, RetryAt)
    default = Exponential()
    assert default.initial * (1 - default.jitter) <= decided.delay
    assert decided.delay <= default.initial * (1 + default.jitter)

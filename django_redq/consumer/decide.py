"""From a failed attempt to what happens next: a value, decided without a server."""

from __future__ import annotations

from datetime import timedelta

from django_redq.errors import Reject, Retry
from django_redq.lines import get_logger
from django_redq.outcome import Dead, Failure, Outcome, Reason, RetryAt
from django_redq.retry import Exponential, RetryPolicy, seconds

logger = get_logger("django_redq.consumer")

MAX_DELAY = 10 * 365 * 24 * 3600.0
"""Seconds; a policy that asks for more gets this."""


def decide(
    error: BaseException, failure: Failure, *, max_attempts: int, policy: RetryPolicy
) -> Outcome:
    """Whether the task is retried, and when, or is dead.

    Args:
        error: what the attempt ended in.
        failure: the same, as kept; ``failure.attempt`` is the attempt that failed.
        max_attempts: runs that the task gets in all.
        policy: asked for the delay, unless the handler gave one.
    """
    if isinstance(error, Reject):
        return Dead(Reason.REJECTED, failure)
    if failure.attempt >= max_attempts:
        return Dead(Reason.EXHAUSTED, failure)
    delay = _asked_for(error)
    if delay is None:
        delay = _ask(policy, failure.attempt, error)
    return Dead(Reason.EXHAUSTED, failure) if delay is None else RetryAt(delay, failure)


def _asked_for(error: BaseException) -> float | None:
    """The delay that the handler gave, if it gave one."""
    if not isinstance(error, Retry) or error.delay is None:
        return None
    try:
        return _bounded(error.delay)
    except (TypeError, ValueError, OverflowError):
        logger.warning("Retry(delay=%s) is no delay; the retry policy decides", error.delay)
        return None


def _ask(policy: RetryPolicy, attempt: int, error: BaseException) -> float | None:
    try:
        delay = policy(attempt, error)
        return None if delay is None else _bounded(delay)
    except BaseException:  # whatever it raises, the task must be settled
        logger.exception("retry policy %s failed; the default policy decides", policy)
        return Exponential()(attempt, error)


def _bounded(delay: float | timedelta) -> float:
    value = seconds(delay)
    if value != value:  # noqa: PLR0124 - NaN
        raise ValueError("a delay must be a number of seconds or a timedelta; got NaN")
    return min(value, MAX_DELAY)

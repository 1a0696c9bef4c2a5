"""Retry policies: from (attempt that failed, error) to the delay before the next, or nothing.

A policy is any callable of that shape, so it is tested without a server and users write their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

RetryPolicy = Callable[[int, BaseException], float | timedelta | None]
"""(attempt from 1, what it raised) -> seconds or timedelta until the next run; None: no more."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay, in seconds, before each retry."""

    interval: float

    def __call__(self, attempt: int, error: BaseException) -> float:
        return self.interval


@dataclass(frozen=True, slots=True)
class Exponential:
    """``initial * multiplier ** (attempt - 1)`` seconds, at most ``maximum``, spread by jitter.

    Jitter j picks evenly from the delay times (1 - j) to (1 + j), never above ``maximum``; it keeps
    tasks that failed together from coming back together.
    """

    initial: float = 1.0
    maximum: float = 60.0
    multiplier: float = 2.0
    jitter: float = 0.1

    def __call__(self, attempt: int, error: BaseException) -> float:
        try:
            delay = self.initial * self.multiplier ** (attempt - 1)
        except OverflowError:
            delay = self.maximum
        delay = min(delay, self.maximum)
        if self.jitter:
            delay *= random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - no secret
        return min(delay, self.maximum)


def seconds(delay: float | timedelta) -> float:
    """A delay as seconds, never negative."""
    value = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    return max(value, 0.0)

"""What running a task ends in: a value, which one other place turns into a change in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a task was dead-lettered."""

    EXHAUSTED = "exhausted"
    REJECTED = "rejected"
    WORKER_LOST = "worker_lost"
    MISSING_PAYLOAD = "missing_payload"
    INVALID_PAYLOAD = "invalid_payload"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, bounded in size (see :func:`django_redq.consumer.failure.describe`)."""

    exception_type: str
    """Dotted name of the exception's class."""
    error: str
    """The message, one line or several."""
    traceback: str
    """The end of the traceback; empty where there is none."""
    attempt: int
    """The attempt that failed, from 1."""
    at: int
    """When, in ms since the epoch, by the consumer's clock."""


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned: acknowledge."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """The attempt failed and another is due: back to SCHEDULED."""

    delay: float
    """Seconds from now, by Redis' clock."""
    failure: Failure


@dataclass(frozen=True, slots=True)
class Dead:
    """No attempt is left, or none would help: to the dead letters."""

    reason: Reason
    failure: Failure


@dataclass(frozen=True, slots=True)
class Release:
    """It was not run: hand it back, the attempt not spent."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A stream entry that stands for no task (garbage, or a second entry of one): remove it."""

    why: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave it pending as it is (``MISSING_PAYLOAD`` keep_pending)."""

    why: str


Outcome = Done | RetryAt | Dead | Release | Drop | Keep

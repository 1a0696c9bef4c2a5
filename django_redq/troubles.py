"""What of a queue needs a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from django_redq.queue_stats import QueueStats

LATE = 5.0
"""Seconds: a scheduler moves what is due within its tick, and a standby takes over within a LEASE_TTL."""
SLOW_START = 60.0
"""Seconds that the first READY task waits before consumers are too few; a burst may take a while."""


class TroubleCode(StrEnum):
    """What is wrong."""

    UNREACHABLE = "unreachable"
    """Shards do not answer; ``number`` of them."""
    NO_CONSUMER = "no_consumer"
    """Nobody takes tasks from the queue."""
    NO_SCHEDULER = "no_scheduler"
    """Shards are served by no scheduler; ``number`` of them."""
    LATE = "late"
    """The first due task is overdue by ``number`` seconds."""
    SLOW_START = "slow_start"
    """The first ready task has waited for ``number`` seconds."""
    DYING = "dying"
    """Tasks died in the last hour; ``number`` of them."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that needs a person."""

    code: TroubleCode
    number: float


def troubles_of(stats: QueueStats) -> tuple[Trouble, ...]:
    """What of this queue needs a person, the worst first. That it is paused is somebody's wish."""
    return tuple(_find(stats))


def _find(stats: QueueStats) -> Iterator[Trouble]:
    if stats.unreachable:
        yield Trouble(TroubleCode.UNREACHABLE, len(stats.unreachable))
    if not stats.paused and not any(one.alive for one in stats.consumers):
        yield Trouble(TroubleCode.NO_CONSUMER, 0)
    unserved = sum(one.lease_holder is None for one in stats.shards)
    if unserved:
        yield Trouble(TroubleCode.NO_SCHEDULER, unserved)
    if stats.lateness is not None and stats.lateness > LATE:
        yield Trouble(TroubleCode.LATE, stats.lateness)
    waited = stats.oldest_ready_age
    if not stats.paused and waited is not None and waited > SLOW_START:
        yield Trouble(TroubleCode.SLOW_START, waited)
    died = sum(minute.died for minute in stats.last_hour)
    if died and stats.dead:
        yield Trouble(TroubleCode.DYING, died)

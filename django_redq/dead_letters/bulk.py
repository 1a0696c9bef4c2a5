"""What a person sees of work on many dead letters, which goes on when nobody waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class BulkAction(StrEnum):
    """What is done to the letters."""

    REPLAY = "replay"
    DISCARD = "discard"


class BulkState(StrEnum):
    """How far it is. Nothing leads back from the last two."""

    WAITING = "waiting"
    """No scheduler has begun with it."""
    RUNNING = "running"
    STOPPED = "stopped"
    """Somebody ended it before it was through."""
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """A replay or discard of many dead letters, carried on by the queue's schedulers in small steps.

    The counts are of one moment a shard, and exact, whatever process dies at whatever line.
    """

    id: str
    queue: str
    action: BulkAction
    state: BulkState
    which: Mapping[str, Any]
    """Which letters, by the arguments it was begun with; times aware, in UTC."""
    run_at: datetime | None
    """When the replayed tasks are due, in UTC, or the first of them where they are spread; None: as
    they are replayed."""
    spread: float | None
    """Seconds over which they are spread evenly; None: all are due at once."""
    by: str
    """Who began it, in the words of the caller."""
    expected: int | None
    """How many letters it was about when it began; None where nobody counted."""
    expected_exact: bool
    """False: there were at least so many."""
    looked_at: int
    """Letters looked at so far, those that are not meant included."""
    changed: int
    """Letters replayed or discarded so far."""
    gone: int
    """Letters that no task is dead by, so that there was nothing to replay."""
    missing: int
    """Letters that cannot be replayed, for the payload is missing."""
    begun_at: datetime
    ended_at: datetime | None
    shards: int
    """Shards whose letters it is about."""
    shards_done: int
    unreachable: tuple[int, ...]
    """Shards that did not answer; what was done there is not in the counts."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in {BulkState.STOPPED, BulkState.DONE}

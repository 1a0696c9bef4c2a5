"""A task as it was handed to a consumer, with the token that proves it."""

from __future__ import annotations

from dataclasses import dataclass

from django_redq.broker.state import NEW, State


@dataclass(slots=True, eq=False)
class Delivery:
    """One entry that a consumer holds. (entry ID, consumer, count) is its token."""

    queue: str
    shard: int
    task_id: str
    """Empty where the entry names no task."""
    entry_id: str
    count: int
    """How often this entry was delivered; part of the token, so it never changes behind Redis' back."""
    record: bytes | None
    """The task as enqueued; None where its payload is missing or not loaded."""
    state: State = NEW
    what: str = "task"
    """``task``, ``suspect`` (runs alone), ``second`` (the task lives in another entry), ``later``
    (its record is yet to be loaded)."""

    @property
    def attempt(self) -> int:
        """The run that this delivery is, from 1."""
        return self.state.attempts + self.count

    @property
    def is_last_chance(self) -> bool:
        """Whether this is the last run of a task that has lost a worker: it runs alone."""
        return self.state.lost and self.attempt >= self.state.allowed

    @property
    def place(self) -> tuple[str, int, str]:
        """What names it in this process."""
        return self.queue, self.shard, self.entry_id


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A pending entry as the recoverer sees it."""

    delivery: Delivery
    owner: str
    in_stream: bool


@dataclass(frozen=True, slots=True)
class FetchItem:
    """What one shard answered to a fetch."""

    queue: str
    shard: int
    deliveries: tuple[Delivery, ...] = ()
    parked_for: float | None = None
    """Seconds that the longest parked suspect has waited; None where none is parked."""
    paused: bool = False
    error: str | None = None

"""What this process holds, and how much more it may take."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from django_redq.broker.delivery import Delivery
from django_redq.outcome import Outcome
from django_redq.task import Ownership, Task

ASIDE = 0.5
"""Seconds between tries to settle what belongs to a shard that is away."""

Place = tuple[str, int, str]


@dataclass(slots=True, eq=False)
class Held:
    """A delivery in this process' hands, from its arrival until it is settled."""

    delivery: Delivery
    recovered: bool = False
    ownership: Ownership = field(default_factory=Ownership)
    task: Task[Any] | None = None
    """Set once it is decoded."""
    kind: str = ""
    """Set once the record is read."""
    key: str = ""
    """Its idempotency key, once the record is read."""
    taken_at: float = field(default_factory=time.time)
    """Seconds since the epoch."""
    outcome: Outcome | None = None
    """Set once it is finished; until it is settled it is held and renewed all the same."""
    died_on: str = ""
    """The consumer whose run was its last, once it is dead."""
    letter_id: str = ""
    """The entry ID of its dead letter, once that is written."""
    cancel: Callable[[], None] | None = None
    """Ends an async run whose ownership is lost."""
    was_tried: bool = False
    """Settling it was tried before, and whether that was done is not known."""
    given_up: bool = False
    """We cancel its run, or would if there were one: what it ends in is not settled."""

    def lose(self) -> None:
        """Another consumer may have it from here on."""
        self.ownership.lost = True
        self.given_up = True
        if self.cancel is not None:
            self.cancel()


GATE = threading.RLock()
"""Held while tasks are taken, so that two consumers of one process cannot take a suspect and
something else at the same time."""
_tables: WeakSet[Table] = WeakSet()
_tables_lock = threading.Lock()


def _all_tables() -> list[Table]:
    # A set must not grow while it is gone through.
    with _tables_lock:
        return list(_tables)


def process_is_empty() -> bool:
    """Whether no consumer of this process holds a task."""
    return all(table.is_empty for table in _all_tables())


def process_has_aside() -> bool:
    """Whether something that is done here waits for a shard that is away."""
    return any(table.has_aside for table in _all_tables())


def process_runs_suspect() -> bool:
    """Whether a suspect runs here, so that nothing else may be taken."""
    return any(table.has_suspect for table in _all_tables())


class Table:
    """The tasks that one consumer holds; safe to use from every thread."""

    def __init__(self, capacity: int, on_finished: Callable[[], None]) -> None:
        self._capacity = capacity
        self._on_finished = on_finished
        self._lock = threading.Lock()
        self._held: dict[Place, Held] = {}
        self._reserved = 0
        self._recovered = 0
        self._suspects = 0
        self._suspects_aside = 0
        self._is_awaited = False
        """Whether recovered tasks wait, be it for a slot or because of their limit."""
        self._is_kept = False
        """Whether a slot is kept for one of them, if it is their turn."""
        self._is_their_turn = True
        self.on_room: Callable[[], None] | None = None
        """See :meth:`reserve_for_recovered`."""
        self._finished: deque[Held] = deque()
        self._aside: deque[tuple[float, Held]] = deque()
        self._closed = False
        with _tables_lock:
            _tables.add(self)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing and expects nothing."""
        return not self._held and not self._reserved

    @property
    def has_room(self) -> bool:
        """Whether it may take more."""
        return self._free > 0 and not process_runs_suspect()

    @property
    def has_suspect(self) -> bool:
        """Whether it holds a task that must be alone, and is not through with it."""
        return self._suspects > self._suspects_aside

    @property
    def has_finished(self) -> bool:
        """Whether something waits to be settled."""
        return bool(self._finished) or self._is_over(time.monotonic())

    @property
    def has_aside(self) -> bool:
        """Whether something cannot be settled as long as its shard is away."""
        return bool(self._aside)

    @property
    def _free(self) -> int:
        # What is done and only waits for its shard keeps nobody from working for the others.
        return self._capacity - (len(self._held) - len(self._aside)) - self._reserved

    def __len__(self) -> int:
        return len(self._held)

    def reserve(self, wanted: int) -> int:
        """Keeps up to ``wanted`` free slots for what is about to arrive; how many it got.

        Where recovered tasks wait for slots, the two take turns: none starves the other.
        """
        kept = self._is_kept and self._is_their_turn
        granted = self._reserve(wanted, kept)
        self._is_their_turn = self._is_their_turn or granted > 0
        return granted

    def reserve_for_recovered(self, wanted: int, limit: int | None) -> int:
        """The same for recovered tasks, of which it may hold ``limit`` (None: as many as others).

        Where it got fewer, ``on_room`` is called when something leaves, until :meth:`await_none`.
        """
        most = self._capacity if limit is None else limit - self._recovered
        granted = self._reserve(min(wanted, most), 0)
        self._is_awaited = granted < wanted
        self._is_kept = granted < min(wanted, most)
        self._is_their_turn = self._is_their_turn and not granted
        return granted

    def await_none(self) -> None:
        """No recovered task waits for a slot any more."""
        if self._is_awaited:
            self._is_awaited = self._is_kept = False
            # The slot that was kept for it is anybody's now.
            self._on_finished()

    def _reserve(self, wanted: int, kept: int) -> int:
        if process_runs_suspect():
            return 0
        with self._lock:
            granted = max(min(wanted, self._free - kept), 0)
            self._reserved += granted
            return granted

    def unreserve(self, count: int) -> None:
        """Gives reserved slots back; what arrived was added before."""
        with self._lock:
            self._reserved -= count

    def get(self, delivery: Delivery) -> Held | None:
        """The task held under this entry, if any."""
        return self._held.get(delivery.place)

    def add(self, held: Held) -> None:
        """Takes a delivery in."""
        with self._lock:
            self._held[held.delivery.place] = held
            self._recovered += held.recovered
            self._suspects += held.delivery.is_last_chance

    def remove(self, held: Held) -> None:
        """Lets a task go: it is settled, or somebody else's."""
        with self._lock:
            if self._held.pop(held.delivery.place, None) is not None:
                self._recovered -= held.recovered
                self._suspects -= held.delivery.is_last_chance
        if self._is_awaited and self.on_room is not None:
            self.on_room()

    def snapshot(self) -> list[Held]:
        """All that is held now."""
        with self._lock:
            return list(self._held.values())

    def finish(self, held: Held, outcome: Outcome) -> None:
        """Notes how a task ended, for the settler."""
        held.outcome = outcome
        self._finished.append(held)
        if self._closed:
            self._let_go_of_finished()
        self._on_finished()

    def close(self) -> None:
        """Nobody settles any more: what has finished, now or later, is held no longer.

        It stays pending for others, and the process may be empty for a suspect once it runs nothing.
        """
        self._closed = True
        self._let_go_of_finished()

    def _let_go_of_finished(self) -> None:
        # Several threads may finish at the same time.
        with contextlib.suppress(IndexError):
            while True:
                self.remove(self._take_aside())
        with contextlib.suppress(IndexError):
            while True:
                self.remove(self._finished.popleft())

    def take_finished(self, limit: int) -> list[Held]:
        """Finished tasks that wait to be settled, oldest first."""
        finished = self._finished
        now = time.monotonic()
        while self._is_over(now):
            finished.append(self._take_aside())
        return [finished.popleft() for _ in range(min(limit, len(finished)))]

    def put_back(self, unsettled: Iterable[Held]) -> None:
        """They could not be settled this time."""
        self._finished.extendleft(reversed(_tried(unsettled)))

    def put_aside(self, unsettled: Iterable[Held]) -> None:
        """Their shard is away while others are not: they are settled when it is back."""
        until = time.monotonic() + ASIDE
        for held in _tried(unsettled):
            self._aside.append((until, held))
            self._suspects_aside += held.delivery.is_last_chance

    def _take_aside(self) -> Held:
        held = self._aside.popleft()[1]
        self._suspects_aside -= held.delivery.is_last_chance
        return held

    def _is_over(self, now: float) -> bool:
        return bool(self._aside) and self._aside[0][0] <= now


def _tried(unsettled: Iterable[Held]) -> list[Held]:
    tried = list(unsettled)
    for held in tried:
        held.was_tried = True
    return tried

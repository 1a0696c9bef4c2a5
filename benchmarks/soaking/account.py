"""The account: every task from the ledger's first word of it to the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from soaking.ledger import Note

SLACK = 1.0
"""Seconds by which the writing of two processes may differ in time."""
GRACE = 10.0
"""Seconds after a freeze or a restart in which what was begun before may still be done again."""


@dataclass(slots=True)
class Run:
    """One run of a task."""

    who: str
    began: float
    how: str = ""
    """How it ended; '' where nobody ever said."""


@dataclass(slots=True)
class Fate:
    """What became of one task."""

    kind: str
    due: float
    accepted: bool = False
    cancelled: bool = False
    discarded: bool = False
    doubled: bool = False
    """The caretaker has seen two letters of it at a time."""
    runs: list[Run] = field(default_factory=list)
    deaths: set[str] = field(default_factory=set)
    """Entry IDs of its dead letters."""

    @property
    def done(self) -> int:
        """How often its work was done."""
        return sum(run.how == "done" for run in self.runs)

    @property
    def is_lost(self) -> bool:
        return self.accepted and not (self.cancelled or self.discarded or self.done)

    @property
    def died_twice(self) -> bool:
        """Only for those that nobody replays."""
        return self.kind == "hopeless" and len(self.deaths) > 1


@dataclass(slots=True)
class Blow:
    """What was done to a process, or to Redis."""

    what: str
    whom: str
    at: float
    over: float
    """When it was thawed, or back."""


class Account:
    """Takes the notes in, one by one, and answers what they come to."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.blows: list[Blow] = []
        self.counts: Counter[str] = Counter()
        self.pids: dict[str, int] = {}
        """Of the latest life of each process, by its name without the number."""
        self._open: dict[tuple[str, str], Run] = {}

    def take(self, notes: Iterable[Note]) -> None:
        for note in notes:
            if note.what == "up":
                self.pids[note.who.partition(".")[0]] = int(note.name)
            elif note.what in {"kill", "freeze", "thaw", "restart", "back"}:
                self._take_blow(note)
            elif note.what == "bulk":
                self.counts["bulks"] += 1
                self.counts["replayed"] += int(note.name)
            else:
                self._take_fate(note)

    def _take_blow(self, note: Note) -> None:
        if note.what in {"thaw", "back"}:
            last = next(one for one in reversed(self.blows) if one.whom == note.name)
            last.over = note.at
        else:
            over = note.at if note.what == "kill" else float("inf")
            self.blows.append(Blow(note.what, note.name, note.at, over))

    def _take_fate(self, note: Note) -> None:
        self.counts[note.what] += 1
        if note.what == "want":
            kind, due = note.detail.split()
            self.fates[note.name] = Fate(kind, float(due))
            return
        fate = self.fates[note.name]
        if note.what == "run":
            run = self._open[note.name, note.who] = Run(note.who, note.at)
            fate.runs.append(run)
        elif note.what in {"done", "failed", "broken"}:
            self._open.pop((note.name, note.who)).how = note.what
        elif note.what == "dead":
            fate.deaths.add(note.detail.partition(" ")[0])
        elif note.what in {"accepted", "cancelled", "doubled"}:
            setattr(fate, note.what, True)
        elif note.what == "discarding":
            fate.discarded = True

    # --- what it comes to ----------------------------------------------------------------------

    def lost(self) -> list[str]:
        """Accepted, and neither done, nor cancelled, nor discarded by the caretaker."""
        return [name for name, fate in self.fates.items() if fate.is_lost]

    def unwanted(self) -> list[str]:
        """Run, although a producer was answered that it is cancelled."""
        return [name for name, fate in self.fates.items() if fate.cancelled and fate.runs]

    def doubled(self) -> list[str]:
        """With two dead letters at a time."""
        return [name for name, fate in self.fates.items() if fate.doubled or fate.died_twice]

    def died(self) -> int:
        """Tasks that were dead once or more."""
        return sum(bool(fate.deaths) for fate in self.fates.values())

    def broken_off(self) -> int:
        """Runs of which no end was noted."""
        return sum(not run.how for fate in self.fates.values() for run in fate.runs)

    def duplicates(self) -> tuple[int, list[str]]:
        """(work done beyond the first time, those of it that no blow explains)."""
        found, strange = 0, []
        for name, fate in self.fates.items():
            for first, second in pairwise(run for run in fate.runs if run.how == "done"):
                found += 1
                if not self._explained(first, second):
                    strange.append(name)
        return found, strange

    def _explained(self, first: Run, second: Run) -> bool:
        parties = {first.who, second.who, "redis"}
        return any(
            blow.whom in parties
            and blow.at <= second.began + SLACK
            and blow.over >= first.began - GRACE
            for blow in self.blows
        )

    def recoveries(self) -> dict[str, list[float]]:
        """Seconds until work that a blow had stopped went on, by the kind of the blow.

        Of a consumer: until the last of what it held runs again. Of a scheduler: how late the latest
        task was that became due then. Of Redis: until the next run begins, from its being back.
        """
        found: dict[str, list[float]] = {"consumer": [], "scheduler": [], "redis": []}
        for blow in self.blows:
            part = blow.whom.partition("-")[0]
            if part in found:
                found[part] += list(getattr(self, f"_after_{part}")(blow))
        return found

    def _after_consumer(self, blow: Blow) -> Iterator[float]:
        waited = [
            later.began - blow.at
            for fate in self.fates.values()
            for first, later in pairwise(fate.runs)
            if first.who == blow.whom and not first.how and first.began <= blow.at < later.began
        ]
        if waited and blow.what == "kill":
            yield max(waited)

    def _after_scheduler(self, blow: Blow) -> Iterator[float]:
        late = [
            fate.runs[0].began - fate.due
            for fate in self.fates.values()
            if fate.runs and blow.at <= fate.due <= blow.at + GRACE
        ]
        if late:
            yield max(late)

    def _after_redis(self, blow: Blow) -> Iterator[float]:
        begun = [
            run.began - blow.over
            for fate in self.fates.values()
            for run in fate.runs[-2:]
            if run.began >= blow.over
        ]
        if begun:
            yield min(begun)

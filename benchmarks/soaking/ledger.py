"""The ledger: what was promised, done and broken, a line each, as it happens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Note:
    """One line.

    ``what`` is one of

    - ``want``: a producer is about to enqueue it; detail: kind, and when it is due (s, or 0)
    - ``accepted``, ``cancelled``, ``uncancelled``: what a producer was answered
    - ``unsure``: it was answered with an error; detail: which
    - ``run``, ``done``, ``failed``, ``broken``: a run began, detail: its attempt; and how it ended
    - ``dead``: a consumer was told so; detail: entry ID and reason of the letter
    - ``discarding``, ``replayed``, ``doubled``: the caretaker, on a dead letter
    - ``bulk``: the caretaker, of a bulk replay that is over; name: how many it replayed
    - ``up``: a process is there; name: its pid
    - ``kill``, ``freeze``, ``thaw``, ``restart``, ``back``: a blow; name: whom it hits
    """

    at: float
    """Seconds since the epoch."""
    what: str
    who: str
    """The process that writes it, with the number of its life: ``consumer-1.3``."""
    name: str
    detail: str


class Ledger:
    """Appends to the file; one object a process, safe for its threads."""

    def __init__(self, path: Path, who: str) -> None:
        self.path = path
        self.who = who
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @classmethod
    def here(cls) -> Ledger:
        """That of a process which soak.py has started."""
        return cls(Path(os.environ["SOAK_LEDGER"]), os.environ["SOAK_WHO"])

    def note(self, what: str, name: str, detail: str = "") -> None:
        """One write of one line: lines of several processes are not mixed up."""
        line = f"{time.time():.3f} {what} {self.who} {name} {detail}\n"
        os.write(self._descriptor, line.encode())


class Reader:
    """Reads what has come since the last time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def read(self) -> Iterator[Note]:
        while block := self._file.read(1 << 20):
            *lines, self._rest = (self._rest + block).split(b"\n")
            for line in lines:
                at, what, who, name, detail = line.decode().split(" ", 4)
                yield Note(float(at), what, who, name, detail)

    def close(self) -> None:
        self._file.close()

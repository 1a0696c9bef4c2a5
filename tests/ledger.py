"""What handlers in other processes did, kept outside of the Redis that they work on.

A file to which each appends a line as it happens, so that what a killed process did is there, and
what the Redis under attack forgot is, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import until

VARIABLE = "REDQ_TEST_LEDGER"


@dataclass(frozen=True)
class Note:
    """One thing that a handler did."""

    what: str
    task_id: str
    kind: str
    attempt: int
    pid: int


class Ledger:
    """The file, and a gate beside it that handlers wait for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._gate = path.with_suffix(".gate")
        self.accepted: set[str] = set()
        """IDs of the tasks that the test has enqueued, and that Redis has accepted."""

    @classmethod
    def here(cls) -> Ledger:
        """That of the process that a test has started."""
        return cls(Path(os.environ[VARIABLE]))

    @property
    def environ(self) -> dict[str, str]:
        """For ``redq.spawn``."""
        return {VARIABLE: str(self.path)}

    def note(self, what: str, task: Any) -> None:
        """Appends a line, whole: O_APPEND writes of this size are not mixed up."""
        line = f"{what} {task.id} {task.kind or '-'} {task.attempt} {os.getpid()}\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def all(self) -> list[Note]:
        """Everything that was noted, in order."""
        if not self.path.exists():
            return []
        # What is being written at this moment may be seen in part.
        whole, _, _ = self.path.read_text().rpartition("\n")
        parts = [line.split() for line in whole.splitlines()]
        return [
            Note(what, task_id, "" if kind == "-" else kind, int(attempt), int(pid))
            for what, task_id, kind, attempt, pid in parts
        ]

    def of(self, what: str, **fields: Any) -> list[Note]:
        """The notes of this kind whose fields are these."""
        return [
            note
            for note in self.all()
            if note.what == what
            and all(getattr(note, name) == value for name, value in fields.items())
        ]

    def done(self) -> set[str]:
        """The tasks whose work was done, once or more."""
        return {note.task_id for note in self.of("done")}

    def missing(self) -> set[str]:
        """What was accepted and not done."""
        return self.accepted - self.done()

    def wait_for(self, what: str, count: int = 1, **fields: Any) -> list[Note]:
        """Waits until there are that many such notes."""
        until(lambda: len(self.of(what, **fields)) >= count)
        return self.of(what, **fields)

    def open(self) -> None:
        """Lets the held handlers go."""
        self._gate.touch()

    def is_open(self) -> bool:
        return self._gate.exists()

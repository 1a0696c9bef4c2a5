"""The part of a task that changes: ``<attempts> <lost> <allowed> <came from> <failures>``.

Text rather than JSON, so that scripts read its numbers with a pattern and never touch the failures,
which go back to a person as they were written.
"""

from __future__ import annotations

from dataclasses import dataclass

_NOWHERE = b"-"


@dataclass(frozen=True, slots=True)
class State:
    """What is kept of a task between its deliveries."""

    attempts: int = 0
    """Runs spent before the entry that is in the stream now."""
    lost: bool = False
    """A worker vanished while it held the task."""
    allowed: int = 0
    """Runs that the task gets in all, as resolved when the state was written."""
    came_from: bytes = _NOWHERE
    """The entry that the last retry, dead letter or replay left: how a resend knows its own work."""
    failures: bytes = b""
    """The last failures as JSON."""

    def encode(self) -> bytes:
        """As kept in the ``state`` hash."""
        head = b"%d %d %d %s " % (self.attempts, self.lost, self.allowed, self.came_from)
        return head + self.failures


NEW = State()


def decode_state(raw: bytes | None) -> State:
    """The state of a field; what is missing or garbled counts as new."""
    if not raw:
        return NEW
    parts = raw.split(b" ", 4)
    if len(parts) != 5 or not all(part.isdigit() for part in parts[:3]):
        return NEW
    attempts, lost, allowed, came_from, failures = parts
    return State(int(attempts), lost == b"1", int(allowed), came_from, failures)

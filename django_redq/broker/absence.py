"""Which nodes of a Cluster do not answer at the moment, and a thread that asks them until they do."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django_redq.broker import faults
from django_redq.broker.wire import Watchers
from django_redq.lines import get_logger

logger = get_logger("django_redq.cluster")

INTERVAL = 0.5
"""Seconds between two rounds of questions at the least, twice that at the most."""

Look = Callable[[Mapping[str, str]], set[str]]
"""Given the nodes that are away, and of each a key that it did not serve: those that are so no more."""


@dataclass(frozen=True, slots=True)
class _Absence:
    key: str
    error: Exception


class Absences:
    """Whoever finds a node away notes it here, and nobody else waits for it in vain.

    Args:
        look: asks all that are away whether they are back.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._away: dict[str, _Absence] = {}
        self.watchers = Watchers()
        """Told when a node is back."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def nodes(self) -> set[str]:
        """Those that are away."""
        return set(self._away)

    def of(self, node: str) -> faults.Away | None:
        """What to answer in the place of a node that is away; None where it is not."""
        absence = self._away.get(node)
        return None if absence is None else faults.Away.of(node, absence.error)

    def note(self, node: str, key: str, error: Exception) -> faults.Away:
        """Notes that a node is away; what to answer in its place."""
        with self._lock:
            is_new = node not in self._away
            self._away[node] = _Absence(key, error)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="redq-nodes", daemon=True)
                self._thread.start()
        if is_new:
            logger.warning(
                "node %s of the Cluster is away, its shards wait and the others go on: %s",
                node,
                faults.in_words(error),
            )
        return faults.Away.of(node, error)

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL * random.uniform(1, 2)):  # noqa: S311 - no secret
            if self._ask():
                return

    def _ask(self) -> bool:
        """One round; whether it was the last."""
        with self._lock:
            asked = {node: absence.key for node, absence in self._away.items()}
        try:
            back = self._look(asked)
        except Exception:
            # A fault of ours must not leave the nodes away for good.
            logger.exception("asking the nodes failed; it goes on")
            return False
        with self._lock:
            for node in back:
                del self._away[node]
            is_last = not self._away
            if is_last:
                self._thread = None
        for node in sorted(back):
            logger.info("node %s is back, or another has its place", node)
        if back:
            self.watchers.tell()
        return is_last

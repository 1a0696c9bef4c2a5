"""The caretaker: replays dead letters, one by one and in bulk, and discards those that nobody can mend,
until SIGTERM.
"""

from __future__ import annotations

import redis

from django_redq import DeadLetter, DeadLetterNotFound, DeadLetterQueue
from soaking.ledger import Ledger
from soaking.load import PAUSE, own_dice, work_until_sigterm
from soaking.settings import QUEUES

LOOK = 2.0
"""Seconds between two looks."""
FEW = 5
"""Letters up to which they are replayed one by one."""


class Caretaker:
    """Looks after the dead letters of all queues."""

    def __init__(self) -> None:
        self._ledger = Ledger.here()
        self._dice = own_dice()
        self._dead = [DeadLetterQueue(name) for name in QUEUES]
        self._bulks: list[tuple[DeadLetterQueue, str]] = []

    def step(self) -> float:
        """One look; seconds until the next."""
        try:
            for dead, bulk_id in [*self._bulks]:
                self._look_at_bulk(dead, bulk_id)
            for dead in self._dead:
                self._look_after(dead)
        except redis.RedisError:
            return PAUSE
        return LOOK

    def _look_at_bulk(self, dead: DeadLetterQueue, bulk_id: str) -> None:
        bulk = dead.bulk(bulk_id)
        if bulk.is_over:
            self._bulks.remove((dead, bulk_id))
            self._ledger.note("bulk", str(bulk.changed))

    def _look_after(self, dead: DeadLetterQueue) -> None:
        letters = [*dead.list(count=1000)]
        names = [letter.task_id for letter in letters]
        for name in {name for name in names if names.count(name) > 1}:
            self._ledger.note("doubled", name)
        hopeless = [letter for letter in letters if letter.kind == "hopeless"]
        for letter in hopeless:
            self._ledger.note("discarding", letter.task_id)
        dead.discard_letters([letter.ref for letter in hopeless])
        self._replay(dead, [letter for letter in letters if letter.kind != "hopeless"])

    def _replay(self, dead: DeadLetterQueue, letters: list[DeadLetter]) -> None:
        if len(letters) > FEW and all(one is not dead for one, _ in self._bulks):
            bulk = dead.start_replay(spread=self._dice.choice([None, 2]), kind="doomed")
            self._bulks.append((dead, bulk.id))
            return
        for letter in letters[:FEW]:
            try:
                dead.replay(letter.task_id, delay=self._dice.choice([None, 1.5]))
            except DeadLetterNotFound:
                continue  # a bulk was faster
            self._ledger.note("replayed", letter.task_id)


if __name__ == "__main__":
    work_until_sigterm(Caretaker())

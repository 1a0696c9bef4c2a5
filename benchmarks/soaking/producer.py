"""A producer: enqueues a mixture at a steady rate, and cancels some of it, until SIGTERM."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import redis

from django_redq import TaskSpec, cancel, enqueue_many
from django_redq.task import new_task_id
from soaking.ledger import Ledger
from soaking.load import PAUSE, own_dice, work_until_sigterm
from soaking.settings import PENDING_MIN_IDLE, QUEUES

AnswerT = TypeVar("AnswerT")

TICK = 0.1
"""Seconds between two lots."""
MIXTURE = {
    "plain": 40,
    "async": 10,
    "delayed": 20,
    "flaky": 10,
    "doomed": 5,
    "hopeless": 3,
    "cancelled": 8,
    "lot": 0.5,
    "long": 0.1,
}
"""What is enqueued, and how much of each; a lot is many plain ones at once."""
LOT = 20
HANDLED = {"async", "flaky", "doomed", "hopeless"}
"""Those that have a handler of their own."""


class Producer:
    """Remembers what it is to cancel, and when."""

    def __init__(self) -> None:
        self._ledger = Ledger.here()
        self._rate = float(os.environ["SOAK_RATE"])
        self._dice = own_dice()
        self._to_cancel: list[tuple[float, str, str]] = []
        self._owed = 0.0

    def step(self) -> float:
        """A lot of tasks; seconds until the next."""
        self._owed += self._rate * TICK
        while self._owed >= 1:
            [what] = self._dice.choices([*MIXTURE], [*MIXTURE.values()])
            count = LOT if what == "lot" else 1
            self._owed -= count
            self._produce(what, count)
        now = time.time()
        for one in [one for one in self._to_cancel if one[0] <= now]:
            self._to_cancel.remove(one)
            self._cancel(*one[1:])
        return TICK

    def _produce(self, what: str, count: int) -> None:
        dice, now = self._dice, time.time()
        queue = dice.choice(QUEUES)
        delay = dice.uniform(0.5, 15) if what in {"delayed", "cancelled"} else None
        payload = {
            "takes": 2.5 * PENDING_MIN_IDLE if what == "long" else dice.uniform(0, 0.15),
            "mended_at": now + dice.uniform(3, 20),
            "note": "x" * 200,
        }
        kind = what if what in HANDLED else ""
        specs = [
            TaskSpec(payload, task_id=new_task_id(), kind=kind, delay=delay) for _ in range(count)
        ]
        names = [spec.task_id for spec in specs if spec.task_id]
        for name in names:
            self._ledger.note("want", name, f"{what} {now + delay if delay else 0:.3f}")
        if self._asked(names, lambda: enqueue_many(queue, specs)) is None:
            return
        for name in names:
            self._ledger.note("accepted", name)
        if what == "cancelled":
            self._to_cancel.append((now + dice.uniform(0.3, 15), queue, names[0]))

    def _cancel(self, queue: str, name: str) -> None:
        answer = self._asked([name], lambda: cancel(queue, name))
        if answer is not None:
            self._ledger.note("cancelled" if answer.canceled else "uncancelled", name)

    def _asked(self, names: Sequence[str], ask: Callable[[], AnswerT]) -> AnswerT | None:
        """What Redis answered, if it did; what is not known is noted."""
        try:
            return ask()
        except redis.RedisError as error:
            for name in names:
                self._ledger.note("unsure", name, type(error).__name__)
            time.sleep(PAUSE)
            return None


if __name__ == "__main__":
    work_until_sigterm(Producer())

"""What producers and the operator share: their dice, and how they run."""

from __future__ import annotations

import os
import random
import signal
import threading
from typing import Protocol

import django

PAUSE = 0.5
"""Seconds of rest after Redis did not answer."""


class Worker(Protocol):
    """One that takes steps."""

    def step(self) -> float:
        """One step; seconds until the next."""


def own_dice() -> random.Random:
    """The same in each life of a process of this name, for one seed."""
    return random.Random(f"{os.environ['SOAK_SEED']} {os.environ['SOAK_WHO']}")  # noqa: S311 - no secret


def work_until_sigterm(worker: Worker) -> None:
    """Steps until it is told to end, and is through with the step that it is in."""
    django.setup()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.wait(worker.step()):
        pass

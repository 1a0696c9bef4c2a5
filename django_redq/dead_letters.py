"""Dead letters: list, replay, discard, purge (being written)."""

from __future__ import annotations

from collections.abc import Callable

from django_redq.broker.sync import Broker
from django_redq.conf import QueueConfig


def trim(
    broker: Broker,
    queue: QueueConfig,
    held: set[int],
    limit: int,
    now: Callable[[], float] | None,
) -> int:
    """Removes dead letters beyond the queue's age or number, of the shards held; how many."""
    return 0

"""When ``redq_consume --burst`` is through, and what it says then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django_redq.broker import faults
from django_redq.lines import get_logger
from django_redq.queue import Queue
from django_redq.queue_stats import QueueStats

logger = get_logger("django_redq.command")


class Burst:
    """Looks at the queues until nothing in them is READY or RUNNING, here or elsewhere.

    Args:
        queues: their names.
        promoting: a scheduler runs beside, so that what is due is waited for as well.
    """

    def __init__(self, queues: Sequence[str], *, promoting: bool) -> None:
        self._queues = [Queue(name) for name in queues]
        self._promoting = promoting
        self._said_paused: set[str] = set()
        self._scheduled = 0

    def is_over(self) -> bool:
        """Whether nothing is left to wait for; a Redis that is away is waited for.

        Raises:
            redis.RedisError: Redis refuses to say.
        """
        try:
            stats = [queue.stats() for queue in self._queues]
        except faults.REDIS_ERRORS as error:
            if not faults.is_outage(error):
                raise
            return False
        self._scheduled = sum(one.scheduled for one in stats)
        return sum(map(self._has_work, stats)) == 0

    def _has_work(self, stats: QueueStats) -> bool:
        if stats.paused:
            self._say_paused(stats)
            return False
        due = self._promoting and stats.lateness is not None
        return stats.ready + stats.running > 0 or due

    def _say_paused(self, stats: QueueStats) -> None:
        if stats.queue not in self._said_paused:
            self._said_paused.add(stats.queue)
            logger.warning(
                "queue %r is paused and not waited for; %d task(s) are ready in it",
                stats.queue,
                stats.ready,
            )

    def summary(self, counts: Mapping[str, int]) -> str:
        """The last line: what became of the tasks, and what is left for later."""
        done, retried, dead = (counts.get(name, 0) for name in ("Done", "RetryAt", "Dead"))
        later = f"{self._scheduled} scheduled for later"
        return f"burst over: {done} done, {retried} to be retried, {dead} dead; {later}"

"""What a consumer works by, resolved from its queues' settings and what the caller gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django_redq.broker.calls import Shard, clock
from django_redq.broker.sync import shards_for
from django_redq.conf import Config, QueueConfig, override_queue
from django_redq.errors import ConfigurationError
from django_redq.service import unique_name

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Options:
    """One consumer's settings. What several queues say differently is resolved so that each gets
    no less than it asks for.
    """

    queues: dict[str, QueueConfig]
    name: str
    """This process' consumer name, unique by its random suffix."""
    concurrency: int
    prefetch: int
    read_count: int
    block_timeout: float
    recovery_interval: float
    recovery_concurrency: int | None
    shutdown_timeout: float
    shards: tuple[Shard, ...]
    """Every shard of every queue."""
    now: Clock | None

    @property
    def capacity(self) -> int:
        """How many tasks it holds at most."""
        return self.concurrency + self.prefetch

    def now_text(self) -> str:
        """The scripts' ``now``."""
        return clock(None if self.now is None else int(self.now() * 1000))

    @property
    def renew_interval(self) -> float:
        """Seconds between renewals: a third of the shortest PENDING_MIN_IDLE."""
        return min(queue.pending_min_idle for queue in self.queues.values()) / 3


def resolve(
    config: Config, names: Sequence[str], *, name: str | None, now: Clock | None, **changes: Any
) -> Options:
    """The options for these queues; ``changes`` (None: not given) beat their settings.

    Raises:
        UnknownQueue: a name is none of ``REDQ["QUEUES"]``.
        ConfigurationError: a change breaks its rule, or no queue is named.
    """
    if not names:
        raise ConfigurationError("a consumer needs at least one queue; name it")
    queues = {
        queue: override_queue(config.queue(queue), **changes) for queue in dict.fromkeys(names)
    }
    each = list(queues.values())
    limits = [q.recovery_concurrency for q in each if q.recovery_concurrency is not None]
    return Options(
        queues=queues,
        name=unique_name(name, "name"),
        concurrency=max(queue.concurrency for queue in each),
        prefetch=max(queue.prefetch for queue in each),
        read_count=max(queue.read_count for queue in each),
        block_timeout=min(queue.block_timeout for queue in each),
        recovery_interval=min(queue.recovery_interval for queue in each),
        recovery_concurrency=min(limits) if limits else None,
        shutdown_timeout=max(queue.shutdown_timeout for queue in each),
        shards=tuple(shard for queue in each for shard in shards_for(config, queue)),
        now=now,
    )

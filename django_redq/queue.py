"""One queue as those see it who look after it: how full it is, paused or not, run this task now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django_redq.broker import calls, operator_calls
from django_redq.broker.calls import Call
from django_redq.broker.inspector import SeenConsumer, ShardStats, run_all, stats_of
from django_redq.broker.keys import shard_of
from django_redq.broker.sync import Broker, get_broker, shards_for
from django_redq.task import check_task_id
from django_redq.twins import blocks, twin

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """A queue's shards added up. Each shard is as of one moment, so no task is counted twice."""

    queue: str
    scheduled: int
    ready: int
    running: int
    dead: int
    """Dead letters that lie there now."""
    succeeded: int
    """Tasks acknowledged since the queue was first used."""
    retried: int
    """Failed runs since then that were given another."""
    died: int
    """Tasks dead-lettered since then, replayed ones included."""
    oldest_ready_age: float | None
    """Seconds that the first READY task has waited; None where none is READY."""
    lateness: float | None
    """Seconds since the first SCHEDULED task was due; None where none is due. Beyond a second or
    two, no scheduler keeps up."""
    paused: bool
    """Whether it, or a shard of it, is paused."""
    consumers: tuple[SeenConsumer, ...]
    """Those that Redis knows, by name; those long dead are forgotten in time."""
    lease_holders: tuple[str, ...]
    """The schedulers that serve it, by name."""
    shards: tuple[ShardStats, ...]


class Queue:
    """One queue: pause it, resume it, run a task now, see how full it is.

        queue = Queue("email")
        stats = queue.stats()
        print(stats.ready, stats.oldest_ready_age, [shard.lease_holder for shard in stats.shards])

    Each method has an async twin: ``apause``, ``aresume``, ``arun_now``, ``astats``.

    Args:
        name: one of ``REDQ["QUEUES"]``.
        now: seconds since the epoch, what the scripts take for the time; None: Redis' own clock.
        broker: the connection to use; None: that of the settings.

    Raises:
        UnknownQueue: ``REDQ`` has no such queue.
    """

    def __init__(
        self, name: str, *, now: Clock | None = None, broker: Broker | None = None
    ) -> None:
        self._broker = broker or get_broker()
        self._settings = self._broker.config.queue(name)
        self._shards = shards_for(self._broker.config, self._settings)
        self._now = now

    @property
    def name(self) -> str:
        return self._settings.name

    @blocks
    def pause(self) -> bool:
        """Has consumers take nothing more from it; what runs goes on, what comes in is kept.

        Returns:
            False where it was paused already.

        Raises:
            redis.RedisError: Redis did not answer, or refuses; some shards may be paused.
        """
        return self._set_paused(paused=True)

    @blocks
    def resume(self) -> bool:
        """Has consumers go on with it.

        Returns:
            False where it was not paused.

        Raises:
            redis.RedisError: as of :meth:`pause`.
        """
        return self._set_paused(paused=False)

    @blocks
    def run_now(self, task_id: str) -> bool:
        """Makes a SCHEDULED task READY, whenever it is due.

        Returns:
            False where there is no such task that is SCHEDULED.

        Raises:
            InvalidArgument: this is no task ID.
            redis.RedisError: Redis did not answer, or refuses.
        """
        plain = check_task_id(task_id)
        self._broker.open(self._settings)
        shard = self._shards[shard_of(plain, len(self._shards))]
        return self._broker.run(operator_calls.run_now(shard, plain))

    @blocks
    def stats(self) -> QueueStats:
        """How full the queue is, and who works on it.

        Raises:
            redis.RedisError: Redis did not answer, or refuses.
        """
        self._broker.open(self._settings)
        now = calls.clock(None if self._now is None else int(self._now() * 1000))
        return _sum(self.name, stats_of(self._broker, self._shards, now))

    apause = twin(pause)
    aresume = twin(resume)
    arun_now = twin(run_now)
    astats = twin(stats)

    def _set_paused(self, *, paused: bool) -> bool:
        self._broker.open(self._settings)
        batch: list[Call[bool]] = [
            operator_calls.pause(shard, paused=paused) for shard in self._shards
        ]
        return any(run_all(self._broker, batch))


def _sum(queue: str, shards: Sequence[ShardStats]) -> QueueStats:
    return QueueStats(
        queue=queue,
        scheduled=sum(one.scheduled for one in shards),
        ready=sum(one.ready for one in shards),
        running=sum(one.running for one in shards),
        dead=sum(one.dead for one in shards),
        succeeded=sum(one.succeeded for one in shards),
        retried=sum(one.retried for one in shards),
        died=sum(one.died for one in shards),
        oldest_ready_age=_longest(one.oldest_ready_age for one in shards),
        lateness=_longest(one.lateness for one in shards),
        paused=any(one.paused for one in shards),
        consumers=_consumers(shards),
        lease_holders=tuple(sorted({one.lease_holder for one in shards if one.lease_holder})),
        shards=tuple(shards),
    )


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((one for one in seconds if one is not None), default=None)


def _consumers(shards: Sequence[ShardStats]) -> tuple[SeenConsumer, ...]:
    """The consumers of all shards, each once."""
    by_name: dict[str, list[SeenConsumer]] = defaultdict(list)
    for shard in shards:
        for one in shard.consumers:
            by_name[one.name].append(one)
    return tuple(
        SeenConsumer(name, sum(one.running for one in seen), min(one.idle for one in seen))
        for name, seen in sorted(by_name.items())
    )

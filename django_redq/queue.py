"""One queue as those see it who look after it: how full it is, paused or not, run this task now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from django_redq.broker import calls, faults, operator_calls
from django_redq.broker.calls import Call
from django_redq.broker.inspector import run, run_all
from django_redq.broker.keys import shard_of
from django_redq.broker.meter import RINGS, Activity, Reading, added_up, history
from django_redq.broker.sync import Broker, get_broker, shards_for
from django_redq.errors import InvalidArgument
from django_redq.producer.lookup import task_info
from django_redq.queue_stats import QueueStats, read_stats
from django_redq.queue_tasks import TaskPage, task_page
from django_redq.task import TaskInfo, TaskState, check_task_id
from django_redq.twins import blocks, twin

Clock = Callable[[], float]


class Queue:
    """One queue: pause it, resume it, run a task now, see how full it is.

        queue = Queue("email")
        stats = queue.stats()
        print(stats.ready, stats.oldest_ready_age, [shard.lease_holder for shard in stats.shards])

    Each method has an async twin, with an ``a`` before its name.

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
    def cancel(self, task_id: str) -> bool:
        """Takes a SCHEDULED or READY task out of the queue, for good.

        Returns:
            False where there is no such task that is SCHEDULED or READY.

        Raises:
            InvalidArgument: this is no task ID.
            redis.RedisError: Redis did not answer, or refuses.
        """
        return self._broker.cancel(self.name, check_task_id(task_id))

    @blocks
    def get(self, task_id: str) -> TaskInfo | None:
        """Where a task is and what has happened to it; None where there is none of this ID.

        Raises:
            InvalidArgument: this is no task ID.
            redis.RedisError: Redis did not answer, or refuses.
        """
        plain = check_task_id(task_id)
        found = self._broker.inspect(self.name, plain)
        return None if found is None else task_info(self._settings, plain, found)

    @blocks
    def tasks(
        self,
        state: TaskState | str,
        *,
        after: str | None = None,
        count: int = 100,
        partial: bool = False,
    ) -> TaskPage:
        """A page of the tasks that are in some state, without their payloads.

        Args:
            state: ``scheduled``, the soonest first; ``ready`` or ``running``, those that became
                ready first first.
            after: the ``cursor`` of the page before.
            count: tasks on the page, up to 1,000.
            partial: leaves out shards that do not answer, and names them.

        Raises:
            InvalidArgument: an argument breaks its rule.
            redis.RedisError: as of :meth:`stats`.
        """
        self._open(partial=partial)
        return task_page(self._broker, self._shards, state, after, count, partial=partial)

    @blocks
    def stats(self, *, partial: bool = False) -> QueueStats:
        """How full the queue is, who works on it, and what happened in the last hour.

        Args:
            partial: leaves out shards that do not answer, and names them.

        Raises:
            redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard
                does.
        """
        self._open(partial=partial)
        return read_stats(
            self._broker, self._settings, self._shards, self._clock(), partial=partial
        )

    @blocks
    def history(self, span: str = "hour", *, partial: bool = False) -> tuple[Activity, ...]:
        """What happened lately, the oldest first; the last one still goes on.

        Args:
            span: ``hour``, minute by minute, or ``day``, by quarters of an hour.
            partial: as of :meth:`stats`.

        Raises:
            InvalidArgument: there is no such span.
            redis.RedisError: as of :meth:`stats`.
        """
        ring = RINGS.get(span)
        if ring is None:
            raise InvalidArgument("span", f"must be one of {', '.join(RINGS)}, got {span!r:.80}")
        self._open(partial=partial)
        batch = [history(shard, ring, self._clock()) for shard in self._shards]
        replies = run(self._broker, batch, partial=partial)
        return added_up(ring, [reply for reply in replies if isinstance(reply, Reading)])

    apause = twin(pause)
    aresume = twin(resume)
    arun_now = twin(run_now)
    astats = twin(stats)
    ahistory = twin(history)
    acancel = twin(cancel)
    aget = twin(get)
    atasks = twin(tasks)

    def _clock(self) -> str:
        return calls.clock(None if self._now is None else int(self._now() * 1000))

    def _open(self, *, partial: bool) -> None:
        with suppress(*faults.REDIS_ERRORS if partial else ()):
            self._broker.open(self._settings)

    def _set_paused(self, *, paused: bool) -> bool:
        self._broker.open(self._settings)
        batch: list[Call[bool]] = [
            operator_calls.pause(shard, paused=paused) for shard in self._shards
        ]
        return any(run_all(self._broker, batch))

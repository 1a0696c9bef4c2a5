"""The scheduler: holds leases and moves what is due from SCHEDULED to READY."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Promotion, Shard
from django_redq.broker.sync import Broker, get_broker, shards_for
from django_redq.broker.wakeups import WakeListener
from django_redq.conf import QueueConfig, SchedulerConfig, override_scheduler
from django_redq.errors import ConfigurationError
from django_redq.lines import get_logger
from django_redq.scheduler.janitor import Janitor
from django_redq.scheduler.leases import Leases
from django_redq.service import Loop, Outage, unique_name

logger = get_logger("django_redq.scheduler")

MAX_CALLS = 64
"""Promotions that go out in one round trip."""


class Ticker(Loop):
    """Promotes when something is due, renews leases, and sleeps in between."""

    name = "scheduler"

    def __init__(
        self,
        broker: Broker,
        settings: SchedulerConfig,
        queues: Sequence[QueueConfig],
        instance: str,
        outage: Outage,
        now: Callable[[], float] | None,
    ) -> None:
        super().__init__(outage)
        self._broker = broker
        self._settings = settings
        self._queues = queues
        self._now = now
        self.shards = [shard for queue in queues for shard in shards_for(broker.config, queue)]
        self.leases = Leases(self.shards, instance, settings.lease_ttl)
        self.moved = 0
        """Tasks promoted since the start."""
        self.listener: WakeListener | None = None
        self.fatal: ConfigurationError | None = None
        self._opened = False
        self._looked = 0.0
        self._bad: set[Shard] = set()
        self._said_held = -1

    def heard(self, channel: str, message: str) -> None:
        """A hint came in: something is due sooner, a lease was released, or the channel is new."""
        self.leases.hint(channel, message)
        self.wake()

    def open(self) -> None:
        """Compares the queues' settings with Redis, once.

        Raises:
            ConfigurationError: they disagree.
        """
        if not self._opened:
            for queue in self._queues:
                self._broker.open(queue)
            self._opened = True

    def step(self) -> float:
        """One tick; seconds until the next."""
        try:
            self.open()
        except ConfigurationError as error:
            self.fatal = error
            self._stopping.set()
            return 0.0
        self.leases.take_hints()
        self._look_at_heads()
        if self.promote(self.leases.to_promote()):
            return 0.0
        return min(self.leases.wait(), self._settings.tick_interval)

    def on_reconnect(self) -> None:
        if self.listener is not None:
            # Another server may have its place, and the old one tell nothing any more.
            self.listener.renew()
        self.leases.hint("", "")

    def _look_at_heads(self) -> None:
        """One read-only script a tick, so that a lost hint costs no more than that."""
        now = time.monotonic()
        held = [shard for shard in self.shards if shard in self.leases.held]
        if not held or now - self._looked < self._settings.tick_interval:
            return
        self._looked = now
        if self._broker.spans_shards:
            reply = self._broker.run_many([calls.heads(held, self._clock())])[0]
            if not isinstance(reply, Exception):
                self.leases.note_heads(held, reply)
            elif not self._broker.learn([reply]):
                # One bad shard: promoting finds out which.
                self.promote(held)
            return
        replies = self._broker.run_many([calls.heads([shard], self._clock()) for shard in held])
        for shard, reply in zip(held, replies, strict=True):
            if not isinstance(reply, Exception):
                self.leases.note_heads([shard], reply)

    def _clock(self) -> str:
        return calls.clock(None if self._now is None else int(self._now() * 1000))

    def promote(self, shards: Sequence[Shard]) -> bool:
        """Takes or renews these shards' leases and moves what is due; True where more is left.

        Raises:
            redis.RedisError: Redis is away, or in a state that passes.
        """
        full = False
        for start in range(0, len(shards), MAX_CALLS):
            some = shards[start : start + MAX_CALLS]
            replies = self._broker.run_many([self._promotion(shard) for shard in some])
            full = self._accept(some, replies) or full
        self._say_held()
        return full

    def _promotion(self, shard: Shard) -> Call[Promotion]:
        ttl_ms = int(self._settings.lease_ttl * 1000)
        return calls.promote(
            shard, self.leases.instance, ttl_ms, self._settings.batch_size, self._clock()
        )

    def _accept(self, shards: Sequence[Shard], replies: Sequence[Any]) -> bool:
        full, trouble = False, None
        for shard, reply in zip(shards, replies, strict=True):
            if isinstance(reply, Exception):
                trouble = self._refused(shard, reply) or trouble
                continue
            self._bad.discard(shard)
            self.leases.note(shard, reply)
            self.moved += reply.moved
            full = full or reply.moved >= self._settings.batch_size
        if trouble is not None:
            raise trouble
        return full

    def _refused(self, shard: Shard, error: Exception) -> Exception | None:
        if self._broker.is_away(error):
            return error
        self.leases.failed(shard)
        if shard not in self._bad and not isinstance(error, faults.Away):
            self._bad.add(shard)
            logger.warning(
                "shard %d of %r cannot be scheduled, the others go on: %s",
                shard.number,
                shard.queue,
                faults.in_words(error),
            )
        return None

    def _say_held(self) -> None:
        held = len(self.leases.held)
        if held != self._said_held:
            self._said_held = held
            logger.info("holds the leases of %d of %d shards", held, len(self.shards))


class Scheduler:
    """Serves some queues; any number of instances may run, each shard has one owner at a time.

    Args:
        queues: their names; none means all of the settings'.
        instance_id: prefix of the name in the leases; a random suffix is always added.
        now: seconds since the epoch as the scripts take it; None: Redis' own clock.
        broker: the connection to use; None: that of the settings.
        options: ``batch_size``, ``tick_interval``, ``lease_ttl``, ``shutdown_timeout``; they beat the
            settings.

    Raises:
        ConfigurationError: a setting or option breaks its rule.
        UnknownQueue: a queue is none of the settings'.
    """

    def __init__(
        self,
        *queues: str,
        instance_id: str | None = None,
        now: Callable[[], float] | None = None,
        broker: Broker | None = None,
        **options: Any,
    ) -> None:
        self._broker = broker or get_broker()
        config = self._broker.config
        self.settings = override_scheduler(config.scheduler, **options)
        self.queues = [config.queue(name) for name in dict.fromkeys(queues or config.queues)]
        self.instance_id = unique_name(instance_id, "instance_id")
        outage = Outage(f"scheduler {self.instance_id}")
        self._ticker = Ticker(
            self._broker, self.settings, self.queues, self.instance_id, outage, now
        )
        self._janitor = Janitor(self._broker, self.queues, self._ticker.leases, outage, now)
        self._lifecycle = threading.Lock()
        self._unwatch: Callable[[], None] = lambda: None
        self.stopped = threading.Event()
        """Set once :meth:`stop` is through."""

    @property
    def moved(self) -> int:
        """Tasks promoted since the start."""
        return self._ticker.moved

    @property
    def leases_held(self) -> int:
        """How many shards it serves at the moment."""
        return len(self._ticker.leases.held)

    @property
    def fatal(self) -> ConfigurationError | None:
        """Why it ended by itself, if it did."""
        return self._ticker.fatal

    def start(self) -> None:
        """Starts its threads. A Redis that is away is waited for.

        Raises:
            ConfigurationError: the settings disagree with what Redis says of a queue.
        """
        with suppress(*faults.REDIS_ERRORS):
            self._ticker.open()
        channels = sorted({shard.due for shard in self._ticker.shards})
        listener = WakeListener(self._broker.listening_client, channels, self._ticker.heard)
        self._ticker.listener = listener
        listener.start()
        self._unwatch = self._broker.watch(lambda: self._ticker.heard("", ""))
        self._ticker.start()
        self._janitor.start()
        names = ", ".join(queue.name for queue in self.queues)
        logger.info("scheduler %s serves %s", self.instance_id, names)

    def stop(self) -> None:
        """Ends its threads and gives its leases up, so that a standby takes over at once."""
        with self._lifecycle:
            if self.stopped.is_set():
                return
            self._unwatch()
            self._janitor.stop(self.settings.shutdown_timeout)
            self._ticker.stop(self.settings.shutdown_timeout)
            if self._ticker.listener is not None:
                self._ticker.listener.stop()
            self._release()
            self.stopped.set()
        logger.info("scheduler %s stopped", self.instance_id)

    def run_once(self) -> int:
        """Takes the leases and moves all that is due; how many tasks were moved.

        What an operator began on many dead letters is carried on to the end. The leases are kept until they lapse or :meth:`stop` is called.

        Raises:
            redis.RedisError: Redis is away, or refuses.
        """
        self._ticker.open()
        before = self._ticker.moved
        while self._ticker.promote(self._ticker.shards):
            pass
        self._finish_bulks()
        return self._ticker.moved - before

    def clean_once(self) -> int:
        """One round of the janitor over the shards held; how many tasks were put back.

        Raises:
            redis.RedisError: Redis is away, or refuses.
        """
        put_back = self._janitor.clean_all()
        self._finish_bulks()
        return put_back

    def _finish_bulks(self) -> None:
        while self._janitor.carry_on():
            # It may take longer than a lease lasts.
            self._ticker.promote(self._ticker.leases.to_promote())

    def _release(self) -> None:
        leases = self._ticker.leases
        batch = [calls.release_lease(shard, leases.instance) for shard in leases.held]
        with suppress(*faults.REDIS_ERRORS):
            self._broker.run_many(batch)
        leases.forget()

"""A consumer: its parts put together, started, stopped, or run once in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django_redq.broker import calls, faults
from django_redq.broker.calls import Shard
from django_redq.broker.sync import Broker, get_broker
from django_redq.broker.wakeups import WakeListener
from django_redq.consumer.engine import Engine
from django_redq.consumer.heart import Heart
from django_redq.consumer.options import resolve
from django_redq.consumer.recoverer import Recoverer
from django_redq.consumer.renewer import Renewer
from django_redq.errors import ConfigurationError
from django_redq.lines import get_logger
from django_redq.outcome import Release
from django_redq.service import Outage

logger = get_logger("django_redq.consumer")

RENEW_GRACE = 3.0
"""Seconds in which all consumers find out that a node is back, and renew."""


class Consumer:
    """Runs the tasks of some queues, as many at a time as ``concurrency`` allows.

    Args:
        queues: their names.
        name: prefix of the consumer name; a random suffix is always added.
        now: seconds since the epoch as the scripts take it; None: Redis' own clock.
        broker: the connection to use; None: that of the settings.
        options: ``group``, ``concurrency``, ``read_count``, ``prefetch``, ``block_timeout``,
            ``pending_min_idle``, ``recovery_interval``, ``recovery_count``, ``recovery_concurrency``,
            ``shutdown_timeout`` and the other keys of a queue, in lower case; they beat the settings.

    Raises:
        ConfigurationError: a setting or option breaks its rule.
        UnknownQueue: a queue is none of the settings'.
    """

    def __init__(
        self,
        *queues: str,
        name: str | None = None,
        now: Callable[[], float] | None = None,
        broker: Broker | None = None,
        **options: Any,
    ) -> None:
        self._broker = broker or get_broker()
        self.options = resolve(self._broker.config, queues, name=name, now=now, **options)
        self._outage = Outage(f"consumer {self.options.name}")
        self._engine = self._new_engine(inline=False)
        self._renewer, self._recoverer = self._helpers(self._engine)
        self._heart = Heart(self._broker, self.options, self._engine.table, self._outage)
        self._once: tuple[Engine, Renewer, Recoverer] | None = None
        self._lifecycle = threading.Lock()
        self._unwatch: Callable[[], None] = lambda: None
        self.stopped = threading.Event()
        """Set once :meth:`stop` is through."""

    @property
    def name(self) -> str:
        """The consumer name, unique to this process."""
        return self.options.name

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks ended in what, since the start: Done, RetryAt, Dead, Release, stale."""
        return dict(self._engine.settler.counts)

    @property
    def fatal(self) -> ConfigurationError | None:
        """Why the consumer ended by itself, if it did."""
        return self._engine.fatal

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing."""
        return self._engine.table.is_empty

    def start(self) -> None:
        """Starts its threads. A Redis that is away is waited for.

        Raises:
            ConfigurationError: the settings disagree with what Redis says of a queue.
        """
        with suppress(*faults.REDIS_ERRORS):
            self._engine.open()
        channels = sorted({shard.wake for shard in self.options.shards})
        listener = WakeListener(self._broker.listening_client, channels, self._engine.heard)
        self._engine.listener = listener
        listener.start()
        self._unwatch = self._broker.watch(self._node_back)
        self._engine.start()
        self._renewer.start()
        self._recoverer.start()
        self._heart.start()
        logger.info(
            "consumer %s serves %s, %d task(s) at a time",
            self.name,
            ", ".join(self.options.queues),
            self.options.concurrency,
        )

    def stop(self) -> None:
        """Stops fetching, hands back what has not begun, waits for what runs, settles it."""
        with self._lifecycle:
            if self.stopped.is_set():
                return
            self._unwatch()
            self._recoverer.stop()
            self._drain()
            self._renewer.stop(5)
            self._heart.stop(5)
            if self._engine.listener is not None:
                self._engine.listener.stop()
            self._engine.table.close()
            self._engine.executor.close()
            self._engine.announcer.close(5)
            self._forget_name()
            self._heart.leave()
            self.stopped.set()
        logger.info("consumer %s stopped", self.name)

    def _drain(self) -> None:
        engine = self._engine
        engine.draining = True
        for held in engine.executor.take_waiting():
            engine.table.finish(held, Release())
        engine.wake()
        if engine.running:
            engine.drained.wait(self.options.shutdown_timeout)
        left = len(engine.table)
        engine.stop(5)
        if left:
            logger.warning(
                "%d task(s) still ran after %g s; another consumer will run them again",
                left,
                self.options.shutdown_timeout,
            )

    def _forget_name(self) -> None:
        with suppress(*faults.REDIS_ERRORS):
            self._broker.run_many(
                [calls.drop_consumers(shard, name=self.name) for shard in self.options.shards]
            )

    def run_once(self) -> int:
        """Fetches once and runs what came in the calling thread; how many tasks were settled.

        Sync handlers find the caller's database connections and transaction, async ones run on a
        loop of their own.

        Raises:
            redis.RedisError: Redis is away, or refuses.
        """
        engine, renewer, _ = self._inline()
        engine.open()
        renewer.start()
        try:
            engine.fetcher.hint()
            settled = self._turn_until_something_came(engine)
            while engine.table.has_finished:
                settled += engine.settle()
            return settled
        finally:
            renewer.stop()

    def _turn_until_something_came(self, engine: Engine) -> int:
        settled = 0
        # On a Cluster a turn asks as many shards as it has free slots.
        for _ in self.options.shards:
            done, brought = engine.turn()
            settled += done
            if brought or not engine.fetcher.hungry:
                break
        return settled

    def recover_once(self) -> int:
        """Takes over once what vanished owners hold, and runs it; how many tasks it dealt with.

        Raises:
            redis.RedisError: Redis is away, or refuses.
        """
        engine, renewer, recoverer = self._inline()
        engine.open()
        renewer.start()
        try:
            handled = recoverer.recover()
            recoverer.wait_for_none()
            while engine.table.has_finished:
                engine.settle()
            return handled
        finally:
            renewer.stop()

    def _inline(self) -> tuple[Engine, Renewer, Recoverer]:
        if self._once is None:
            engine = self._new_engine(inline=True)
            self._once = (engine, *self._helpers(engine))
        return self._once

    def _new_engine(self, *, inline: bool) -> Engine:
        return Engine(
            self._broker,
            self.options,
            self._outage,
            inline=inline,
            on_late=self._late,
            on_doubt=self._doubt,
        )

    def _helpers(self, engine: Engine) -> tuple[Renewer, Recoverer]:
        renewer = Renewer(
            self._broker, self.options, engine.table, self._outage, self._late, self._doubt
        )
        recoverer = Recoverer(
            self._broker,
            self.options,
            engine.table,
            self._outage,
            engine.announcer,
            engine.executor.submit,
            engine.look_for_orphans,
        )
        return renewer, recoverer

    def _node_back(self) -> None:
        """A node of the Cluster is there again, with shards that waited; or a server was demoted."""
        if self._broker.spans_shards:
            self._late()
        else:
            # Which shards were away each loop finds out; of the others nobody must wait for long.
            self._recoverer.hold_off(RENEW_GRACE)
            self._renewer.wake()
        if self._engine.listener is not None:
            self._engine.listener.renew()
        self._engine.fetcher.forgive()
        self._engine.wake()

    def _late(self) -> None:
        """Renewals were late or Redis was away: renew first, recover nothing for a while."""
        self._recoverer.hold_off()
        self._renewer.wake()

    def _doubt(self, shard: Shard) -> None:
        """A shard did not answer while others did."""
        self._recoverer.doubt(shard)

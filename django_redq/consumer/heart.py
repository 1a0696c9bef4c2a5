"""Tells now and then that the consumer lives, where it runs, and what."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from django_redq.broker import beats, faults
from django_redq.broker.beats import About
from django_redq.broker.calls import Shard
from django_redq.broker.sync import Broker
from django_redq.consumer.options import Options
from django_redq.consumer.table import Table
from django_redq.service import Loop, Outage

INTERVAL = 5.0
"""Seconds between two beats."""
MAX_TOLD = 20
"""Running tasks that a beat names."""


class Heart(Loop):
    """Beats for each queue, in one round trip. Nothing depends on it but what people see."""

    name = "heart"

    def __init__(self, broker: Broker, options: Options, table: Table, outage: Outage) -> None:
        super().__init__(outage)
        self._broker = broker
        self._options = options
        self._table = table
        self._started = int(time.time() * 1000)
        self._version = _version()

    def step(self) -> float:
        """One beat; one that Redis refuses is left out."""
        about, now = self._about(), self._options.now_text()
        self._broker.run_many(
            [beats.beat(shard, self._options.name, about, now) for shard in self._first_shards()]
        )
        return INTERVAL

    def leave(self) -> None:
        """Has the consumer forgotten, for it has stopped."""
        with suppress(*faults.REDIS_ERRORS):
            self._broker.run_many(
                [beats.leave(shard, self._options.name) for shard in self._first_shards()]
            )

    def _first_shards(self) -> list[Shard]:
        return [shard for shard in self._options.shards if shard.number == 0]

    def _about(self) -> About:
        longest = sorted(self._table.snapshot(), key=lambda held: held.taken_at)[:MAX_TOLD]
        return About(
            host=socket.gethostname()[:255],
            pid=os.getpid(),
            version=self._version,
            started=self._started,
            concurrency=self._options.concurrency,
            running=tuple(
                (held.delivery.task_id, held.kind, int(held.taken_at * 1000)) for held in longest
            ),
        )


def _version() -> str:
    try:
        return version("django-redq")
    except PackageNotFoundError:
        return ""

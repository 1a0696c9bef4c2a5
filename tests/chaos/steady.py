"""Producers that go on, whatever is refused, and a handler; what was accepted has to be done."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from contextlib import suppress

from django_redq import aenqueue
from django_redq.broker import faults
from django_redq.broker.aio import get_async_broker
from django_redq.broker.keys import shard_of
from django_redq.conf import get_config
from django_redq.handlers import handler
from django_redq.queue import Queue
from tests.harness import until


class Work:
    """Tasks of the queue ``default``, every third of them delayed, from a thread and an event loop."""

    def __init__(self, engine):
        self.engine = engine
        self.accepted = {}
        """Task ID -> when."""
        self.runs = []
        self._from_loop = set()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce),
            threading.Thread(target=lambda: asyncio.run(self._aproduce())),
        ]

        @handler("default")
        def work(task):
            self.runs.append(task.id)

        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def shard_of(self, task_id):
        return shard_of(task_id, get_config().queue("default").shards)

    def served(self, since):
        """The shards of which tasks of both producers were done that were accepted after this moment."""
        accepted = self.accepted.copy()
        done = {one for one in set(self.runs) if accepted.get(one, 0) >= since}
        from_loop = done & self._from_loop.copy()
        return set(map(self.shard_of, from_loop)) & set(map(self.shard_of, done - from_loop))

    def missing(self):
        return set(self.accepted) - set(self.runs)

    def uncopied(self, struck, shards):
        """What went to these shards so shortly before a blow that no replica may have it."""
        return {
            one
            for one, moment in self.accepted.items()
            if struck - 1 < moment < struck and self.shard_of(one) in shards
        }

    def settle_accounts(self, at_risk=frozenset()):
        """Waits until all is done but what Redis had no time to copy; how many of those are lost."""
        self.stop()
        until(lambda: self.missing() <= at_risk)
        queue = Queue("default")
        until(lambda: (stats := queue.stats()).scheduled == stats.ready == stats.running == 0)
        assert queue.stats().dead == 0
        return len(self.missing())

    def figures(self, lost):
        twice = len(self.runs) - len(set(self.runs))
        return f"{len(self.accepted)} accepted, {twice} run twice, {lost} lost by Redis itself"

    def _produce(self):
        for number in itertools.count():
            if self._stop.wait(0.01):
                return
            with suppress(*faults.REDIS_ERRORS):
                self._accept(self.engine.enqueue(delay=_delay(number)))

    async def _aproduce(self):
        for number in itertools.count():
            await asyncio.sleep(0.01)
            if self._stop.is_set():
                await get_async_broker().client.aclose()
                return
            with suppress(*faults.REDIS_ERRORS):
                made = await aenqueue("default", None, delay=_delay(number), mode="immediate")
                self._from_loop.add(made.task_id)
                self._accept(made.task_id)

    def _accept(self, task_id):
        self.accepted[task_id] = time.monotonic()


def _delay(number):
    return 0.2 if number % 3 == 0 else None

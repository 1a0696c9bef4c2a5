"""The Redis that is measured: how it is filled, and what it says of itself."""

from __future__ import annotations

import time
from typing import Any

import redis
import seeding
from scale_settings import QUEUE

from django_redq import enqueue_many
from django_redq.broker import calls
from django_redq.broker.sync import get_broker, shards_for
from django_redq.dead_letters import DeadLetterQueue
from django_redq.queue import Queue
from django_redq.task import TaskSpec

READY = 20_000
RUNNING = 200


class World:
    """A queue with a week's dead letters, a month's scheduled tasks, and some ready and running."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = redis.Redis.from_url(url)
        self.queue = QUEUE
        self.broker = get_broker()

    def seed(self, letters: int, tasks: int) -> float:
        """Fills it, unless that was done; the seconds that it took."""
        begun = time.monotonic()
        if not seeding.is_seeded(self.client, self.broker, self.queue):
            seeding.seed_letters(self.client, self.broker, self.queue, letters)
            seeding.seed_scheduled(self.client, self.broker, self.queue, tasks)
            self._run_some(min(READY, tasks), min(RUNNING, tasks))
        self._prove(letters)
        return time.monotonic() - begun

    def _run_some(self, ready: int, running: int) -> None:
        """Tasks that wait and run, by the engine's own ways."""
        specs = [TaskSpec({"order": n}, kind="invoice") for n in range(500)]
        for _ in range(0, ready, len(specs)):
            enqueue_many(self.queue, specs)
        shards = shards_for(self.broker.config, self.broker.config.queue(self.queue))
        for consumer in ("worker-1-a1b2c3", "worker-2-d4e5f6"):
            self.broker.run(calls.fetch(shards, consumer, running // 2, alone=False))

    def _prove(self, letters: int) -> None:
        """That the seeded letters are what django-redq takes for letters of its own."""
        queue = DeadLetterQueue(self.queue)
        some = queue.list(count=100)
        assert all(one.replayable and one.task is not None and one.failures for one in some)
        groups = queue.groups()
        assert groups.exact, groups
        assert not groups.uncounted, groups
        assert sum(one.count for one in groups.groups) == queue.count() <= letters

    def wait_for_scheduler(self) -> None:
        """Until it holds all leases, and what it does at its start is over."""
        while not Queue(self.queue).stats().lease_holders:
            time.sleep(0.1)
        time.sleep(3)

    def describe(self) -> str:
        """What there is, in a line."""
        stats = Queue(self.queue).stats()
        memory = self.client.info("memory")["used_memory"] / 2**30
        return (
            f"{stats.dead:,} dead, {stats.scheduled:,} scheduled, {stats.ready:,} ready, "
            f"{stats.running:,} running in 16 shards; {memory:.1f} GiB"
        )

    def usage(self) -> tuple[int, float]:
        """Bytes sent to all clients so far, and ms spent in scripts and commands that are no INFO."""
        stats: Any = self.client.info("stats", "commandstats")
        scripts = sum(
            stats.get(f"cmdstat_{name}", {}).get("usec", 0) for name in ("evalsha", "eval")
        )
        return stats["total_net_output_bytes"], scripts / 1000

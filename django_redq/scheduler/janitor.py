"""The janitor: small steps, under the scheduler's leases, that keep a queue whole and clean."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Repair, Shard
from django_redq.broker.sync import Broker
from django_redq.conf import QueueConfig
from django_redq.dead_letters import trim
from django_redq.lines import get_logger
from django_redq.scheduler.bulk import BulkCarrier
from django_redq.scheduler.leases import Leases
from django_redq.service import Loop, Outage

logger = get_logger("django_redq.scheduler")

STEP_INTERVAL = 1.0
BUSY_INTERVAL = 0.05
"""Seconds between steps; the second while a shard is being looked through."""
SHARDS_A_STEP = 64
FORGET_INTERVAL = 60.0
"""Seconds between looks for the names of dead consumers."""
FORGET_AFTER = 3600.0
"""Seconds without a sign of life after which a consumer that holds nothing is forgotten: many times
what a paused one, or one cut off from Redis, may be silent."""
TRIM_LIMIT = 200
"""Dead letters that one step removes at most."""


class Janitor(Loop):
    """Puts back payloads without a place, forgets dead consumers, trims dead letters by setting,
    carries on what an operator began on many of them.
    """

    name = "janitor"

    def __init__(
        self,
        broker: Broker,
        queues: Sequence[QueueConfig],
        leases: Leases,
        outage: Outage,
        now: Callable[[], float] | None,
    ) -> None:
        super().__init__(outage)
        self._broker = broker
        self._queues = {queue.name: queue for queue in queues}
        self._leases = leases
        self._now = now
        self._bulks = BulkCarrier(broker, queues, leases, now)
        self._next_round = 0.0
        self._cursors: dict[Shard, str] = {}
        self._forgot: dict[Shard, float] = {}
        self._turn: list[Shard] = []

    def step(self) -> float:
        """Looks after the next few shards; seconds until the next step."""
        left = self._next_round - time.monotonic()
        if left <= 0:
            left = self._round()
            self._next_round = time.monotonic() + left
        return BUSY_INTERVAL if self._bulks.turn() else left

    def _round(self) -> float:
        shards = self._next_shards()
        self._repair(shards)
        self._forget_consumers(shards)
        trimmed = self._trim()
        return BUSY_INTERVAL if self._cursors or trimmed >= TRIM_LIMIT else STEP_INTERVAL

    def clean_all(self) -> int:
        """Looks through every shard held, to the end; how many tasks were put back."""
        shards = list(self._leases.held)
        put_back = self._repair(shards)
        while self._cursors:
            put_back += self._repair(list(self._cursors))
        while self._trim() >= TRIM_LIMIT:
            pass
        return put_back

    def carry_on(self) -> bool:
        """Some of the bulk work of the shards held; whether more is left."""
        return self._bulks.turn()

    def _next_shards(self) -> list[Shard]:
        if not self._turn:
            self._turn = list(self._leases.held)
        some, self._turn = self._turn[:SHARDS_A_STEP], self._turn[SHARDS_A_STEP:]
        return [*some, *(shard for shard in self._cursors if shard not in some)]

    def _repair(self, shards: Sequence[Shard]) -> int:
        self._cursors = {s: at for s, at in self._cursors.items() if s in self._leases.held}
        put_back = 0
        replies = self._broker.run_many([self._repair_call(shard) for shard in shards])
        for shard, reply in zip(shards, replies, strict=True):
            if not isinstance(reply, Exception):
                put_back += self._repaired(shard, reply)
            else:
                self._cursors.pop(shard, None)
                self._pass_on(reply)
        return put_back

    def _repair_call(self, shard: Shard) -> Call[Repair]:
        now = calls.clock(None if self._now is None else int(self._now() * 1000))
        grace_ms = int(self._queues[shard.queue].pending_min_idle * 1000)
        return calls.repair(shard, self._cursors.get(shard, "0"), now, grace_ms=grace_ms)

    def _repaired(self, shard: Shard, reply: Repair) -> int:
        if reply.cursor == "0":
            self._cursors.pop(shard, None)
        else:
            self._cursors[shard] = reply.cursor
        if reply.put_back:
            logger.warning(
                "%d task(s) of shard %d of %r had lost their place in Redis and were put back",
                reply.put_back,
                shard.number,
                shard.queue,
            )
        return reply.put_back

    def _forget_consumers(self, shards: Sequence[Shard]) -> None:
        now = time.monotonic()
        due = [s for s in shards if now - self._forgot.get(s, -FORGET_INTERVAL) >= FORGET_INTERVAL]
        after_ms = int(FORGET_AFTER * 1000)
        batch = [calls.drop_consumers(shard, min_idle_ms=after_ms) for shard in due]
        for shard, reply in zip(due, self._broker.run_many(batch), strict=True):
            self._forgot[shard] = now
            if isinstance(reply, Exception):
                self._pass_on(reply)
            elif reply:
                logger.info("forgot %d dead consumer name(s) of %r", len(reply), shard.queue)

    def _trim(self) -> int:
        trimmed = 0
        for queue in self._queues.values():
            if queue.dead_letter_max_age is None and queue.dead_letter_max_count is None:
                continue
            held = {shard.number for shard in self._leases.held if shard.queue == queue.name}
            if held:
                trimmed += self._trim_queue(queue, held)
        return trimmed

    def _trim_queue(self, queue: QueueConfig, held: set[int]) -> int:
        try:
            return trim(self._broker, queue, held, TRIM_LIMIT, self._now)
        except faults.REDIS_ERRORS as error:
            if self._broker.is_away(error) or not faults.is_outage(error):
                raise
            # A node went, or refuses; what was removed elsewhere is seen by the next round.
            return 0

    def _pass_on(self, error: Exception) -> None:
        """An outage ends the step; a shard that is away or has a fault of its own is not ours to tell of."""
        if self._broker.is_away(error):
            raise error

"""Decides what to ask Redis for, and reads what came."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Shard
from django_redq.broker.delivery import Delivery, FetchItem
from django_redq.broker.sync import Broker
from django_redq.consumer.options import Options
from django_redq.consumer.table import Table, process_has_aside, process_is_empty
from django_redq.lines import get_logger

logger = get_logger("django_redq.consumer")

AWAY_PAUSE = 1.0
"""Seconds before a shard whose node is away is asked again."""
PATIENCE = 10.0
"""Seconds that a suspect stays parked before a busy consumer empties itself for it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One fetch: its calls, and the slots that were kept for what it brings."""

    calls: list[Call[list[FetchItem]]]
    reserved: int
    shards: tuple[Shard, ...] = ()
    """Whom they ask."""


NOTHING = Plan([], 0)
TURN_INTERVAL = 1.0
"""Seconds between questions whether it is this process' turn."""


class Fetcher:
    """Serves all shards in rotation and asks only while there may be something.

    Args:
        on_unsure: called with a shard that may have delivered something that did not arrive.
    """

    def __init__(
        self, broker: Broker, options: Options, table: Table, on_unsure: Callable[[Shard], None]
    ) -> None:
        self._broker = broker
        self._options = options
        self._table = table
        self._on_unsure = on_unsure
        self._rotation = list(options.shards)
        self._by_place = {(shard.queue, shard.number): shard for shard in options.shards}
        self._bad: dict[Shard, float] = {}
        self._told: set[Shard] = set()
        self._parked: dict[Shard, float] = {}
        self._emptying: Shard | None = None
        self._next_turn = 0.0
        self._forgiven = False
        self._quiet = 0
        self._hints = 0
        self._hints_at_plan = 0
        self._next_poll = 0.0
        self.left_behind = False
        """Whether the last fetch may have left something where it looked."""
        self.paused_queues: set[str] = set()
        """Queues that the last answers said are paused."""

    @property
    def hungry(self) -> bool:
        """Whether some shard may have more than it gave."""
        return self.has_unasked or time.monotonic() >= self._next_poll

    @property
    def has_unasked(self) -> bool:
        """Whether some shard was not asked since the last hint: on a Cluster one fetch asks a few."""
        return self._quiet < len(self._rotation) - len(self._bad)

    def hint(self) -> None:
        """Something became ready somewhere; safe from any thread."""
        self._hints += 1
        self._quiet = 0

    def forgive(self) -> None:
        """Shards that were left out may be well again; safe from any thread."""
        self._forgiven = True
        self.hint()

    def poll_in(self, seconds: float) -> None:
        """Asks again after this time at the latest."""
        self._next_poll = min(self._next_poll, time.monotonic() + seconds)

    def next_poll_in(self) -> float:
        """Seconds until it asks again without a hint."""
        if self._emptying is not None:
            return TURN_INTERVAL
        return max(self._next_poll - time.monotonic(), 0.01)

    def look(self) -> Plan:
        """Asks for no task, only what state the queues are in."""
        calls_ = self._broker.fetch_calls(self._rotation, self._options.name, 0)
        return Plan(calls_, 0, tuple(self._rotation))

    def plan(self) -> Plan:
        """What to ask for now."""
        self._hints_at_plan = self._hints
        if self._parked and process_is_empty():
            return self._plan_suspect()
        if self._emptying is not None or not self.hungry:
            return NOTHING
        # 5,000 in one script took Redis 80 ms.
        reserved = self._table.reserve(min(self._options.read_count, calls.MAX_SCRIPT_TASKS))
        if not reserved:
            return NOTHING
        shards = self._shards_to_ask()
        calls_ = self._broker.fetch_calls(shards, self._options.name, reserved)
        return Plan(calls_, reserved, tuple(shards))

    def _plan_suspect(self) -> Plan:
        shard = max(self._parked, key=lambda one: self._parked[one])
        self._quiet = 0
        reserved = self._table.reserve(1)
        if not reserved:
            return NOTHING
        call = calls.fetch([shard], self._options.name, 1, alone=True)
        return Plan([call], reserved, (shard,))

    def _shards_to_ask(self) -> list[Shard]:
        # The next fetch begins one further, so that a shard that always has work starves no other.
        self._rotation.append(self._rotation.pop(0))
        if self._forgiven:
            self._forgiven = False
            self._bad.clear()
        if not self._bad:
            return list(self._rotation)
        now = time.monotonic()
        self._bad = {shard: until for shard, until in self._bad.items() if until > now}
        return [shard for shard in self._rotation if shard not in self._bad] or self._rotation[:1]

    def accept(self, plan: Plan, replies: Sequence[Any]) -> list[Delivery]:
        """The deliveries that a fetch brought.

        Raises:
            redis.RedisError: a call of it failed.
        """
        if self._broker.learn(replies):
            return []
        deliveries: list[Delivery] = []
        self.paused_queues.clear()
        for shard in plan.shards:
            self._parked.pop(shard, None)
        told, self._told = self._told, self._told - set(plan.shards)
        for at, reply in enumerate(replies):
            if isinstance(reply, faults.Away):
                # Of a Cluster each shard is asked by itself.
                self._note_away(plan.shards[at])
                continue
            if isinstance(reply, Exception):
                if self._broker.is_away(reply) or not faults.is_outage(reply):
                    raise reply
                # One node of a Cluster refuses; what the others delivered is to be run.
                self._note_error(plan.shards[at], faults.in_words(reply), told, AWAY_PAUSE)
                self._on_unsure(plan.shards[at])
                continue
            for item in reply:
                self._note(item, told)
                deliveries += item.deliveries
        self._note_quiet(plan, len(deliveries))
        return self._loaded(deliveries)

    def _note(self, item: FetchItem, told: set[Shard]) -> None:
        shard = self._by_place[item.queue, item.shard]
        if item.error is not None:
            self._note_error(shard, item.error, told, self._options.recovery_interval)
        elif item.parked_for is not None:
            self._parked[shard] = item.parked_for
        elif item.paused:
            self.paused_queues.add(item.queue)

    def _note_error(self, shard: Shard, error: str, told: set[Shard], pause: float) -> None:
        self._bad[shard] = time.monotonic() + pause
        self._told.add(shard)
        if shard in told:
            return
        logger.warning(
            "shard %d of %r cannot be fetched from, the others go on; tried every %g s: %s",
            shard.number,
            shard.queue,
            pause,
            error,
        )

    def _note_away(self, shard: Shard) -> None:
        self._bad[shard] = time.monotonic() + AWAY_PAUSE
        self._on_unsure(shard)

    def _note_quiet(self, plan: Plan, brought: int) -> None:
        if not plan.reserved:
            return
        # What a hint tells may have come after the script looked.
        self.left_behind = brought >= plan.reserved or self._hints != self._hints_at_plan
        if self.left_behind:
            self._quiet = 0
            return
        self._quiet += len(plan.shards) if self._broker.spans_shards else len(plan.calls)
        if self._quiet >= len(self._rotation):
            self._next_poll = time.monotonic() + self._options.block_timeout

    def _loaded(self, deliveries: list[Delivery]) -> list[Delivery]:
        """The deliveries, with the records that were too large to come along."""
        later = [one for one in deliveries if one.what == "later"]
        if not later:
            return deliveries
        wanted = [(self._by_place[one.queue, one.shard], one.task_id) for one in later]
        for one, record in zip(later, self._broker.load_records(wanted), strict=True):
            if isinstance(record, faults.Away):
                deliveries.remove(one)
                self._note_away(self._by_place[one.queue, one.shard])
                continue
            if isinstance(record, Exception):
                raise record
            one.record, one.what = record, "task"
        return deliveries

    def settle_turn(self) -> None:
        """Asks for the turn of emptying this process for a suspect, keeps it, or gives it back."""
        shard = self._wants_turn()
        if shard is None or time.monotonic() < self._next_turn:
            return
        # What lies aside may lie long, and until then it would never be empty.
        done = process_is_empty() or process_has_aside()
        self._next_turn = 0.0 if done else time.monotonic() + TURN_INTERVAL
        queue = self._options.queues[shard.queue]
        ttl_ms = 0 if done else int(queue.pending_min_idle * 1000)
        now = self._options.now_text()
        first = self._by_place[shard.queue, 0]
        try:
            granted = self._broker.run(calls.take_turn(first, self._options.name, ttl_ms, now))
        except faults.Away:
            granted = False
        self._emptying = shard if granted and not done else None

    def _wants_turn(self) -> Shard | None:
        """The shard whose suspect has been parked so long that this process should empty itself."""
        if self._emptying is not None or process_has_aside():
            return self._emptying
        waiting = [shard for shard, parked in self._parked.items() if parked >= PATIENCE]
        return waiting[0] if waiting else None

"""The loop at the heart of a consumer: settles what finished and fetches what is free."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from django_redq.broker import calls, faults
from django_redq.broker.calls import Shard
from django_redq.broker.delivery import Delivery, PendingRow
from django_redq.broker.sync import Broker
from django_redq.broker.wakeups import WakeListener
from django_redq.consumer.announcer import Announcer
from django_redq.consumer.executor import Executor, InlineExecutor, ThreadedExecutor
from django_redq.consumer.fetcher import NOTHING, Fetcher, Plan
from django_redq.consumer.options import Options
from django_redq.consumer.settler import Settler
from django_redq.consumer.table import ASIDE, GATE, Held, Table, process_is_empty
from django_redq.errors import ConfigurationError
from django_redq.outcome import Release
from django_redq.service import Loop, Outage

POLL_INTERVAL = 0.5
"""Seconds between fetches where no hints are heard (no right to the channel, or just reconnecting)."""
BUSY_FETCHES = 10
"""Fetches in a row that left something behind, after which hints are not listened to for a while."""
SETTLE_LIMIT = 1000
"""Finished tasks that are settled in one round trip."""


class Engine(Loop):
    """The loop at the heart: settles what finished, fetches what is free, in one round trip."""

    name = "consumer"

    def __init__(
        self,
        broker: Broker,
        options: Options,
        outage: Outage,
        *,
        inline: bool,
        on_late: Callable[[], None],
        on_doubt: Callable[[Shard], None],
    ) -> None:
        super().__init__(outage)
        self._broker = broker
        self._options = options
        self._on_late = on_late
        self._on_doubt = on_doubt
        self.table = Table(options.capacity, self.wake)
        self.announcer = Announcer(inline=inline)
        self.settler = Settler(broker, options, self.table, self.announcer)
        self._orphans: set[Shard] = set()
        self.fetcher = Fetcher(broker, options, self.table, self._unsure)
        kind = InlineExecutor if inline else ThreadedExecutor
        self.executor: Executor = kind(options, self.table.finish)
        self.listener: WakeListener | None = None
        self.draining = False
        """Set at shutdown: nothing is fetched any more."""
        self.drained = threading.Event()
        """Set once it is draining and holds nothing."""
        self.fatal: ConfigurationError | None = None
        self._hinted = False
        self._opened = False
        self._asked = False
        self._full_fetches = 0

    def heard(self, channel: str, message: str) -> None:
        """A hint came in: something may be ready, or a queue was paused or resumed."""
        self._hinted = True
        self.fetcher.hint()
        self.wake()

    def look_for_orphans(self) -> None:
        """Something may bear this consumer's name that it does not know of: a reply was lost."""
        self._orphans.update(self._options.shards)

    def _unsure(self, shard: Shard) -> None:
        self._orphans.add(shard)
        self._on_doubt(shard)

    def on_reconnect(self) -> None:
        if self.listener is not None:
            # Another server may have its place, and the old one tell nothing any more.
            self.listener.renew()
        self.fetcher.hint()
        self._on_late()

    def step(self) -> float:
        """One round trip, and the seconds to wait where there is nothing to do after it."""
        if self.draining and self.table.is_empty:
            # Not after the round trip: Redis may be away.
            self.drained.set()
        try:
            self.open()
        except ConfigurationError as error:
            self.fatal = error
            self._stopping.set()
            return 0.0
        settled, brought = self.turn()
        if settled or brought or self.table.has_finished:
            return 0.0
        return self._idle()

    def open(self) -> None:
        """Compares the queues' settings with Redis, once.

        Raises:
            ConfigurationError: they disagree.
        """
        if not self._opened:
            for queue in self._options.queues.values():
                self._broker.open(queue)
            self._opened = True

    def turn(self) -> tuple[int, int]:
        """Settles and fetches once; how many tasks were settled, and how many arrived."""
        if self._orphans and not self.draining:
            self._adopt_orphans()
        arrived: list[Held] = []
        try:
            with GATE:
                settled = self._round_trip(self._plan(), arrived)
        finally:
            for held in arrived:
                self.executor.submit(held)
        self._release_paused()
        return settled, len(arrived)

    def _round_trip(self, plan: Plan, arrived: list[Held]) -> int:
        self._asked = bool(plan.calls)
        finished = self.table.take_finished(SETTLE_LIMIT)
        try:
            parts = self.settler.batch(finished)
            replies = self._broker.run_many([*(part.call for part in parts), *plan.calls])
        except Exception:
            # Whatever it is, it must lose no task and no slot.
            self.table.put_back(finished)
            self.table.unreserve(plan.reserved)
            # What it delivered is looked for before the next fetch.
            self._orphans.update(plan.shards)
            raise
        try:
            # Whatever became of the settling, what the fetch brought must be taken in.
            return self.settler.accept(parts, replies[: len(parts)])
        finally:
            arrived += self._arrived(plan, replies[len(parts) :])
            self._listen_or_not(plan)

    def settle(self) -> int:
        """Settles once, without a fetch; how many tasks were settled."""
        return self._round_trip(NOTHING, [])

    def _plan(self) -> Plan:
        if self.draining:
            return NOTHING
        self.fetcher.settle_turn()
        plan = self.fetcher.plan()
        if not plan.calls and self._hinted and self.executor.waiting:
            plan = self.fetcher.look()
        self._hinted = False
        return plan

    def _arrived(self, plan: Plan, replies: Sequence[Any]) -> list[Held]:
        try:
            deliveries = self.fetcher.accept(plan, replies)
            return [held for one in deliveries if (held := self._take_in(one)) is not None]
        except Exception:
            self._orphans.update(plan.shards)
            raise
        finally:
            self.table.unreserve(plan.reserved)

    def _take_in(self, one: Delivery) -> Held | None:
        known = self.table.get(one)
        if known is not None:
            # Its group was made again and delivered it once more: it is running, under a new token.
            known.delivery.count = one.count
            return None
        held = Held(one)
        self.table.add(held)
        return held

    def _adopt_orphans(self) -> None:
        """Takes in what bears this consumer's name without being in its table; it was never run."""
        for shard in list(self._orphans):
            self._orphans.discard(shard)
            try:
                self._adopt_orphans_of(shard)
            except faults.REDIS_ERRORS as error:
                # Of a shard with a fault of its own the fetcher tells.
                if faults.is_outage(error):
                    self._orphans.add(shard)
                if self._broker.is_away(error):
                    raise

    def _adopt_orphans_of(self, shard: Shard) -> None:
        cursor: str | None = "-"
        while cursor is not None:
            call = calls.pending_page(shard, owner=self._options.name, start=cursor)
            page = self._broker.run(call)
            for row in page.rows:
                self._adopt(row)
            cursor = page.cursor

    def _adopt(self, row: PendingRow) -> None:
        one = row.delivery
        if not row.in_stream:
            one.task_id = ""
        with GATE:
            # Looked at in here: the recoverer may have taken it over just now.
            if self.table.get(one) is not None:
                return
            held = Held(one)
            must_wait = one.is_last_chance and not process_is_empty()
            self.table.add(held)
        if must_wait:
            self.table.finish(held, Release())
        else:
            self.executor.submit(held)

    def _release_paused(self) -> None:
        for queue in self.fetcher.paused_queues if self.executor.waiting else ():
            for held in self.executor.take_waiting(queue):
                self.table.finish(held, Release())

    def _listen_or_not(self, plan: Plan) -> None:
        """Hints tell nothing while there is more than it can take, and cost a wake-up each."""
        if self.listener is None or not plan.calls:
            return
        # On a Cluster it may have to look elsewhere, and that is not for want of slots.
        if not self.fetcher.left_behind:
            self._full_fetches = 0
            self.listener.listen()
            return
        self._full_fetches += 1
        if self._full_fetches == BUSY_FETCHES:
            self.listener.ignore()

    def _idle(self) -> float:
        pause = self._pause()
        return min(pause, ASIDE) if self.table.has_aside else pause

    def _pause(self) -> float:
        if self.draining or not self.table.has_room:
            return self._options.block_timeout
        if self._asked and self.fetcher.has_unasked:
            return 0.0
        if self.listener is None or not self.listener.listening:
            self.fetcher.poll_in(POLL_INTERVAL)
        return self.fetcher.next_poll_in()

"""Keeps the ownership of what is held, so that a long run is not taken for a dead one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Renewed, Shard
from django_redq.broker.sync import Broker
from django_redq.consumer.options import Options
from django_redq.consumer.table import Held, Table
from django_redq.lines import get_logger
from django_redq.service import Loop, Outage

logger = get_logger("django_redq.consumer")


class Renewer(Loop):
    """Every third of PENDING_MIN_IDLE renews all that the table holds, finished but unsettled too.

    Args:
        on_late: called when a renewal came later than two thirds of PENDING_MIN_IDLE after the one
            before: others may have taken something over meanwhile.
    """

    name = "renewer"

    def __init__(
        self,
        broker: Broker,
        options: Options,
        table: Table,
        outage: Outage,
        on_late: Callable[[], None],
    ) -> None:
        super().__init__(outage)
        self._broker = broker
        self._options = options
        self._table = table
        self._on_late = on_late
        self._shards = {(shard.queue, shard.number): shard for shard in options.shards}
        self._last = time.monotonic()

    def start(self) -> None:
        self._last = time.monotonic()
        super().start()

    def step(self) -> float:
        """Renews once."""
        began = time.monotonic()
        if began - self._last > 2 * self._options.renew_interval:
            self._on_late()
        self.renew_all()
        self._last = time.monotonic()
        return max(self._options.renew_interval - (self._last - began), 0.01)

    def on_reconnect(self) -> None:
        """Redis was away: what is held may have been taken over."""
        self._on_late()

    def renew_all(self) -> None:
        """Renews what is held now, in one round trip."""
        planned = list(self._calls())
        replies = self._broker.run_many([call for call, _ in planned])
        trouble: Exception | None = None
        for (_, group), reply in zip(planned, replies, strict=True):
            if isinstance(reply, Exception):
                # Where a node is away nobody else can take its tasks over.
                trouble = trouble if isinstance(reply, faults.Away) else reply
                continue
            for held, answer in zip(group, reply, strict=True):
                self._answered(held, answer)
        if trouble is not None:
            raise trouble

    def _calls(self) -> Iterator[tuple[Call[list[Renewed]], list[Held]]]:
        groups: dict[tuple[str, int], list[Held]] = defaultdict(list)
        for held in self._table.snapshot():
            if not held.ownership.lost and held.delivery.task_id:
                groups[held.delivery.queue, held.delivery.shard].append(held)
        now = self._options.now_text()
        for place, group in groups.items():
            shard: Shard = self._shards[place]
            hold_ms = int(self._options.queues[shard.queue].pending_min_idle * 1000)
            for start in range(0, len(group), calls.MAX_SCRIPT_TASKS):
                some = group[start : start + calls.MAX_SCRIPT_TASKS]
                deliveries = [held.delivery for held in some]
                yield (
                    calls.renew(shard, self._options.name, deliveries, now, hold_ms=hold_ms),
                    some,
                )

    def _answered(self, held: Held, answer: Renewed) -> None:
        if answer is Renewed.KEPT or self._table.get(held.delivery) is not held:
            return
        if answer is Renewed.GONE and held.outcome is not None:
            # It is being settled at this moment.
            return
        held.lose()
        logger.info(
            "%s/%s is not held any more: %s",
            held.delivery.queue,
            held.delivery.task_id,
            "another consumer has it" if answer is Renewed.LOST else "it was removed from Redis",
        )

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

AWAY_PAUSE = 1.0
"""Seconds before it tries again where a shard was away."""


class Renewer(Loop):
    """Every third of PENDING_MIN_IDLE renews all that the table holds, finished but unsettled too.

    Args:
        on_late: called when a renewal came later than two thirds of PENDING_MIN_IDLE after the one
            before: others may have taken something over meanwhile.
        on_doubt: called with a shard that was away, so that what is held of it could not be renewed.
    """

    name = "renewer"

    def __init__(
        self,
        broker: Broker,
        options: Options,
        table: Table,
        outage: Outage,
        on_late: Callable[[], None],
        on_doubt: Callable[[Shard], None],
    ) -> None:
        super().__init__(outage)
        self._broker = broker
        self._options = options
        self._table = table
        self._on_late = on_late
        self._on_doubt = on_doubt
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
        interval = self._options.renew_interval
        if not self.renew_all():
            # A slot that was on its way is told of by nobody when it is there.
            interval = min(interval, AWAY_PAUSE)
        self._last = time.monotonic()
        return max(interval - (self._last - began), 0.01)

    def on_reconnect(self) -> None:
        """Redis was away: what is held may have been taken over."""
        self._on_late()

    def renew_all(self) -> bool:
        """Renews what is held now, in one round trip; False where a shard was away."""
        planned = list(self._calls())
        replies = self._broker.run_many([call for _, _, call in planned])
        trouble: Exception | None = None
        reached_all = True
        for (shard, group, _), reply in zip(planned, replies, strict=True):
            if not isinstance(reply, Exception):
                for held, answer in zip(group, reply, strict=True):
                    self._answered(held, answer)
            elif faults.is_outage(reply) and not self._broker.is_away(reply):
                reached_all = False
                self._on_doubt(shard)
            else:
                trouble = reply
        if trouble is not None:
            raise trouble
        return reached_all

    def _calls(self) -> Iterator[tuple[Shard, list[Held], Call[list[Renewed]]]]:
        groups: dict[tuple[str, int], list[Held]] = defaultdict(list)
        for held in self._table.snapshot():
            if not held.ownership.lost and held.delivery.task_id:
                groups[held.delivery.queue, held.delivery.shard].append(held)
        now = self._options.now_text()
        for place, group in groups.items():
            shard = self._shards[place]
            hold_ms = int(self._options.queues[shard.queue].pending_min_idle * 1000)
            for start in range(0, len(group), calls.MAX_SCRIPT_TASKS):
                some = group[start : start + calls.MAX_SCRIPT_TASKS]
                deliveries = [held.delivery for held in some]
                name = self._options.name
                call = calls.renew(shard, name, deliveries, now, hold_ms=hold_ms)
                yield shard, some, call

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

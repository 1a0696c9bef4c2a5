"""Takes over what vanished owners hold: pages through pending entries and claims them, fenced."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Letter, PendingPage, Settled, Shard
from django_redq.broker.delivery import Delivery, PendingRow
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.state import State
from django_redq.broker.sync import Broker
from django_redq.codec import decode_failures, encode_failures
from django_redq.consumer import failure
from django_redq.consumer.announcer import Announcer
from django_redq.consumer.options import Options
from django_redq.consumer.run import allowed_attempts, identify
from django_redq.consumer.settler import letter_of
from django_redq.consumer.table import GATE, Held, Table
from django_redq.lines import get_logger
from django_redq.outcome import Dead, Failure, Reason
from django_redq.service import Loop, Outage

logger = get_logger("django_redq.consumer")


class Recoverer(Loop):
    """Every RECOVERY_INTERVAL follows the pending entries of every shard to their end.

    Args:
        submit: runs what was claimed.
        on_orphan: called when an entry bears this consumer's name that it does not know of.
    """

    name = "recoverer"

    def __init__(
        self,
        broker: Broker,
        options: Options,
        table: Table,
        outage: Outage,
        announcer: Announcer,
        submit: Callable[[Held], None],
        on_orphan: Callable[[], None],
    ) -> None:
        super().__init__(outage)
        self._broker = broker
        self._options = options
        self._table = table
        self._announcer = announcer
        self._submit = submit
        self._on_orphan = on_orphan
        self._not_before = 0.0
        self._bad: set[Shard] = set()

    def step(self) -> float:
        """One round."""
        held_off = self._not_before - time.monotonic()
        if held_off > 0:
            return held_off
        self.recover()
        return self._options.recovery_interval

    def on_failure(self) -> None:
        """The failed round trip may have claimed something all the same."""
        self._on_orphan()

    def hold_off(self) -> None:
        """Recovers nothing for one PENDING_MIN_IDLE: live owners may be late with their renewals."""
        longest = max(queue.pending_min_idle for queue in self._options.queues.values())
        self._not_before = time.monotonic() + longest

    def recover(self) -> int:
        """Goes through every shard once; how many tasks were taken over, parked or buried."""
        return sum(self._recover_if_well(shard) for shard in self._options.shards)

    def _recover_if_well(self, shard: Shard) -> int:
        try:
            handled = self._recover_shard(shard)
        except faults.Away:
            # It may have claimed something all the same.
            self._on_orphan()
            return 0
        except faults.REDIS_ERRORS as error:
            if faults.is_outage(error):
                raise
            if shard not in self._bad:
                self._bad.add(shard)
                logger.warning(
                    "shard %d of %r cannot be recovered from, the others can: %s",
                    shard.number,
                    shard.queue,
                    faults.in_words(error),
                )
            return 0
        self._bad.discard(shard)
        return handled

    def _recover_shard(self, shard: Shard) -> int:
        queue = self._options.queues[shard.queue]
        min_idle_ms, left = int(queue.pending_min_idle * 1000), queue.recovery_count
        cursor: str | None = "-"
        handled = 0
        while cursor is not None and handled < left and not self._stopping.is_set():
            page: PendingPage = self._broker.run(
                calls.pending_page(
                    shard, min_idle_ms=min_idle_ms, start=cursor, limit=left - handled
                )
            )
            for row in page.rows:
                handled += self._handle(shard, row, min_idle_ms)
            cursor = page.cursor
        return handled

    def _handle(self, shard: Shard, row: PendingRow, min_idle_ms: int) -> bool:
        one, queue = row.delivery, self._options.queues[shard.queue]
        stands_for_none = not row.in_stream or not one.task_id or one.what == "second"
        if not stands_for_none and one.record is None and queue.missing_payload == "keep_pending":
            return False
        if row.owner == self._options.name:
            if self._table.get(one) is None:
                self._on_orphan()
            return False
        if stands_for_none:
            return self._drop(shard, row)
        if one.record is None:
            return self._bury(shard, row, Reason.MISSING_PAYLOAD, one.state.allowed, min_idle_ms)
        allowed = allowed_attempts(one.record, queue)
        if one.attempt >= allowed:
            return self._bury(shard, row, Reason.WORKER_LOST, allowed, min_idle_ms)
        if one.attempt + 1 == allowed:
            return self._claim(shard, row, SUSPECTS_CONSUMER, one.count, allowed, min_idle_ms)
        return self._take(shard, row, allowed, min_idle_ms)

    def _drop(self, shard: Shard, row: PendingRow) -> bool:
        dropped = self._broker.run(calls.drop(shard, [(row.owner, row.delivery.entry_id)]))
        if dropped:
            logger.warning(
                "pending entry %s of shard %d of %r stood for no task and was removed",
                row.delivery.entry_id,
                shard.number,
                shard.queue,
            )
        return dropped > 0

    def _take(self, shard: Shard, row: PendingRow, allowed: int, min_idle_ms: int) -> bool:
        """Claims a task for this process, if it has a slot for it."""
        with GATE:
            if not self._table.reserve(1, self._options.recovery_concurrency):
                return False
            try:
                count = row.delivery.count + 1
                claimed = self._claim(shard, row, self._options.name, count, allowed, min_idle_ms)
                if claimed:
                    state = _lost(row.delivery, allowed)
                    delivery = replace(row.delivery, count=count, state=state)
                    held = Held(delivery, recovered=True)
                    self._table.add(held)
            finally:
                self._table.unreserve(1)
        if claimed:
            self._submit(held)
        return claimed

    def _claim(
        self,
        shard: Shard,
        row: PendingRow,
        consumer: str,
        give_count: int,
        allowed: int,
        min_idle_ms: int,
    ) -> bool:
        call = calls.claim(
            shard,
            consumer,
            row,
            _lost(row.delivery, allowed),
            give_count=give_count,
            min_idle_ms=min_idle_ms,
        )
        if not self._broker.run(call):
            return False
        logger.info(
            "%s/%s taken over from %s, which lost it in attempt %d%s",
            shard.queue,
            row.delivery.task_id,
            row.owner,
            row.delivery.attempt,
            "; its last attempt will run alone" if consumer == SUSPECTS_CONSUMER else "",
        )
        return True

    def _bury(
        self, shard: Shard, row: PendingRow, reason: Reason, allowed: int, min_idle_ms: int
    ) -> bool:
        one = row.delivery
        outcome = Dead(reason, _how_it_died(row, reason))
        failures = [*decode_failures(one.state.failures), outcome.failure]
        state = State(
            attempts=one.attempt,
            lost=True,
            allowed=allowed,
            came_from=one.entry_id.encode(),
            failures=encode_failures(failures),
        )
        held = Held(one, recovered=True, outcome=outcome, died_on=row.owner)
        identify(held, self._options.queues[shard.queue])
        letter: Letter = letter_of(outcome, held)
        call: Call[tuple[Settled, str]] = calls.dead_letter(
            shard, row.owner, one, state, letter, self._options.now_text(), min_idle_ms=min_idle_ms
        )
        settled, held.letter_id = self._broker.run(call)
        if settled is not Settled.DONE:
            return False
        logger.error("%s/%s is dead: %s", shard.queue, one.task_id, outcome.failure.error)
        self._announcer.settled(held)
        return True


def _lost(one: Delivery, allowed: int) -> State:
    """The state of a task whose worker was lost."""
    return replace(one.state, lost=True, allowed=allowed)


def _how_it_died(row: PendingRow, reason: Reason) -> Failure:
    if reason is Reason.MISSING_PAYLOAD:
        name, words = "MissingPayload", "its payload is not in Redis: it was removed there"
    else:
        name, words = "WorkerLost", f"consumer {row.owner} vanished while it ran this task"
    return failure.in_words(f"django_redq.errors.{name}", words, row.delivery.attempt)

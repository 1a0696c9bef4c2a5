"""Takes over what vanished owners hold: pages through pending entries and claims them, fenced."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
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
from django_redq.consumer.deeds import Deed, allowed_for, deed_for
from django_redq.consumer.options import Options
from django_redq.consumer.respite import Respites
from django_redq.consumer.run import identify
from django_redq.consumer.settler import letter_of
from django_redq.consumer.table import GATE, Held, Table
from django_redq.lines import get_logger
from django_redq.outcome import Dead, Failure, Reason
from django_redq.service import Loop, Outage

logger = get_logger("django_redq.consumer")


class Recoverer(Loop):
    """Every RECOVERY_INTERVAL follows the pending entries of every shard to their end.

    A round takes RECOVERY_COUNT of a shard at most, so that none waits long for another. Where it left
    some, the next one follows at once; and what it has no slot for is taken as slots become free.

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
        table.on_room = self.wake
        self._respites = Respites(
            {shard: options.queues[shard.queue].pending_min_idle for shard in options.shards}
        )
        self._next_round = 0.0
        self._to_the_end = True
        self._rotation = deque(options.shards)
        self._waiting: deque[tuple[Shard, PendingRow]] = deque()
        """Seen, and left for want of a slot. Claims are fenced: no harm if others were faster."""
        self._is_behind = False
        """Whether a shard had more in the last round than was dealt with."""
        self._bad: set[Shard] = set()

    def step(self) -> float:
        """What is waiting, or one round; seconds until the next."""
        now = time.monotonic()
        is_due = now >= self._next_round
        if self._waiting and not is_due:
            self._go_on_with_waiting()
        elif is_due or self._is_behind:
            if is_due:
                self._next_round = now + self._options.recovery_interval
            handled = self.recover() if is_due else self._round(to_the_end=False)
            self._is_behind = self._is_behind and (handled > 0 or bool(self._waiting))
        if self._is_behind and not self._waiting:
            return 0.0
        self._next_round = min(self._next_round, self._respites.next_end())
        # The table wakes it when there is a slot for what is waiting.
        return max(self._next_round - time.monotonic(), 0.01)

    def on_failure(self) -> None:
        """The failed round trip may have claimed something all the same."""
        self._on_orphan()
        self._respites.doubt(self._options.shards)
        # That it is over has to be learnt from an answer.
        self._next_round = 0.0

    def doubt(self, shard: Shard) -> None:
        """The shard did not answer, so that owners are late with their renewals; safe from any thread.

        From its next answer on it is left alone for one PENDING_MIN_IDLE.
        """
        self._respites.doubt([shard])

    def hold_off(self, longest: float = float("inf")) -> None:
        """Recovers nothing for one PENDING_MIN_IDLE, and for ``longest`` seconds at the most: live
        owners may be late with their renewals. Safe from any thread.
        """
        self._respites.give(self._options.shards, longest)
        self.wake()

    def recover(self) -> int:
        """Goes through every shard once; how many tasks were taken over, parked or buried."""
        return self._round(to_the_end=True)

    def _round(self, *, to_the_end: bool) -> int:
        """One round; where there is no slot it ends, or goes on for the sake of what needs none."""
        self.wait_for_none()
        self._to_the_end = to_the_end
        self._is_behind = False
        self._rotation.rotate(-1)
        asked = [shard for shard in self._rotation if self._respites.wants_asking(shard)]
        return sum(self._if_well(shard, self._recover_shard) for shard in asked)

    def wait_for_none(self) -> None:
        """Gives up what was left for want of a slot, until the next round."""
        self._waiting.clear()
        self._table.await_none()

    def _if_well(self, shard: Shard, recover: Callable[[Shard], int]) -> int:
        try:
            handled = recover(shard)
        except faults.REDIS_ERRORS as error:
            if self._broker.is_away(error):
                raise
            if faults.is_outage(error):
                # It may have claimed something all the same.
                self._on_orphan()
                self.doubt(shard)
                return 0
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
        while cursor is not None and handled < left and self._goes_on:
            page: PendingPage = self._broker.run(
                calls.pending_page(
                    shard, min_idle_ms=min_idle_ms, start=cursor, limit=left - handled
                )
            )
            if self._respites.answered(shard):
                return handled
            handled += self._handle(shard, page.rows, min_idle_ms)
            cursor = page.cursor
        self._is_behind = self._is_behind or cursor is not None
        return handled

    @property
    def _goes_on(self) -> bool:
        return (self._to_the_end or not self._waiting) and not self._stopping.is_set()

    def _handle(self, shard: Shard, rows: Sequence[PendingRow], min_idle_ms: int) -> int:
        deeds: dict[Deed, list[PendingRow]] = defaultdict(list)
        for row in rows:
            deeds[self._deed(shard, row)].append(row)
        handled = sum(self._drop(shard, row) for row in deeds[Deed.DROP])
        for deed, reason in (
            (Deed.BURY_UNREAD, Reason.MISSING_PAYLOAD),
            (Deed.BURY, Reason.WORKER_LOST),
        ):
            handled += sum(self._bury(shard, row, reason, min_idle_ms) for row in deeds[deed])
        handled += self._park(shard, deeds[Deed.PARK])
        if self._waiting:
            self._is_behind = self._is_behind or bool(deeds[Deed.TAKE])
            return handled
        self._waiting.extend((shard, row) for row in deeds[Deed.TAKE])
        return handled + self._take_waiting()

    def _deed(self, shard: Shard, row: PendingRow) -> Deed:
        is_own = row.owner == self._options.name
        deed = deed_for(row, self._options.queues[shard.queue], is_own=is_own)
        if is_own and self._table.get(row.delivery) is None:
            self._on_orphan()
        return deed

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

    def _go_on_with_waiting(self) -> None:
        shard = self._waiting[0][0]
        if self._respites.covers(shard):
            self.wait_for_none()
        else:
            self._if_well(shard, lambda _: self._take_waiting())

    def _take_waiting(self) -> int:
        """Claims for this process what it has slots for; how many it got."""
        taken = 0
        while self._waiting:
            slots, arrived = self._take_some()
            taken += arrived
            if not slots:
                return taken
        self._table.await_none()
        return taken

    def _take_some(self) -> tuple[int, int]:
        """(slots that there were, tasks that were taken)"""
        arrived: list[Held] = []
        with GATE:
            limit = self._options.recovery_concurrency
            slots = self._table.reserve_for_recovered(len(self._waiting), limit)
            shard = self._waiting[0][0]
            some = [self._waiting.popleft()[1] for _ in range(slots)]
            try:
                claimed, trouble = self._claim(shard, some, self._options.name)
                for row in claimed:
                    one = row.delivery
                    state = _lost(one, self._allowed(row))
                    delivery = replace(one, count=one.count + 1, state=state)
                    arrived.append(Held(delivery, recovered=True))
                    self._table.add(arrived[-1])
            finally:
                self._table.unreserve(slots)
        for held in arrived:
            self._submit(held)
        if trouble is not None:
            raise trouble
        return slots, len(arrived)

    def _park(self, shard: Shard, rows: Sequence[PendingRow]) -> int:
        """Hands suspects to their reserved consumer."""
        claimed, trouble = self._claim(shard, rows, SUSPECTS_CONSUMER)
        if trouble is not None:
            raise trouble
        return len(claimed)

    def _claim(
        self, shard: Shard, rows: Sequence[PendingRow], consumer: str
    ) -> tuple[list[PendingRow], Exception | None]:
        """Claims them in one round trip: those that it got, and what went wrong with one of the others."""
        if not rows:
            return [], None
        parked = consumer == SUSPECTS_CONSUMER
        min_idle_ms = int(self._options.queues[shard.queue].pending_min_idle * 1000)
        replies = self._broker.run_many(
            [
                calls.claim(
                    shard,
                    consumer,
                    row,
                    _lost(row.delivery, self._allowed(row)),
                    give_count=row.delivery.count + (not parked),
                    min_idle_ms=min_idle_ms,
                )
                for row in rows
            ]
        )
        claimed: list[PendingRow] = []
        trouble: Exception | None = None
        for row, reply in zip(rows, replies, strict=True):
            if isinstance(reply, Exception):
                trouble = reply
            elif reply:
                claimed.append(row)
                _say_taken(row, parked=parked)
        return claimed, trouble

    def _allowed(self, row: PendingRow) -> int:
        return allowed_for(row, self._options.queues[row.delivery.queue])

    def _bury(self, shard: Shard, row: PendingRow, reason: Reason, min_idle_ms: int) -> bool:
        one, allowed = row.delivery, self._allowed(row)
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


def _say_taken(row: PendingRow, *, parked: bool) -> None:
    one = row.delivery
    logger.info(
        "%s/%s taken over from %s, which lost it in attempt %d%s",
        one.queue,
        one.task_id,
        row.owner,
        one.attempt,
        "; its last attempt will run alone" if parked else "",
    )


def _lost(one: Delivery, allowed: int) -> State:
    """The state of a task whose worker was lost."""
    return replace(one.state, lost=True, allowed=allowed)


def _how_it_died(row: PendingRow, reason: Reason) -> Failure:
    if reason is Reason.MISSING_PAYLOAD:
        name, words = "MissingPayload", "its payload is not in Redis: it was removed there"
    else:
        name, words = "WorkerLost", f"consumer {row.owner} vanished while it ran this task"
    return failure.in_words(f"django_redq.errors.{name}", words, row.delivery.attempt)

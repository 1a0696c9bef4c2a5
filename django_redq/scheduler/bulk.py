"""Carries bulk work on dead letters on, in the shards whose leases this instance has."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django_redq.broker import bulk_calls, calls, faults
from django_redq.broker.bulk_calls import BulkStep, StoredBulk, StoredBulks
from django_redq.broker.calls import Shard
from django_redq.broker.inspector import run_some
from django_redq.broker.sync import Broker, shards_for
from django_redq.conf import QueueConfig
from django_redq.dead_letters.bulk import Bulk, BulkAction, BulkState
from django_redq.dead_letters.bulk_record import Definition, bulk_of, decode
from django_redq.lines import get_logger
from django_redq.scheduler.leases import Leases

logger = get_logger("django_redq.scheduler")

TURN = 0.03
"""Seconds after which a turn ends. Its steps go out one by one, for those that share a round trip block
Redis for their sum; and with the janitor's pause after each turn, others get most of Redis' time."""
LOOK_INTERVAL = 1.0
"""Seconds between looks whether other instances are through with their shards."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A bulk that is under way."""

    queue: str
    shards: Sequence[Shard]
    """All of the queue, whether it is about them or not."""
    stored: StoredBulk
    definition: Definition

    @property
    def bulk_id(self) -> str:
        return self.stored.bulk_id

    def __str__(self) -> str:
        return f"bulk {self.definition.action} {self.bulk_id} of {self.queue!r}"

    def work(self, shard: Shard, *, own_clock: bool) -> BulkStep:
        """The share of one shard."""
        definition, begun = self.definition, self.stored.begun
        filters = definition.filters(begun)
        # By a clock of our own a letter's time says nothing of its entry ID.
        first, last = ("-", "+") if own_clock else filters.span()
        return BulkStep(
            bulk_id=self.bulk_id,
            first=first,
            till=self.stored.till if last == "+" else min(self.stored.till, int(last)),
            action=definition.action,
            start=definition.start(begun),
            spread=definition.spread,
            phase=shard.number / len(self.shards),
            asked=filters.asked,
        )

    def shown(self, found: Sequence[StoredBulks]) -> Bulk:
        """As a person sees it, who has looked at all shards."""
        parts = [
            one.parts.get(self.bulk_id)
            for number, one in enumerate(found)
            if self.definition.concerns(number)
        ]
        return bulk_of(self.queue, self.stored, self.definition, parts, unreachable=())


_Part = tuple[str, Shard]
"""The ID of a bulk, and a shard that it is about."""


class BulkCarrier:
    """Takes turns at what is open; the janitor calls it."""

    def __init__(
        self,
        broker: Broker,
        queues: Sequence[QueueConfig],
        leases: Leases,
        now: Callable[[], float] | None,
    ) -> None:
        self._broker = broker
        self._shards = {queue.name: shards_for(broker.config, queue) for queue in queues}
        self._leases = leases
        self._now = now
        self._open: dict[str, _Open] = {}
        self._order: deque[_Part] = deque()
        """What is to be done here; whose turn it was last is at the end."""
        self._over: set[_Part] = set()
        """What was to be done here and is."""
        self._looked = 0.0
        self._said: set[str] = set()

    def turn(self) -> bool:
        """Carries on what is open for a moment; whether there is more to do here.

        Raises:
            redis.RedisError: Redis is away, or in a state that passes.
        """
        self._read_open()
        if not self._open:
            return False
        self._line_up()
        stepped = self._take_steps()
        now = time.monotonic()
        if not self._order and (stepped or now - self._looked >= LOOK_INTERVAL):
            self._looked = now
            self._end_what_is_through()
        return bool(self._order)

    def _clock(self) -> str:
        return calls.clock(None if self._now is None else int(self._now() * 1000))

    def _say_once(self, level: int, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.log(level, "%s", what)

    # --- what there is to do ---------------------------------------------------------------------

    def _read_open(self) -> None:
        """Reads what is open: before each turn, so that what was stopped does not go on."""
        held = {shard.queue for shard in self._leases.held}
        queues = [(name, shards) for name, shards in self._shards.items() if name in held]
        batch = [bulk_calls.read(shards[0], open_only=True) for _, shards in queues]
        was_open, self._open = self._open, {}
        for (name, shards), reply in zip(queues, self._broker.run_many(batch), strict=True):
            if isinstance(reply, Exception):
                self._fault(f"the bulks of {name!r} cannot be read", reply)
                was_open = {key: one for key, one in was_open.items() if one.queue != name}
                continue
            for stored in reply.records.values():
                if (found := self._decoded(name, shards, stored)) is not None:
                    self._open[found.bulk_id] = found
        self._tell(was_open)

    def _decoded(self, queue: str, shards: Sequence[Shard], stored: StoredBulk) -> _Open | None:
        try:
            return _Open(queue, shards, stored, decode(stored))
        except ValueError as error:
            # A later version may know more; somebody may stop it.
            said = f"bulk {stored.bulk_id!r:.80} of {queue!r} cannot be carried on: {error}"
            self._say_once(logging.WARNING, said)
            return None

    def _tell(self, was_open: Mapping[str, _Open]) -> None:
        for bulk_id, one in self._open.items():
            if bulk_id not in was_open and one.shards[0] in self._leases.held:
                by = f", begun by {one.definition.by!r}," if one.definition.by else ""
                logger.info("%s%s is under way", one, by)
        for bulk_id, one in was_open.items():
            if bulk_id not in self._open and one.shards[0] in self._leases.held:
                logger.info("%s was stopped", one)

    def _line_up(self) -> None:
        """Puts what is to be done here in order."""
        todo = dict.fromkeys(
            (one.bulk_id, shard)
            for one in self._open.values()
            for shard in one.shards
            if shard in self._leases.held and one.definition.concerns(shard.number)
        )
        self._over.intersection_update(todo)
        known = [part for part in self._order if part in todo]
        self._order = deque(dict.fromkeys([*known, *todo]))
        for part in self._over:
            self._order.remove(part)

    # --- doing it --------------------------------------------------------------------------------

    def _take_steps(self) -> bool:
        """Steps in turn until the time is up; whether there was one."""
        ends, stepped = time.monotonic() + TURN, False
        while self._order and not (stepped and time.monotonic() >= ends):
            part = self._order.popleft()
            state, stepped = self._step(part), True
            if state == "going":
                self._order.append(part)
            elif state:
                self._over.add(part)
        return stepped

    def _step(self, part: _Part) -> str:
        """The state of the part after a step; '' where none can be taken now."""
        bulk_id, shard = part
        one = self._open[bulk_id]
        try:
            work = one.work(shard, own_clock=self._now is not None)
            return self._broker.run(
                bulk_calls.step(shard, self._leases.instance, work, self._clock())
            )
        except faults.REDIS_ERRORS as error:
            self._fault(f"{one} cannot be carried on in shard {shard.number}", error)
            return ""

    def _fault(self, what: str, error: Exception) -> None:
        """An outage ends the turn; what is wrong with one shard does not keep the others waiting."""
        if isinstance(error, faults.Away):
            return
        if self._broker.is_away(error):
            raise error
        self._say_once(logging.WARNING, f"{what}, the rest goes on: {faults.in_words(error)}")

    def _end_what_is_through(self) -> None:
        """Who serves the first shard notes that all are through, whoever served them."""
        mine = [one for one in self._open.values() if one.shards[0] in self._leases.held]
        for queue in dict.fromkeys(one.queue for one in mine):
            found = run_some(self._broker, [bulk_calls.read(s) for s in self._shards[queue]])
            for one in mine:
                if one.queue == queue and not any(isinstance(of, Exception) for of in found):
                    self._end_if_through(one, one.shown(found))

    def _end_if_through(self, one: _Open, bulk: Bulk) -> None:
        if bulk.state is not BulkState.DONE:
            # Where Redis has forgotten what was done here, it is done again.
            self._over = {part for part in self._over if part[0] != one.bulk_id}
            return
        self._broker.run(bulk_calls.end(one.shards[0], one.bulk_id, "done", self._clock()))
        del self._open[one.bulk_id]
        logger.info("%s is done: %s", one, _in_words(bulk))


def _in_words(bulk: Bulk) -> str:
    done = "replayed" if bulk.action is BulkAction.REPLAY else "discarded"
    facts = [f"{bulk.changed} {done}"]
    if bulk.missing:
        facts.append(f"{bulk.missing} without payload")
    if bulk.gone:
        facts.append(f"{bulk.gone} of no task")
    return ", ".join(facts)

"""Work on many dead letters: begin it, see how far it is, stop it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from django_redq.broker import bulk_calls
from django_redq.broker.bulk_calls import MAX_OPEN, StoredBulk, StoredBulks
from django_redq.broker.inspector import run_some
from django_redq.dead_letters import arguments
from django_redq.dead_letters.arguments import Which
from django_redq.dead_letters.bulk import Bulk, BulkAction
from django_redq.dead_letters.bulk_record import Definition, bulk_of, decode, encode, kept
from django_redq.dead_letters.reading import DeadLetterReader
from django_redq.errors import BulkNotFound, InvalidArgument, TooManyBulks
from django_redq.task import new_task_id
from django_redq.twins import blocks, twin

MAX_SURVEY = 2000
"""Letters that are looked at to tell how many a bulk is about, where no counter tells."""
MAX_OVER = 20
"""Bulks of a queue that are kept when they are over."""


class BulkWork(DeadLetterReader):
    """The part of :class:`DeadLetterQueue` that is carried on in the background.

    What is begun here is a record in Redis. The schedulers that hold the leases of the queue's shards
    carry it on, so no request has to wait for it, and it outlives whoever began it.
    """

    @blocks
    def start_replay(
        self,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        spread: float | timedelta | None = None,
        by: str = "",
        bulk_id: str | None = None,
        **which: Unpack[Which],
    ) -> Bulk:
        """Has many dead tasks put back to work, those of a shard that died first first.

        Only what is there now: a task that is replayed and dies again is not replayed again.

        Args:
            run_at: when they are due, as of :func:`django_redq.enqueue`.
            delay: the same, counted from now; without both they are due as they are replayed.
            spread: seconds or timedelta from then on, over which they are spread evenly, so that what
                they call is not overrun.
            by: who wants it; shown, and logged.
            bulk_id: made by the caller, a UUID, so that a request which is sent twice begins one
                bulk; where there is one of this ID, that is returned as it stands.
            which: as of :meth:`DeadLetterQueue.list`; without any, all.

        Raises:
            InvalidArgument: an argument breaks its rule; nothing was done.
            TooManyBulks: ten of this queue are not through yet.
            redis.RedisError: Redis did not answer, or refuses.
        """
        due = arguments.check_due(run_at, delay)
        return self._start(
            bulk_id,
            which,
            action=BulkAction.REPLAY,
            run_at=due.run_at,
            delay=math.ceil(due.delay * 1000),
            spread=math.ceil((arguments.check_spread(spread) or 0) * 1000),
            by=by,
        )

    @blocks
    def start_discard(
        self, *, by: str = "", bulk_id: str | None = None, **which: Unpack[Which]
    ) -> Bulk:
        """Has many dead letters removed for good, and their tasks with them; only what is there now.

        Args:
            by: who wants it; shown, and logged.
            bulk_id: as of :meth:`start_replay`.
            which: as of :meth:`DeadLetterQueue.list`; without any, all.

        Raises:
            InvalidArgument: an argument breaks its rule; nothing was done.
            TooManyBulks: ten of this queue are not through yet.
            redis.RedisError: Redis did not answer, or refuses.
        """
        return self._start(bulk_id, which, action=BulkAction.DISCARD, by=by)

    @blocks
    def bulk(self, bulk_id: str) -> Bulk:
        """One of them, as far as it is now.

        Raises:
            BulkNotFound: there is none of this ID; of those that are over the last 20 are kept.
            redis.RedisError: Redis did not answer. A shard that alone does not is told by
                ``unreachable``, unless it is the first, which knows what was begun.
        """
        return self._found(self._named(bulk_id), *self._read())

    @blocks
    def bulks(self) -> tuple[Bulk, ...]:
        """All that are not over and the last 20 that are, the newest first.

        Raises:
            redis.RedisError: as of :meth:`bulk`.
        """
        records, shards = self._read()
        # The IDs begin with the time at which they were made, but a caller may bring others.
        newest_first = sorted(
            records.values(), key=lambda stored: (stored.begun, stored.bulk_id), reverse=True
        )
        shown = (self._shown(stored, shards) for stored in newest_first)
        return tuple(bulk for bulk in shown if bulk is not None)

    @blocks
    def stop_bulk(self, bulk_id: str) -> bool:
        """Ends one of them; what was done stays so, the other letters stay as they are.

        Returns:
            False where it was over before.

        Raises:
            BulkNotFound: there is none of this ID.
            redis.RedisError: Redis did not answer, or refuses.
        """
        name, now = self._named(bulk_id), self._clock()
        self._broker.open(self._settings)
        ended = self._broker.run(bulk_calls.end(self._shards[0], name, "stopped", now))
        if ended < 0:
            raise BulkNotFound(self.queue, bulk_id)
        # So that not even a step which is under way follows. A shard that does not hear of it now
        # stops by the record in shard 0, which is read before each round.
        run_some(self._broker, [bulk_calls.halt(shard, name, now) for shard in self._shards])
        return ended == 1

    astart_replay = twin(start_replay)
    astart_discard = twin(start_discard)
    abulk = twin(bulk)
    abulks = twin(bulks)
    astop_bulk = twin(stop_bulk)

    def _named(self, bulk_id: str) -> str:
        """The ID as it is kept; what is none is not found."""
        try:
            return arguments.check_bulk_id(bulk_id)
        except InvalidArgument:
            raise BulkNotFound(self.queue, bulk_id) from None

    def _start(
        self, bulk_id: str | None, which: Which, *, action: BulkAction, by: str, **due: Any
    ) -> Bulk:
        name = new_task_id() if bulk_id is None else arguments.check_bulk_id(bulk_id)
        there = self.survey(max_scan=MAX_SURVEY, partial=True, **which)
        definition = Definition(
            action=action,
            which=kept({**which}),
            by=arguments.check_by(by),
            expected=there.count,
            exact=there.exact,
            **due,
        )
        self._broker.open(self._settings)
        begin = bulk_calls.begin(self._shards[0], name, encode(definition), self._clock())
        if self._broker.run(begin) < 0:
            raise TooManyBulks(self.queue, MAX_OPEN)
        records, found = self._read()
        self._forget_old(records, found)
        return self._found(name, records, found)

    def _forget_old(
        self, records: Mapping[str, StoredBulk], shards: Sequence[StoredBulks | None]
    ) -> None:
        """Drops those that are over but for the last few; the record last, so that all can be dropped
        again where a shard did not answer.
        """
        over = sorted(
            (stored for stored in records.values() if stored.state != "open"),
            key=lambda stored: (stored.begun, stored.bulk_id),
        )
        old = [stored.bulk_id for stored in over[:-MAX_OVER]]
        if not old or None in shards:
            return
        drop = [bulk_calls.drop(shard, old, records=False) for shard in self._shards]
        if not any(isinstance(reply, Exception) for reply in run_some(self._broker, drop)):
            self._broker.run(bulk_calls.drop(self._shards[0], old, records=True))

    def _read(self) -> tuple[Mapping[str, StoredBulk], list[StoredBulks | None]]:
        """What was begun, and what each shard has of it; None of one that did not answer."""
        self._broker.open(self._settings)
        replies = run_some(self._broker, [bulk_calls.read(shard) for shard in self._shards])
        if isinstance(replies[0], Exception):
            raise replies[0]
        shards = [None if isinstance(reply, Exception) else reply for reply in replies]
        return replies[0].records, shards

    def _found(
        self,
        bulk_id: str,
        records: Mapping[str, StoredBulk],
        shards: Sequence[StoredBulks | None],
    ) -> Bulk:
        stored = records.get(bulk_id)
        shown = None if stored is None else self._shown(stored, shards)
        if shown is None:
            raise BulkNotFound(self.queue, bulk_id)
        return shown

    def _shown(self, stored: StoredBulk, shards: Sequence[StoredBulks | None]) -> Bulk | None:
        """None where the record is broken: the janitor tells of it."""
        try:
            definition = decode(stored)
        except ValueError:
            return None
        parts = {number: of for number, of in enumerate(shards) if definition.concerns(number)}
        return bulk_of(
            self.queue,
            stored,
            definition,
            [None if of is None else of.parts.get(stored.bulk_id) for of in parts.values()],
            [number for number, of in parts.items() if of is None],
        )

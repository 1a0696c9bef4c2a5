"""The dead letters of one queue, over all its shards: what people use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from django_redq.broker import operator_calls
from django_redq.broker.calls import Call, Shard
from django_redq.broker.dead_walk import Place, Walk, bounds_of
from django_redq.broker.operator_calls import Replayed
from django_redq.dead_letters import arguments, named, steps
from django_redq.dead_letters.arguments import Due, Progress, Which
from django_redq.dead_letters.bulk_work import BulkWork
from django_redq.dead_letters.editing import UNCHANGED, edited
from django_redq.dead_letters.letters import (
    LetterRef,
    ReplayResult,
    result_of,
)
from django_redq.dead_letters.reading import name_of
from django_redq.errors import DeadLetterNotFound, InvalidArgument, NotReplayable
from django_redq.task import check_task_id
from django_redq.twins import blocks, twin

ReplyT = TypeVar("ReplyT")
Results = list[ReplayResult]


class DeadLetterQueue(BulkWork):
    """The dead letters of one queue: list, count, replay, discard, at once or in the background.

        dlq = DeadLetterQueue("email")
        for letter in dlq.list(reason="exhausted"):
            print(letter.task_id, letter.error)
        dlq.replay(letter.task_id, delay=60)
        dlq.replay_batch(older_than=3600)
        dlq.start_replay(kind="welcome", spread=600)

    A letter is named by the ID of its task, which can be dead only once at a time; its shard follows
    from the ID. What has no such name, a tombstone or what somebody else wrote there, is named by
    its ``entry_id``. Each method but ``replay_each`` has an async twin, its name with an ``a`` before
    it: ``alist``, ``areplay``, ``astart_replay``.

    Which letters a method is about is told by ``shard``, ``kind``, ``reason``, ``exception_type``,
    ``task_id``, ``idempotency_key``, ``text``, ``since``, ``until`` and ``older_than``
    (:class:`django_redq.dead_letters.arguments.Which`).

    Args:
        queue: its name.
        now: seconds since the epoch, what the scripts take for the time; None: Redis' own clock.
        broker: the connection to use; None: that of the settings.

    Raises:
        UnknownQueue: ``REDQ`` has no such queue.
    """

    @blocks
    def replay(
        self,
        task_id: str,
        *,
        entry_id: str | None = None,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        payload: Any = UNCHANGED,
    ) -> ReplayResult:
        """Puts a dead task back to work, its attempts and last error reset.

        It leaves the dead letters and is SCHEDULED or READY, in one step; or nothing happens.

        Args:
            task_id: the dead task.
            entry_id: the letter that is meant, so that a later death of the task is not hit.
            run_at: when it is due, as of :func:`django_redq.enqueue`.
            delay: the same; without both it is due at once.
            payload: takes the place of the task's own; ``entry_id`` has to be given then. All else
                of the task stays as it was enqueued.

        Raises:
            DeadLetterNotFound: there is no such letter; it may have been replayed already.
            NotReplayable: it is a tombstone, and has no payload to run again.
            InvalidArgument: an argument breaks its rule, or the payload does not fit what its
                handler declares; nothing was done.
            redis.RedisError: Redis did not answer, or refuses.
        """
        due, name = arguments.check_due(run_at, delay), name_of(check_task_id(task_id), entry_id)
        [shard] = self._opened(self._shard_of(name))
        if payload is UNCHANGED:
            [reply] = self._run(operator_calls.replay(shard, [name], due.when(), self._clock()))
        else:
            reply = self._replay_edited(shard, name, due, payload)
        if reply.due is None:
            if reply.missing or self._find(name, shard.number) is not None:
                raise NotReplayable(self.queue, task_id)
            raise DeadLetterNotFound(self.queue, task_id)
        return result_of(Place(shard, entry_id or "", name[0]), reply)

    @blocks
    def replay_batch(
        self,
        *,
        count: int | None = None,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        progress: Progress | None = None,
        **which: Unpack[Which],
    ) -> Results:
        """Puts many dead tasks back to work, those that died first first.

        Only what is there when it begins: a task that is replayed and dies again meanwhile is not
        replayed again. It goes in steps of a hundred, so that Redis serves others in between.

        Args:
            count: this many letters at most.
            run_at: when they are due, as of :func:`django_redq.enqueue`.
            delay: the same, counted from the call; without both they are due at once.
            progress: called after each step with the number of letters dealt with so far.
            which: as of :meth:`list`; without any, all.

        Returns:
            What became of each letter; tombstones are among them, not replayed.

        Raises:
            InvalidArgument: an argument breaks its rule; nothing was done.
            redis.RedisError: Redis did not answer, or refuses; what was replayed before stays so.
        """
        results = self.replay_each(
            count=count, run_at=run_at, delay=delay, progress=progress, **which
        )
        return [*results]

    @blocks
    def replay_each(
        self,
        *,
        count: int | None = None,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        progress: Progress | None = None,
        **which: Unpack[Which],
    ) -> Iterator[ReplayResult]:
        """As :meth:`replay_batch`, one result at a time: it goes on as the results are taken."""
        due, limit = arguments.check_due(run_at, delay), arguments.check_limit(count)
        walk = self._walk_what_is_there(**which)
        places = steps.some(walk, limit)
        return steps.replay(self._broker, places, due, self._clock, progress)

    @blocks
    def discard(
        self, task_id: str = "", *, entry_id: str | None = None, shard: int | None = None
    ) -> bool:
        """Removes a dead letter for good, and its task with it.

        Args:
            task_id: of its task.
            entry_id: the letter that is meant, where the task may have died again meanwhile; alone,
                it names a letter without task. A tombstone needs it.
            shard: where it is; needed only if an ``entry_id`` alone is found in several.

        Returns:
            False where there is no such letter.

        Raises:
            InvalidArgument: an argument breaks its rule, or several shards have this entry.
            redis.RedisError: Redis did not answer.
        """
        name = name_of(task_id, entry_id)
        number = self._shard_of(name, shard)
        if number is None:
            found = self._find(name, None)
            if found is None:
                return False
            number = found.shard
        [of] = self._opened(number)
        return self._run(operator_calls.discard(of, [name]))[0]

    @blocks
    def purge(
        self,
        *,
        count: int | None = None,
        progress: Progress | None = None,
        **which: Unpack[Which],
    ) -> int:
        """Removes many dead letters for good, those that died first first; how many were removed.

        Only what is there when it begins, in steps of a hundred.

        Args:
            count: this many at most.
            progress: called after each step with the number of letters removed so far.
            which: as of :meth:`list`; without any, all.

        Raises:
            InvalidArgument: an argument breaks its rule; nothing was done.
            redis.RedisError: Redis did not answer; what was removed before stays so.
        """
        limit = arguments.check_limit(count)
        removed = 0
        for places in steps.some(self._walk_what_is_there(**which), limit):
            removed += steps.discard(self._broker, places)
            if progress is not None:
                progress(removed)
        return removed

    @blocks
    def replay_letters(
        self,
        refs: Iterable[LetterRef],
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        spread: float | timedelta | None = None,
    ) -> Results:
        """Puts the tasks of these letters back to work; what became of each.

        Args:
            refs: at most 1,000; see :attr:`DeadLetter.ref`.
            run_at: when they are due, as of :func:`django_redq.enqueue`.
            delay: the same; without both they are due at once.
            spread: seconds or timedelta, from then on, over which they are spread evenly.

        Raises:
            InvalidArgument: an argument breaks its rule; nothing was done.
            redis.RedisError: Redis did not answer, or refuses; what was replayed before stays so.
        """
        due, seconds = arguments.check_due(run_at, delay), arguments.check_spread(spread)
        places = named.places_of(self._opened(None), refs)
        return named.replay(self._broker, places, due, seconds, self._clock)

    @blocks
    def discard_letters(self, refs: Iterable[LetterRef]) -> int:
        """Removes these letters for good, and their tasks with them; how many were there.

        Raises:
            InvalidArgument: there are more than 1,000, or one is of no shard of this queue.
            redis.RedisError: Redis did not answer; what was removed before stays so.
        """
        return steps.discard(self._broker, named.places_of(self._opened(None), refs))

    areplay = twin(replay)
    areplay_batch = twin(replay_batch)
    adiscard = twin(discard)
    apurge = twin(purge)
    areplay_letters = twin(replay_letters)
    adiscard_letters = twin(discard_letters)

    def _replay_edited(
        self, shard: Shard, name: tuple[str, str], due: Due, payload: Any
    ) -> Replayed:
        if not name[1]:
            raise InvalidArgument("entry_id", "is needed with payload: which letter was edited")
        stored = self._find(name, shard.number)
        if stored is None:
            return Replayed(None)
        record = edited(self._settings, name[0], stored, payload)
        call = operator_calls.replay_edited(shard, name, record, due.when(), self._clock())
        return self._run(call)

    def _run(self, call: Call[ReplyT]) -> ReplyT:
        return self._broker.run(call)

    def _walk_what_is_there(self, **which: Unpack[Which]) -> Walk:
        shard, filters = arguments.check_which(**which)
        shards = self._opened(shard)
        till = {of: found.newest for of, found in bounds_of(self._broker, shards).items()}
        return Walk(self._broker, shards, filters=filters, till=till, now=self._clock())

"""The dead letters of one queue, over all its shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from django_redq.broker import operator_calls
from django_redq.broker.calls import Call, Shard
from django_redq.broker.dead_reading import StoredLetter, load, read_letters
from django_redq.broker.dead_walk import Filters, Place, Walk, bounds_of
from django_redq.broker.keys import shard_of
from django_redq.broker.operator_calls import Replayed
from django_redq.dead_letters import arguments, named, steps
from django_redq.dead_letters.arguments import Due, Progress, Which
from django_redq.dead_letters.browsing import browse
from django_redq.dead_letters.bulk_work import BulkWork
from django_redq.dead_letters.editing import UNCHANGED, edited
from django_redq.dead_letters.groups import DeadGroups, groups_of
from django_redq.dead_letters.letters import (
    DeadLetter,
    DeadLetterPage,
    LetterRef,
    ReplayResult,
    letter_of,
    result_of,
)
from django_redq.dead_letters.survey import Survey, survey
from django_redq.errors import DeadLetterNotFound, InvalidArgument, NotReplayable
from django_redq.task import check_task_id
from django_redq.twins import blocks, twin

ReplyT = TypeVar("ReplyT")
Results = list[ReplayResult]


class DeadLetterQueue(BulkWork):
    """The dead letters of one queue: list, replay, discard, purge.

        dlq = DeadLetterQueue("email")
        for letter in dlq.list(reason="exhausted"):
            print(letter.task_id, letter.error)
        dlq.replay(letter.task_id, delay=60)
        dlq.replay_batch(older_than=3600)

    A letter is named by the ID of its task, which can be dead only once at a time; its shard follows
    from the ID. What has no such name, a tombstone or what somebody else wrote there, is named by
    its ``entry_id``. Each method has an async twin: ``alist``, ``aget``, ``acount``, ``areplay``,
    ``areplay_batch``, ``adiscard``, ``apurge``.

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
    def count(self, *, shard: int | None = None) -> int:
        """How many dead letters there are, tombstones included.

        Raises:
            redis.RedisError: Redis did not answer.
        """
        return sum(of.count for of in bounds_of(self._broker, self._opened(shard)).values())

    @blocks
    def get(
        self, task_id: str = "", *, entry_id: str | None = None, shard: int | None = None
    ) -> DeadLetter:
        """One dead letter.

        Args:
            task_id: of its task.
            entry_id: the letter that is meant, where the task may have died again meanwhile; alone,
                it names a letter without task.
            shard: where it is; needed only if an ``entry_id`` alone is found in several.

        Raises:
            DeadLetterNotFound: there is no such letter.
            InvalidArgument: an argument breaks its rule, or several shards have this entry.
            redis.RedisError: Redis did not answer.
        """
        name = _name(task_id, entry_id)
        found = self._find(name, shard)
        if found is None:
            raise DeadLetterNotFound(self.queue, " ".join(filter(None, name)))
        return letter_of(self._settings, found)

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
        due, name = arguments.check_due(run_at, delay), _name(check_task_id(task_id), entry_id)
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
        replayed again. It goes in steps of some hundred, so that Redis serves others in between.

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
        name = _name(task_id, entry_id)
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

        Only what is there when it begins, in steps of some hundred.

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
    def list(
        self,
        *,
        newest_first: bool = True,
        after: str | None = None,
        count: int = 100,
        brief: bool = False,
        max_scan: int | None = None,
        partial: bool = False,
        **which: Unpack[Which],
    ) -> DeadLetterPage:
        """A page of dead letters, in the order of their deaths over all shards.

        No letter that stays is skipped or met twice on the way from page to page, whatever comes
        and goes meanwhile. The arguments are those of :func:`django_redq.dead_letters.browse`.

        Raises:
            InvalidArgument: an argument breaks its rule.
            redis.RedisError: Redis did not answer; with ``partial`` only if no shard does.
        """
        return browse(
            [self.queue],
            newest_first=newest_first,
            after=after,
            count=count,
            brief=brief,
            max_scan=max_scan,
            partial=partial,
            now=self._now,
            broker=self._broker,
            **which,
        )

    @blocks
    def groups(self, *, partial: bool = False) -> DeadGroups:
        """How many dead letters there are of each kind and exception type.

        Raises:
            redis.RedisError: Redis did not answer; with ``partial`` only if no shard does.
        """
        return groups_of(self._broker, self._opened(None, partial=partial), partial=partial)

    @blocks
    def survey(
        self, *, max_scan: int = 10_000, partial: bool = False, **which: Unpack[Which]
    ) -> Survey:
        """How many dead letters there are of some sort, and how old.

        Args:
            max_scan: letters that are looked at at most, where no counter tells.
            partial: leaves out shards that do not answer; the survey names them.
            which: as of :meth:`list`; without any, all.

        Raises:
            InvalidArgument: an argument breaks its rule.
            redis.RedisError: Redis did not answer; with ``partial`` only if no shard does.
        """
        shard, filters = arguments.check_which(**which)
        shards = self._opened(shard, partial=partial)
        scan = arguments.check_limit(max_scan, "max_scan") or 1
        return survey(
            self._broker, shards, filters, max_scan=scan, partial=partial, now=self._clock()
        )

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

    acount = twin(count)
    aget = twin(get)
    areplay = twin(replay)
    areplay_batch = twin(replay_batch)
    adiscard = twin(discard)
    apurge = twin(purge)
    agroups = twin(groups)
    asurvey = twin(survey)
    areplay_letters = twin(replay_letters)
    adiscard_letters = twin(discard_letters)
    alist = twin(list)  # noqa: A003 - the method above is meant

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

    def _shard_of(self, name: tuple[str, str], shard: int | None = None) -> int | None:
        if shard is not None or not name[0]:
            return shard
        return shard_of(name[0], len(self._shards))

    def _walk_what_is_there(self, **which: Unpack[Which]) -> Walk:
        shard, filters = arguments.check_which(**which)
        shards = self._opened(shard)
        till = {of: found.newest for of, found in bounds_of(self._broker, shards).items()}
        return Walk(self._broker, shards, filters=filters, till=till, now=self._clock())

    def _find(self, name: tuple[str, str], shard: int | None) -> StoredLetter | None:
        shards = self._opened(self._shard_of(name, shard))
        found = read_letters(self._broker, shards, name)
        if len(found) > 1:
            numbers = ", ".join(str(one.shard) for one in found)
            raise InvalidArgument(
                "entry_id", f"{name[1]} is an entry of shards {numbers}; say which shard is meant"
            )
        return found[0] if found else self._find_tombstone(name, shards)

    def _find_tombstone(
        self, name: tuple[str, str], shards: Sequence[Shard]
    ) -> StoredLetter | None:
        """No task points at a tombstone, so that of a task ID is looked for."""
        if not name[0] or name[1]:
            return None
        if not any(of.tombstones > 0 for of in bounds_of(self._broker, shards).values()):
            return None
        filters = Filters(task_id=name[0], reason="missing_payload")
        walk = Walk(self._broker, shards, newest_first=True, filters=filters)
        return next((stored for _, stored in load(self._broker, walk.take(1))), None)


def _name(task_id: str, entry_id: str | None) -> tuple[str, str]:
    """The letter as the scripts name it."""
    if not task_id and entry_id is None:
        raise InvalidArgument("task_id", "is needed, or the letter's entry_id")
    return (
        check_task_id(task_id) if task_id else "",
        "" if entry_id is None else arguments.check_entry_id(entry_id),
    )

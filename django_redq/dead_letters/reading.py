"""Dead letters of one queue, looked at; nothing is changed here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Unpack

from django_redq.broker import calls, faults
from django_redq.broker.calls import Shard
from django_redq.broker.dead_reading import StoredLetter, load, read_letters
from django_redq.broker.dead_walk import Filters, Walk, bounds_of
from django_redq.broker.keys import shard_of
from django_redq.broker.sync import Broker, get_broker, shards_for
from django_redq.dead_letters import arguments
from django_redq.dead_letters.arguments import Clock, Which
from django_redq.dead_letters.browsing import browse
from django_redq.dead_letters.groups import DeadGroups, groups_of
from django_redq.dead_letters.letters import DeadLetter, DeadLetterPage, letter_of
from django_redq.dead_letters.survey import Survey, survey
from django_redq.errors import DeadLetterNotFound, InvalidArgument
from django_redq.task import check_task_id
from django_redq.twins import blocks, twin


class DeadLetterReader:
    """The part of :class:`DeadLetterQueue` that shows and counts."""

    def __init__(
        self, queue: str, *, now: Clock | None = None, broker: Broker | None = None
    ) -> None:
        self._broker = broker or get_broker()
        self._settings = self._broker.config.queue(queue)
        self._shards = shards_for(self._broker.config, self._settings)
        self._now = now

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._settings.name

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
        name = name_of(task_id, entry_id)
        found = self._find(name, shard)
        if found is None:
            raise DeadLetterNotFound(self.queue, " ".join(filter(None, name)))
        return letter_of(self._settings, found)

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

    acount = twin(count)
    aget = twin(get)
    agroups = twin(groups)
    asurvey = twin(survey)
    alist = twin(list)  # noqa: A003 - the method above is meant

    def _clock(self) -> str:
        return calls.clock(None if self._now is None else int(self._now() * 1000))

    def _opened(self, shard: int | None, *, partial: bool = False) -> Sequence[Shard]:
        """The shard that is asked for, or all."""
        if shard is not None:
            number = arguments.check_shard(shard, len(self._shards))
        with suppress(*faults.REDIS_ERRORS if partial else ()):
            self._broker.open(self._settings)
        return self._shards if shard is None else [self._shards[number]]

    def _shard_of(self, name: tuple[str, str], shard: int | None = None) -> int | None:
        if shard is not None or not name[0]:
            return shard
        return shard_of(name[0], len(self._shards))

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


def name_of(task_id: str, entry_id: str | None) -> tuple[str, str]:
    """The letter as the scripts name it."""
    if not task_id and entry_id is None:
        raise InvalidArgument("task_id", "is needed, or the letter's entry_id")
    return (
        check_task_id(task_id) if task_id else "",
        "" if entry_id is None else arguments.check_entry_id(entry_id),
    )

"""Work on many dead letters: begin it, see how far it is, stop it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Unpack

from django_redq.broker.sync import Broker, get_broker, shards_for
from django_redq.dead_letters.arguments import Clock, Which
from django_redq.dead_letters.bulk import Bulk
from django_redq.twins import blocks, twin


class BulkWork:
    """The part of :class:`DeadLetterQueue` that is carried on in the background.

    What is begun here is a record in Redis. The schedulers that hold the leases of the queue's shards
    carry it on, so no request has to wait for it, and it outlives whoever began it.
    """

    def __init__(
        self, queue: str, *, now: Clock | None = None, broker: Broker | None = None
    ) -> None:
        self._broker = broker or get_broker()
        self._settings = self._broker.config.queue(queue)
        self._shards = shards_for(self._broker.config, self._settings)
        self._now = now

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
        raise NotImplementedError

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
        raise NotImplementedError

    @blocks
    def bulk(self, bulk_id: str) -> Bulk:
        """One of them, as far as it is now.

        Raises:
            BulkNotFound: there is none of this ID; of those that are over the last 20 are kept.
            redis.RedisError: Redis did not answer. A shard that alone does not is told by
                ``unreachable``, unless it is the first, which knows what was begun.
        """
        raise NotImplementedError

    @blocks
    def bulks(self) -> tuple[Bulk, ...]:
        """All that are not over and the last 20 that are, the newest first.

        Raises:
            redis.RedisError: as of :meth:`bulk`.
        """
        raise NotImplementedError

    @blocks
    def stop_bulk(self, bulk_id: str) -> bool:
        """Ends one of them; what was done stays so, the other letters stay as they are.

        Returns:
            False where it was over before.

        Raises:
            BulkNotFound: there is none of this ID.
            redis.RedisError: Redis did not answer, or refuses.
        """
        raise NotImplementedError

    astart_replay = twin(start_replay)
    astart_discard = twin(start_discard)
    abulk = twin(bulk)
    abulks = twin(bulks)
    astop_bulk = twin(stop_bulk)

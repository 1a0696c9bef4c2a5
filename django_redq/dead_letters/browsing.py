"""Pages of dead letters, of one queue or of several."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Unpack

from django_redq.broker import calls, faults
from django_redq.broker.calls import Shard
from django_redq.broker.dead_reading import load
from django_redq.broker.dead_spots import walked_for
from django_redq.broker.dead_walk import Walk
from django_redq.broker.sync import Broker, get_broker, shards_for
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS, QueueConfig
from django_redq.dead_letters import arguments
from django_redq.dead_letters.arguments import Clock, Which
from django_redq.dead_letters.letters import DeadLetterPage, letter_of
from django_redq.errors import InvalidArgument
from django_redq.twins import blocks


@blocks
def browse(
    queues: Sequence[str] | None = None,
    *,
    newest_first: bool = True,
    after: str | None = None,
    count: int = 100,
    brief: bool = False,
    max_scan: int | None = None,
    partial: bool = False,
    now: Clock | None = None,
    broker: Broker | None = None,
    **which: Unpack[Which],
) -> DeadLetterPage:
    """A page of the dead letters of several queues, in the order of their deaths.

    Args:
        queues: their names; None: all of the settings'.
        newest_first: False: those that died first first.
        after: the ``cursor`` of the page before.
        count: letters on the page, up to 1,000.
        brief: leaves out what a list does not show: task and traceback, and of each text what is
            beyond 300 bytes.
        max_scan: ends the page about where so many letters were looked at, though it may not be
            full; its ``cursor`` leads on.
        partial: leaves out shards that do not answer; the page names them.
        now: seconds since the epoch, what the scripts take for the time; None: Redis' own clock.
        broker: the connection to use; None: that of the settings.
        which: ``kind``, ``reason``, ``exception_type``, ``task_id``, ``idempotency_key``, ``text``,
            ``since``, ``until``, ``older_than``, and, of one queue, ``shard``.

    Raises:
        UnknownQueue: ``REDQ`` has no such queue.
        InvalidArgument: an argument breaks its rule.
        redis.RedisError: Redis did not answer; with ``partial`` only if no shard does.
    """
    of = broker or get_broker()
    names = of.config.queues if queues is None else queues
    settings = {name: of.config.queue(name) for name in names}
    size, position = arguments.check_page(count), arguments.check_after(after)
    scan = arguments.check_limit(max_scan, "max_scan")
    number, filters = arguments.check_which(**which)
    shards = _shards(of, [*settings.values()], number, partial=partial)
    walked, spots = walked_for(
        of,
        [shard for shard in shards if number is None or shard.number == number],
        filters,
        partial=partial,
    )
    walk = Walk(
        of,
        walked,
        spots=spots,
        newest_first=newest_first,
        filters=filters,
        after=position,
        now=calls.clock(None if now is None else int(now() * 1000)),
        ordinals={shard: at for at, shard in enumerate(shards)},
        max_scan=scan,
        partial=partial,
    )
    return _page(of, settings, walk, size, brief=brief)


def _shards(
    broker: Broker, queues: Sequence[QueueConfig], number: int | None, *, partial: bool
) -> list[Shard]:
    if number is not None:
        if len(queues) != 1:
            raise InvalidArgument("shard", "is of one queue; name that queue alone")
        arguments.check_shard(number, queues[0].shards)
    for queue in queues:
        with suppress(*faults.REDIS_ERRORS if partial else ()):
            broker.open(queue)
    return [shard for queue in queues for shard in shards_for(broker.config, queue)]


def _page(
    broker: Broker, queues: dict[str, QueueConfig], walk: Walk, size: int, *, brief: bool
) -> DeadLetterPage:
    # One more than asked for tells whether there is another page.
    places = walk.take_positions(size + 1)
    cursor = places[size - 1][0] if len(places) > size else walk.stopped_at
    reached = None if len(places) > size else walk.stopped_at
    found = load(broker, [place for _, place in places[:size]], brief=brief)
    return DeadLetterPage(
        letters=tuple(letter_of(queues[shard.queue], stored) for shard, stored in found),
        cursor=None if cursor is None else str(cursor),
        scanned=walk.scanned,
        reached=None if reached is None else from_ms(min(reached.ms, LATEST_MS)),
        unreachable=tuple((shard.queue, shard.number) for shard in walk.unreachable),
    )

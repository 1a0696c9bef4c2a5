"""The arguments of :class:`DeadLetterQueue`, checked before anything is asked of Redis."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict, Unpack
from uuid import UUID

from django_redq.broker.dead_walk import Filters, Position, read_position
from django_redq.conf import rules, to_epoch_ms
from django_redq.conf.rules import show
from django_redq.errors import InvalidArgument
from django_redq.producer.arguments import check

Clock = Callable[[], float]
Progress = Callable[[int], None]

MAX_PAGE = 1000
"""Letters of one page: each may have 16 KiB, and a payload."""
MAX_BY = 200
"""Characters of the name of whoever begins a bulk."""

_ENTRY_ID = re.compile(r"\d{1,19}-\d{1,19}", re.ASCII)
_SECOND_LESS = rules.LONGEST - 1
_delay = rules.duration(0, _SECOND_LESS)
_age = rules.optional(rules.duration(0, _SECOND_LESS))
_limit = rules.optional(rules.whole(1))
_page = rules.whole(1, MAX_PAGE)


class Which(TypedDict, total=False):
    """Which dead letters are meant; without any of these, all."""

    shard: int | None
    """Of this shard only."""
    kind: str | None
    """Only tasks of this kind; '' is those without."""
    reason: str | None
    """Only what died of this, a value of :class:`django_redq.outcome.Reason`."""
    exception_type: str | None
    """Only what ended in an exception of this class, by its dotted name; '' is those without."""
    task_id: str | None
    """Only the letter that this task is dead by; where it is not, its tombstones."""
    idempotency_key: str | None
    """Only tasks that bear this one."""
    text: str | None
    """Only letters whose error holds this in its first 64 KiB; ASCII letters of either case are the
    same."""
    since: datetime | None
    """Only what died then or later, to the millisecond."""
    until: datetime | None
    """Only what died then or earlier."""
    older_than: float | timedelta | None
    """Only what died so long ago or earlier, in seconds or as timedelta."""


@dataclass(frozen=True, slots=True)
class Due:
    """When replayed tasks are to run; a delay counts from the call."""

    run_at: int | None
    """ms since the epoch; takes the place of ``delay``."""
    delay: float
    called_at: float = field(default_factory=time.monotonic)

    def when(self, offset: float = 0.0) -> str:
        """As the script wants it at this moment, ``offset`` seconds later: of a delay, what is left."""
        if self.run_at is not None:
            return str(self.run_at + int(offset * 1000))
        delay = self.delay + offset
        left = delay - (time.monotonic() - self.called_at)
        return f"+{math.ceil(left * 1000)}" if delay and left > 0 else ""


def check_due(run_at: datetime | None, delay: float | timedelta | None) -> Due:
    """As of :func:`django_redq.enqueue`."""
    if run_at is None:
        return Due(None, 0.0 if delay is None else check("delay", _delay, delay))
    if delay is not None:
        raise InvalidArgument("run_at", "cannot be given together with delay; choose one")
    return Due(to_epoch_ms(run_at), 0.0)


def check_which(**which: Unpack[Which]) -> tuple[int | None, Filters]:
    """The shard that is asked for, unchecked, and the filters.

    Raises:
        TypeError: one of them is none.
        InvalidArgument: one breaks its rule.
    """
    for name in which.keys() - Which.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {name!r}")
    seconds: float | None = check("older_than", _age, which.get("older_than"))
    filters = Filters(
        kind=_text("kind", which.get("kind")),
        reason=_text("reason", which.get("reason")),
        exception_type=_text("exception_type", which.get("exception_type")),
        task_id=_text("task_id", which.get("task_id")),
        key=_text("idempotency_key", which.get("idempotency_key")),
        text=_text("text", which.get("text")),
        since=_moment("since", which.get("since")),
        until=_moment("until", which.get("until")),
        older_than_ms=None if seconds is None else math.ceil(seconds * 1000),
    )
    return which.get("shard"), filters


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(name, f"must be text, got {show(value)}")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidArgument(name, f"must be text without lone surrogates, got {show(value)}")
    return value


def _moment(name: str, value: datetime | None) -> int | None:
    if value is None:
        return None
    try:
        return to_epoch_ms(value)
    except InvalidArgument as error:
        raise InvalidArgument(name, error.reason) from None


def check_page(count: object) -> int:
    checked: int = check("count", _page, count)
    return checked


def check_limit(count: object, field: str = "count") -> int | None:
    checked: int | None = check(field, _limit, count)
    return checked


def check_spread(spread: object) -> float | None:
    """Seconds over which replayed tasks are spread."""
    checked: float | None = check("spread", _age, spread)
    return checked


def check_shard(shard: object, shards: int) -> int:
    checked: int = check("shard", rules.whole(0, shards - 1), shard)
    return checked


def check_entry_id(value: object) -> str:
    if not isinstance(value, str) or not _ENTRY_ID.fullmatch(value):
        raise InvalidArgument("entry_id", f"must be like 1700000000000-0, got {show(value)}")
    return value


def check_after(cursor: object) -> Position | None:
    if cursor is None:
        return None
    try:
        return read_position(str(cursor))
    except ValueError as error:
        raise InvalidArgument("after", str(error)) from None


# --- of bulk work ----------------------------------------------------------------------------


def check_by(by: object) -> str:
    if not isinstance(by, str) or len(by) > MAX_BY:
        raise InvalidArgument("by", f"must be text of up to {MAX_BY} characters, got {show(by)}")
    return by.encode(errors="replace").decode()


def check_bulk_id(bulk_id: object) -> str:
    """In the form in which it is kept."""
    try:
        return str(UUID(bulk_id if isinstance(bulk_id, str) else ""))
    except ValueError:
        raise InvalidArgument("bulk_id", f"must be a UUID, got {show(bulk_id)}") from None

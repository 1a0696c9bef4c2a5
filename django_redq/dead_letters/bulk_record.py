"""What a bulk is to do, as it is written down when it begins and read by whoever carries it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from django_redq.broker.bulk_calls import StoredBulk, StoredPart
from django_redq.broker.dead_walk import Filters
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS, to_epoch_ms
from django_redq.dead_letters.arguments import Which, check_which
from django_redq.dead_letters.bulk import Bulk, BulkAction, BulkState
from django_redq.errors import InvalidArgument

MAX_BYTES = 8192
"""Of a definition: all of a queue are read in one script."""
_TIMES = frozenset({"since", "until"})

Value = str | int | float


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The definition of a bulk."""

    action: BulkAction
    which: dict[str, Value]
    """The arguments that say which letters; times in ms since the epoch, durations in seconds."""
    run_at: int | None = None
    """When replayed tasks are due, ms since the epoch; beats ``delay``."""
    delay: int = 0
    """ms from the beginning until they are due."""
    spread: int = 0
    """ms over which they are spread from then on."""
    by: str = ""
    expected: int | None = None
    exact: bool = False

    def start(self, begun: int) -> int:
        """When the first replayed task is due, ms since the epoch; 0: as it is replayed."""
        if self.run_at is not None:
            return self.run_at
        return begun + self.delay if self.delay or self.spread else 0

    def concerns(self, shard: int) -> bool:
        """Whether it is about letters of this shard."""
        return self.which.get("shard", shard) == shard

    def filters(self, begun: int) -> Filters:
        """Which letters; an age counts to the beginning, so that no more become old enough."""
        _, filters = check_which(**cast(Which, given(self.which)))
        if filters.older_than_ms is None:
            return filters
        until = begun - filters.older_than_ms
        return replace(
            filters,
            until=until if filters.until is None else min(until, filters.until),
            older_than_ms=None,
        )


_decode = msgspec.json.Decoder(Definition).decode


def encode(definition: Definition) -> bytes:
    """As kept in the record.

    Raises:
        InvalidArgument: it is too long.
    """
    written = msgspec.json.encode(definition)
    if len(written) > MAX_BYTES:
        raise InvalidArgument(
            "which", f"takes {len(written):,} bytes with the rest, and {MAX_BYTES:,} are allowed"
        )
    return written


def decode(stored: StoredBulk) -> Definition:
    """The definition of a record.

    Raises:
        ValueError: the record is broken, or has a filter that is not known here: to pass that over
            would hit letters that are not meant.
    """
    definition = _decode(stored.definition)
    if unknown := definition.which.keys() - Which.__annotations__.keys():
        raise ValueError(f"unknown filter {', '.join(sorted(unknown))}")
    return definition


def kept(which: Mapping[str, Any]) -> dict[str, Value]:
    """The filters, checked already, as a definition keeps them."""
    return {name: _kept(value) for name, value in which.items() if value is not None}


def _kept(value: Any) -> Value:
    if isinstance(value, datetime):
        return to_epoch_ms(value)
    plain: Value = value.total_seconds() if isinstance(value, timedelta) else value
    return plain


def given(which: Mapping[str, Value]) -> dict[str, Any]:
    """The filters as they were given; times as datetime in UTC."""
    return {name: _moment(value) if name in _TIMES else value for name, value in which.items()}


def _moment(value: Value) -> Any:
    return from_ms(min(value, LATEST_MS)) if isinstance(value, int) and value >= 0 else value


def bulk_of(
    queue: str,
    stored: StoredBulk,
    definition: Definition,
    parts: Sequence[StoredPart | None],
    unreachable: Sequence[int],
) -> Bulk:
    """What a person sees of it.

    Args:
        queue: the queue's name.
        stored: the record.
        definition: what it says.
        parts: of the shards that it is about, None where there is none.
        unreachable: shards among these that did not answer.
    """
    there = [part for part in parts if part is not None]
    done = sum(part.state == "done" for part in there)
    state = _state(stored, there, through=done == len(parts))
    run_at = definition.start(stored.begun)
    return Bulk(
        id=stored.bulk_id,
        queue=queue,
        action=definition.action,
        state=state,
        which=given(definition.which),
        run_at=from_ms(min(run_at, LATEST_MS)) if run_at else None,
        spread=definition.spread / 1000 if definition.spread else None,
        by=definition.by,
        expected=definition.expected,
        expected_exact=definition.exact,
        looked_at=sum(part.looked_at for part in there),
        changed=sum(part.changed for part in there),
        gone=sum(part.gone for part in there),
        missing=sum(part.missing for part in there),
        begun_at=from_ms(min(stored.begun, LATEST_MS)),
        ended_at=_ended_at(stored, there, state),
        shards=len(parts),
        shards_done=done,
        unreachable=tuple(unreachable),
    )


def _state(stored: StoredBulk, parts: Sequence[StoredPart], *, through: bool) -> BulkState:
    if through or stored.state == "done":
        return BulkState.DONE
    if stored.state != "open":
        return BulkState.STOPPED
    return BulkState.RUNNING if parts else BulkState.WAITING


def _ended_at(stored: StoredBulk, parts: Sequence[StoredPart], state: BulkState) -> datetime | None:
    if state not in {BulkState.STOPPED, BulkState.DONE}:
        return None
    # The last part may be through a moment before the record is told.
    ended = stored.ended or max((part.ended for part in parts), default=stored.begun)
    return from_ms(min(ended, LATEST_MS))

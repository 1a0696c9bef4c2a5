"""Dead letters counted by kind and exception type."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_redq.broker.calls import Call, Shard
from django_redq.broker.inspector import run
from django_redq.broker.sync import Broker
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS

_OTHERS = b"*"
_COUNTED = re.compile(rb"(\d{1,15}) (\d{1,15}) (\d{1,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """The dead letters of one kind that ended in one class of exception."""

    queue: str
    kind: str
    """Empty for tasks without."""
    exception_type: str
    """Dotted name; empty where no exception is known."""
    count: int
    first_at: datetime
    """When the first one died since there was none, in UTC."""
    last_at: datetime


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """A queue's dead letters by group."""

    groups: tuple[DeadGroup, ...]
    """The largest first."""
    others: int
    """Letters that are counted together, for a shard counts 100 groups at most."""
    uncounted: int
    """Letters that are in no count: somebody else wrote them."""
    exact: bool
    """Whether every letter is in a group of its own; False: filters may find more than is counted."""
    unreachable: tuple[int, ...] = ()
    """Shards that did not answer."""


def dead_groups(shard: Shard) -> Call[tuple[int, list[bytes]]]:
    """Reads as the number of letters, and groups each with its count."""
    keys = shard.keys
    return Call("dead_groups", (keys.dlq, keys.groups), (), lambda reply: (reply[0], reply[1]))


@dataclass(slots=True)
class _Sum:
    count: int = 0
    first: int = LATEST_MS
    last: int = 0

    def add(self, count: int, first: int, last: int) -> None:
        self.count += count
        self.first, self.last = min(self.first, first), max(self.last, last)


def groups_of(broker: Broker, shards: Sequence[Shard], *, partial: bool) -> DeadGroups:
    """The groups of a queue's shards, added up.

    Raises:
        redis.RedisError: Redis did not answer, or refuses; with ``partial`` only if no shard does.
    """
    replies = run(broker, [dead_groups(shard) for shard in shards], partial=partial)
    failed = tuple(
        shard.number
        for shard, reply in zip(shards, replies, strict=True)
        if isinstance(reply, Exception)
    )
    answered = [reply for reply in replies if not isinstance(reply, Exception)]
    return _added_up(shards[0].queue, answered, failed)


def _added_up(
    queue: str, replies: Sequence[tuple[int, list[bytes]]], unreachable: tuple[int, ...]
) -> DeadGroups:
    sums: dict[bytes, _Sum] = defaultdict(_Sum)
    for _, flat in replies:
        for name, counted in _counts(flat):
            sums[name].add(*counted)
    others = sums.pop(_OTHERS, _Sum()).count
    groups = [_group(queue, name, found) for name, found in sums.items()]
    groups.sort(key=lambda group: (-group.count, group.kind, group.exception_type))
    total, counted = sum(letters for letters, _ in replies), sum(one.count for one in groups)
    return DeadGroups(
        groups=tuple(groups),
        others=others,
        uncounted=max(total - counted - others, 0),
        exact=total == counted and not unreachable,
        unreachable=unreachable,
    )


def _counts(flat: Sequence[bytes]) -> Iterator[tuple[bytes, Any]]:
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        found = _COUNTED.fullmatch(value)
        if found is not None and (b" " in name or name == _OTHERS):
            yield name, map(int, found.groups())


def _group(queue: str, name: bytes, found: _Sum) -> DeadGroup:
    kind, _, exception_type = name.decode(errors="replace").partition(" ")
    return DeadGroup(
        queue=queue,
        kind=kind,
        exception_type=exception_type,
        count=found.count,
        first_at=from_ms(min(found.first, LATEST_MS)),
        last_at=from_ms(min(found.last, LATEST_MS)),
    )

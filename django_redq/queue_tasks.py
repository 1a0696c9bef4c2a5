"""The tasks of a queue by state, as people see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_redq.broker.calls import Shard
from django_redq.broker.sync import Broker
from django_redq.broker.task_pages import Row, read_page
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS, rules
from django_redq.errors import InvalidArgument
from django_redq.producer.arguments import check
from django_redq.task import TaskState, is_task_id

MAX_PAGE = 1000
_page = rules.whole(1, MAX_PAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task on a page: what is known of it without its payload."""

    task_id: str
    """Empty for what somebody else wrote there, and names no task."""
    queue: str
    shard: int
    state: TaskState
    kind: str
    enqueued_at: datetime | None
    """In UTC; None where that cannot be read."""
    due_at: datetime | None
    """When it is due (SCHEDULED), in UTC."""
    ready_since: datetime | None
    """When it became READY (READY, RUNNING), in UTC."""
    consumer: str
    """Who runs it (RUNNING); else empty."""
    attempts: int
    """Runs begun so far."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some tasks; iterate over it."""

    tasks: tuple[TaskRow, ...]
    cursor: str | None
    """What :meth:`Queue.tasks` wants as ``after`` for the next page; None: this is the last one."""
    unreachable: tuple[int, ...] = ()
    """Shards that did not answer; their tasks are not on it."""

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TaskRow]:
        return iter(self.tasks)


def task_page(
    broker: Broker,
    shards: Sequence[Shard],
    state: TaskState | str,
    after: str | None,
    count: int,
    *,
    partial: bool,
) -> TaskPage:
    """See :meth:`django_redq.queue.Queue.tasks`."""
    of = _check_state(state)
    size: int = check("count", _page, count)
    try:
        page = read_page(broker, shards, of, after, size, partial=partial)
    except ValueError as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument("after", str(error)) from None
    return TaskPage(tuple(_shown(of, row) for row in page.rows), page.cursor, page.unreachable)


def _check_state(state: TaskState | str) -> TaskState:
    try:
        of = TaskState(state)
    except ValueError:
        known = ", ".join(one for one in TaskState if one is not TaskState.DEAD)
        raise InvalidArgument("state", f"must be one of {known}, got {state!r:.80}") from None
    if of is TaskState.DEAD:
        raise InvalidArgument("state", "dead letters are listed by DeadLetterQueue.list()")
    return of


def _shown(state: TaskState, row: Row) -> TaskRow:
    return TaskRow(
        task_id=row.task_id if is_task_id(row.task_id) else "",
        queue=row.shard.queue,
        shard=row.shard.number,
        state=state,
        kind=row.kind,
        enqueued_at=_moment(row.at),
        due_at=_moment(row.due),
        ready_since=None if state is TaskState.SCHEDULED else _moment(row.order[0]),
        consumer=row.consumer,
        attempts=row.attempts,
    )


def _moment(ms: Any) -> datetime | None:
    return None if ms is None else from_ms(int(min(max(ms, 0), LATEST_MS)))

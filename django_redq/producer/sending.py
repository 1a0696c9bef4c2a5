"""Sends prepared tasks, and tells ``task_enqueued`` of those that Redis accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django_redq import signals
from django_redq.broker.aio import get_async_broker
from django_redq.broker.calls import Submission
from django_redq.broker.sync import get_broker
from django_redq.errors import ConfigurationError, UnknownQueue
from django_redq.producer.arguments import Clock, Prepared
from django_redq.task import EnqueueResult

Outcome = bool | Exception
"""True: Redis has it; False: it had one of this ID; an exception: why neither is known."""

_SHOWN_IDS = 5


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Tasks that go out in one pipeline, under one clock."""

    positions: list[int]
    submissions: list[Submission]
    now_ms: int | None

    def by_queue(self) -> list[_Parcel]:
        parts: dict[str, _Parcel] = {}
        for position, one in zip(self.positions, self.submissions, strict=True):
            part = parts.setdefault(one.queue, _Parcel([], [], self.now_ms))
            part.positions.append(position)
            part.submissions.append(one)
        return list(parts.values())

    def failed(self, error: Exception) -> list[tuple[int, Outcome]]:
        return [(position, error) for position in self.positions]

    def done(self, outcomes: Sequence[Outcome]) -> list[tuple[int, Outcome]]:
        return list(zip(self.positions, outcomes, strict=True))


def _pack(tasks: Sequence[Prepared]) -> Iterator[_Parcel]:
    """One parcel, unless producers with clocks of their own have shared a transaction."""
    by_clock: dict[Clock | None, list[int]] = {}
    for position, task in enumerate(tasks):
        by_clock.setdefault(task.now, []).append(position)
    for now, positions in by_clock.items():
        now_ms = None if now is None else int(now() * 1000)
        yield _Parcel(positions, [tasks[at].submission() for at in positions], now_ms)


def _in_order(size: int, found: list[tuple[int, Outcome]]) -> list[Outcome]:
    outcomes: list[Outcome] = [False] * size
    for position, outcome in found:
        outcomes[position] = outcome
    return outcomes


def send(tasks: Sequence[Prepared]) -> list[Outcome]:
    """Sends each, whatever becomes of the others."""
    found: list[tuple[int, Outcome]] = []
    for parcel in _pack(tasks):
        found += _send(parcel)
    outcomes = _in_order(len(tasks), found)
    if signals.task_enqueued.receivers:
        for task, outcome in zip(tasks, outcomes, strict=True):
            if isinstance(outcome, bool):
                signals.send(signals.task_enqueued, **_facts(task, created=outcome))
    return outcomes


def _send(parcel: _Parcel) -> list[tuple[int, Outcome]]:
    try:
        return parcel.done(get_broker().enqueue(parcel.submissions, parcel.now_ms))
    except (ConfigurationError, UnknownQueue) as error:
        # Found before anything was sent; it is one queue's fault, and not that of the others.
        parts = parcel.by_queue()
        if len(parts) == 1:
            return parcel.failed(error)
        return [one for part in parts for one in _send(part)]
    except Exception as error:  # noqa: BLE001 - each caller decides what a failure means
        return parcel.failed(error)


async def asend(tasks: Sequence[Prepared]) -> list[Outcome]:
    """As :func:`send`, on the running loop; for tasks of one producer."""
    found: list[tuple[int, Outcome]] = []
    for parcel in _pack(tasks):
        try:
            replies = await get_async_broker().enqueue(parcel.submissions, parcel.now_ms)
            found += parcel.done(replies)
        except Exception as error:  # noqa: BLE001 - as in send
            found += parcel.failed(error)
    outcomes = _in_order(len(tasks), found)
    if signals.task_enqueued.receivers:
        for task, outcome in zip(tasks, outcomes, strict=True):
            if isinstance(outcome, bool):
                await signals.task_enqueued.asend_robust(
                    sender=None, **_facts(task, created=outcome)
                )
    return outcomes


def _facts(task: Prepared, *, created: bool) -> dict[str, str | bool]:
    return {
        "queue": task.queue,
        "task_id": task.task_id,
        "kind": task.kind,
        "duplicate": not created,
    }


def result(task: Prepared, *, duplicate: bool | None) -> EnqueueResult:
    return EnqueueResult(task.task_id, task.queue, task.shard, duplicate)


def results(tasks: Sequence[Prepared], outcomes: Sequence[Outcome]) -> list[EnqueueResult]:
    """What the caller gets.

    Raises:
        Exception: the first failure, with a note that names the tasks that failed.
    """
    pairs = list(zip(tasks, outcomes, strict=True))
    failed = [(task, outcome) for task, outcome in pairs if isinstance(outcome, Exception)]
    if failed:
        error = failed[0][1]
        error.add_note(_note([task for task, _ in failed], len(tasks)))
        raise error
    return [result(task, duplicate=outcome is False) for task, outcome in pairs]


def _note(failed: Sequence[Prepared], size: int) -> str:
    ids = ", ".join(task.task_id for task in failed[:_SHOWN_IDS])
    more = f" and {len(failed) - _SHOWN_IDS} more" if len(failed) > _SHOWN_IDS else ""
    return (
        f"django-redq: {len(failed)} of {size} task(s) of queue {failed[0].queue!r} may not have "
        f"been enqueued: {ids}{more}. To be sure, enqueue again under the same task_id: what is "
        "there already is not enqueued twice."
    )

"""From what Redis holds of a task to what ``get_task`` answers."""

from __future__ import annotations

from typing import Any

from django_redq import registry
from django_redq.broker.keys import shard_of
from django_redq.broker.operator_calls import Snapshot
from django_redq.codec import (
    Record,
    build_task,
    decode_failures,
    decode_payload,
    decode_record,
)
from django_redq.codec.records import from_ms
from django_redq.conf import QueueConfig
from django_redq.errors import ConfigurationError, InvalidPayload, UnknownKind
from django_redq.outcome import Failure
from django_redq.task import Task, TaskInfo, TaskState


def task_info(queue: QueueConfig, task_id: str, found: Snapshot) -> TaskInfo:
    errors = decode_failures(found.failures)
    return TaskInfo(
        task_id=task_id,
        queue=queue.name,
        shard=shard_of(task_id, queue.shards),
        state=found.state,
        task=_task(queue, task_id, found, errors[-1] if errors else None),
        run_at=None if found.due is None else from_ms(found.due),
        attempts=found.attempts,
        worker_lost=found.worker_lost,
        errors=errors,
        consumer=found.consumer,
    )


def _task(
    queue: QueueConfig, task_id: str, found: Snapshot, last_error: Failure | None
) -> Task[Any] | None:
    if found.record is None:
        return None
    try:
        record = decode_record(found.record)
        payload = decode_payload(record.payload, None)
    except InvalidPayload:
        return None
    begun = found.state in {TaskState.RUNNING, TaskState.DEAD}
    return build_task(
        record,
        task_id=task_id,
        queue=queue.name,
        payload=payload,
        attempt=max(found.attempts, 1) if begun else found.attempts + 1,
        max_attempts=runs_of(queue, record),
        due=found.due,
        last_error=last_error,
    )


def runs_of(queue: QueueConfig, record: Record) -> int:
    """The runs of a task whose record leaves them open: as its handler says, where this process
    knows it, else as its queue does.
    """
    try:
        of_handler = registry.find(queue.name, record.kind).max_attempts
    except (UnknownKind, ConfigurationError):
        of_handler = None
    return queue.max_attempts if of_handler is None else of_handler

"""A delay queue and task queue for Django on Redis or Valkey: the public names, nothing else.

A name is imported when it is first asked for. So this package can be among INSTALLED_APPS, whose
modules are imported before the settings are ready, and a web process loads no consumer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_redq.broker.meter import Activity
    from django_redq.consumer.consumer import Consumer
    from django_redq.dead_letters import (
        Bulk,
        BulkAction,
        BulkState,
        DeadGroup,
        DeadGroups,
        DeadLetter,
        DeadLetterPage,
        DeadLetterQueue,
        LetterRef,
        ReplayResult,
        Survey,
    )
    from django_redq.errors import (
        BulkNotFound,
        ClearRefused,
        ConfigurationError,
        DeadLetterNotFound,
        EnqueueFailed,
        HandlerTimeout,
        InvalidArgument,
        InvalidPayload,
        MissingPayload,
        NotReplayable,
        PayloadTooLarge,
        RedqError,
        Reject,
        Retry,
        StaleDelivery,
        TooManyBulks,
        UnknownKind,
        UnknownQueue,
    )
    from django_redq.handlers import Handler, dead_letter_handler, handler
    from django_redq.outcome import Failure, Reason
    from django_redq.producer import (
        Producer,
        acancel,
        aenqueue,
        aenqueue_many,
        aget_task,
        cancel,
        enqueue,
        enqueue_many,
        get_task,
    )
    from django_redq.queue import Queue
    from django_redq.queue_stats import QueueStats, SeenConsumer
    from django_redq.queue_tasks import TaskPage, TaskRow
    from django_redq.scheduler.scheduler import Scheduler
    from django_redq.service import QueueGroup
    from django_redq.signals import (
        task_dead_lettered,
        task_enqueued,
        task_retried,
        task_started,
        task_succeeded,
    )
    from django_redq.task import CancelResult, EnqueueResult, Task, TaskInfo, TaskSpec, TaskState
    from django_redq.troubles import Trouble, TroubleCode, troubles_of

_HOMES = {
    "consumer.consumer": ("Consumer",),
    "broker.meter": ("Activity",),
    "dead_letters": (
        "Bulk",
        "BulkAction",
        "BulkState",
        "DeadGroup",
        "DeadGroups",
        "DeadLetter",
        "DeadLetterPage",
        "DeadLetterQueue",
        "LetterRef",
        "ReplayResult",
        "Survey",
    ),
    "errors": (
        "BulkNotFound",
        "ClearRefused",
        "ConfigurationError",
        "DeadLetterNotFound",
        "EnqueueFailed",
        "HandlerTimeout",
        "InvalidArgument",
        "InvalidPayload",
        "MissingPayload",
        "NotReplayable",
        "PayloadTooLarge",
        "RedqError",
        "Reject",
        "Retry",
        "StaleDelivery",
        "TooManyBulks",
        "UnknownKind",
        "UnknownQueue",
    ),
    "handlers": ("Handler", "dead_letter_handler", "handler"),
    "outcome": ("Failure", "Reason"),
    "producer": (
        "Producer",
        "acancel",
        "aenqueue",
        "aenqueue_many",
        "aget_task",
        "cancel",
        "enqueue",
        "enqueue_many",
        "get_task",
    ),
    "queue": ("Queue",),
    "queue_stats": ("QueueStats", "SeenConsumer"),
    "queue_tasks": ("TaskPage", "TaskRow"),
    "scheduler.scheduler": ("Scheduler",),
    "service": ("QueueGroup",),
    "signals": (
        "task_dead_lettered",
        "task_enqueued",
        "task_retried",
        "task_started",
        "task_succeeded",
    ),
    "task": ("CancelResult", "EnqueueResult", "Task", "TaskInfo", "TaskSpec", "TaskState"),
    "troubles": ("Trouble", "TroubleCode", "troubles_of"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Activity",
    "Bulk",
    "BulkAction",
    "BulkNotFound",
    "BulkState",
    "CancelResult",
    "ClearRefused",
    "ConfigurationError",
    "Consumer",
    "DeadGroup",
    "DeadGroups",
    "DeadLetter",
    "DeadLetterNotFound",
    "DeadLetterPage",
    "DeadLetterQueue",
    "EnqueueFailed",
    "EnqueueResult",
    "Failure",
    "Handler",
    "HandlerTimeout",
    "InvalidArgument",
    "InvalidPayload",
    "LetterRef",
    "MissingPayload",
    "NotReplayable",
    "PayloadTooLarge",
    "Producer",
    "Queue",
    "QueueGroup",
    "QueueStats",
    "Reason",
    "RedqError",
    "Reject",
    "ReplayResult",
    "Retry",
    "Scheduler",
    "SeenConsumer",
    "StaleDelivery",
    "Survey",
    "Task",
    "TaskInfo",
    "TaskPage",
    "TaskRow",
    "TaskSpec",
    "TaskState",
    "TooManyBulks",
    "Trouble",
    "TroubleCode",
    "UnknownKind",
    "UnknownQueue",
    "acancel",
    "aenqueue",
    "aenqueue_many",
    "aget_task",
    "cancel",
    "dead_letter_handler",
    "enqueue",
    "enqueue_many",
    "get_task",
    "handler",
    "task_dead_lettered",
    "task_enqueued",
    "task_retried",
    "task_started",
    "task_succeeded",
    "troubles_of",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME_OF[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

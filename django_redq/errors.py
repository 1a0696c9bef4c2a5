"""Every error that django-redq raises, and the two words a handler may raise to steer.

All errors share :class:`RedqError` and the fitting built-in, so ``except ValueError`` works
where a reader would expect it. What a handler raises to ask for something (:class:`Retry`,
:class:`Reject`) is no error of ours and stands apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured


class RedqError(Exception):
    """Base of every error that this package raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception would call __init__ with the finished message in place of what it was made of.
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[RedqError], args: tuple[Any, ...]) -> RedqError:
    error = kind.__new__(kind)
    error.args = args
    return error


class ConfigurationError(RedqError, ImproperlyConfigured):
    """``REDQ``, a handler or the connection is not as it must be.

    ``faults`` holds each fault as one sentence; the message joins them.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class InvalidArgument(RedqError, ValueError):
    """An argument of a call breaks its rule; nothing was sent.

    ``field`` names the argument (and the path inside it), ``reason`` the rule.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")

    def put_inside(self, outer: str) -> None:
        """Makes ``delay`` into ``tasks[3].delay``: the argument was part of a larger one."""
        self.field = f"{outer}.{self.field}"
        self.args = (f"{self.field}: {self.reason}",)


class PayloadTooLarge(InvalidArgument):
    """The encoded task is larger than the queue's ``MAX_PAYLOAD_BYTES``."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            "payload",
            f"the task takes {size:,} bytes as JSON, and MAX_PAYLOAD_BYTES allows {limit:,}; "
            "send a reference (a primary key, a storage path) instead of the data",
        )


class InvalidPayload(RedqError, ValueError):
    """A stored payload does not decode, or does not fit the type that its handler declares."""


class UnknownQueue(RedqError, LookupError):
    """The queue is not among ``REDQ["QUEUES"]``."""

    def __init__(self, queue: object, known: Iterable[str]) -> None:
        self.queue = queue
        self.known = tuple(sorted(known))
        super().__init__(
            f"{queue!r} is not a queue of REDQ['QUEUES']; known: {', '.join(self.known)}"
        )


class UnknownKind(RedqError, LookupError):
    """No handler is registered for this kind of task on this queue."""

    def __init__(self, queue: str, kind: str, known: Iterable[str]) -> None:
        self.queue = queue
        self.kind = kind
        self.known = tuple(sorted(known))
        names = ", ".join(repr(name) for name in self.known) or "none"
        super().__init__(f"no handler for kind {kind!r} on queue {queue!r}; known kinds: {names}")


class MissingPayload(RedqError, LookupError):
    """A delivered task has no payload any more: somebody removed it from Redis."""


class StaleDelivery(RedqError):
    """The caller does not own this delivery any more; nothing was changed."""

    def __init__(self, queue: str, task_id: str) -> None:
        self.queue = queue
        self.task_id = task_id
        super().__init__(f"task {task_id} of {queue!r} is not held by this consumer any more")


class DeadLetterNotFound(RedqError, LookupError):
    """No such dead letter: it was replayed, discarded, or never died."""

    def __init__(self, queue: str, task_id: str) -> None:
        self.queue = queue
        self.task_id = task_id
        super().__init__(f"{queue!r} holds no dead letter {task_id!r}")


class NotReplayable(RedqError, ValueError):
    """A tombstone: the dead letter has no payload, so there is nothing to run again."""

    def __init__(self, queue: str, task_id: str) -> None:
        self.queue = queue
        self.task_id = task_id
        super().__init__(
            f"dead letter {task_id!r} of {queue!r} cannot be replayed: its payload is missing"
        )


class BulkNotFound(RedqError, LookupError):
    """No such bulk work on this queue's dead letters: it never was, or is long over."""

    def __init__(self, queue: str, bulk_id: str) -> None:
        self.queue = queue
        self.bulk_id = bulk_id
        super().__init__(f"{queue!r} has no bulk {bulk_id!r}; of those that are over few are kept")


class TooManyBulks(RedqError, RuntimeError):
    """So much bulk work is under way on this queue that no more is begun."""

    def __init__(self, queue: str, limit: int) -> None:
        self.queue = queue
        self.limit = limit
        super().__init__(
            f"{limit} bulks of {queue!r} are not through yet; wait for one, or stop one. "
            "It is the queue's schedulers that carry them on"
        )


class EnqueueFailed(RedqError):
    """A commit hook could not send every task; the data is committed, these tasks are not sent.

    ``tasks`` holds (queue, task ID) of each; the first cause is chained.
    """

    def __init__(self, tasks: Iterable[tuple[str, str]]) -> None:
        self.tasks = tuple(tasks)
        shown = ", ".join(f"{queue}/{task_id}" for queue, task_id in self.tasks[:5])
        more = f" and {len(self.tasks) - 5} more" if len(self.tasks) > 5 else ""
        super().__init__(f"{len(self.tasks)} task(s) not enqueued after commit: {shown}{more}")


class ClearRefused(RedqError, RuntimeError):
    """``clear()`` on the cache alias of the queues: FLUSHDB would take every task."""


class HandlerTimeout(BaseException):
    """Raised into a handler that runs longer than its ``timeout``.

    Not an :class:`Exception`, so that a handler's own ``except Exception`` does not swallow it.
    """


class Retry(Exception):
    """Raise from a handler to have the task run again, after ``delay`` or as the policy says.

    Args:
        delay: seconds or timedelta; None takes the retry policy's delay.
        reason: kept as the task's last error.
    """

    def __init__(self, reason: str = "", *, delay: float | timedelta | None = None) -> None:
        self.reason = reason
        self.delay = delay
        super().__init__(reason or "the handler asked for a retry")


class Reject(Exception):
    """Raise from a handler to dead-letter the task at once, however many attempts are left."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "the handler rejected the task")

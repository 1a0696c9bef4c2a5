"""Holds tasks until the transaction around the call has committed, and then sends them.

Each call registers one commit hook, as a user's own ``transaction.on_commit`` would, so that what
Django drops on a rollback, or a test captures, is exactly what was enqueued there. The calls made
at one level of savepoints share a batch, and the first of their hooks sends it whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from django_redq.conf.rules import show
from django_redq.errors import EnqueueFailed, InvalidArgument
from django_redq.lines import get_logger
from django_redq.producer.arguments import Prepared
from django_redq.producer.sending import send

logger = get_logger("django_redq.producer")

Level = tuple[str | None, ...]
"""The savepoints that are open, outermost first."""
Failed = tuple[Prepared, Exception]


def wait_for_commit(tasks: Sequence[Prepared], using: str) -> bool:
    """Has the tasks sent when the transaction of ``using`` commits.

    Returns:
        False where there is no transaction; they are the caller's to send then.

    Raises:
        InvalidArgument: there is no such database.
        TransactionManagementError: autocommit is off and no atomic block is open, so that nobody
            can tell when the caller commits.
    """
    connection = _connection(using)
    if not connection.in_atomic_block:
        _refuse_manual_transactions(connection)
        return False
    _register(connection, tasks)
    return True


def _connection(using: object) -> BaseDatabaseWrapper:
    if isinstance(using, str) and using in connections.settings:
        return connections[using]
    known = ", ".join(map(repr, connections))
    raise InvalidArgument("using", f"must be an alias of DATABASES ({known}), got {show(using)}")


def _refuse_manual_transactions(connection: BaseDatabaseWrapper) -> None:
    # Django's get_autocommit() would connect, which a project without a database cannot.
    if connection.connection is None:
        autocommit = connection.settings_dict["AUTOCOMMIT"]
    else:
        autocommit = connection.autocommit
    if not autocommit:
        raise TransactionManagementError(
            f"enqueue() waits for the commit, and nobody tells of it: autocommit is off for "
            f"{connection.alias!r}. Use transaction.atomic(), or say mode='immediate'."
        )


class _Batch:
    """Tasks of one level of savepoints; kept alive by their hooks alone."""

    def __init__(self) -> None:
        self._tasks: list[Prepared | None] = []

    def append(self, tasks: Sequence[Prepared]) -> None:
        self._tasks += tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def take(self, start: int) -> list[Prepared]:
        """What was added from ``start`` on and was not taken yet.

        Not what was added before: its own hook may be one that a test has left uncalled.
        """
        taken = [task for task in self._tasks[start:] if task is not None]
        self._tasks[start:] = [None] * (len(self._tasks) - start)
        return taken


class _Transaction:
    """The hooks of one transaction, and what of theirs failed.

    Hooks are held weakly: one that Django drops, when its savepoint is rolled back, is gone from
    here too, and its batch with it.
    """

    def __init__(self) -> None:
        self.batches: WeakValueDictionary[Level, _Batch] = WeakValueDictionary()
        self._hooks: WeakValueDictionary[int, _Hook] = WeakValueDictionary()
        self._numbers = itertools.count()
        self._failed: list[Failed] = []

    def register(self, hook: _Hook) -> None:
        hook.number = next(self._numbers)
        self._hooks[hook.number] = hook

    def send(self, tasks: Sequence[Prepared], number: int) -> None:
        """Sends; the last of the hooks raises for all, since Django calls none after one raised."""
        if tasks:
            self._failed += _send_and_log(tasks)
        if self._failed and not any(later > number for later in self._hooks):
            failed, self._failed = self._failed, []
            raise EnqueueFailed((task.queue, task.task_id) for task, _ in failed) from failed[0][1]


class _Hook:
    """What Django calls after the commit, for one call of ``enqueue``."""

    number: int

    def __init__(self, transaction: _Transaction, batch: _Batch) -> None:
        self.transaction = transaction
        self._batch = batch
        self._start = len(batch)
        transaction.register(self)

    def __call__(self) -> None:
        self.transaction.send(self._batch.take(self._start), self.number)


_current: WeakKeyDictionary[BaseDatabaseWrapper, _Transaction] = WeakKeyDictionary()


def _register(connection: BaseDatabaseWrapper, tasks: Sequence[Prepared]) -> None:
    current = _transaction_of(connection)
    level = tuple(connection.savepoint_ids)
    batch = current.batches.get(level)
    if batch is None:
        batch = current.batches[level] = _Batch()
    transaction.on_commit(_Hook(current, batch), using=connection.alias)
    batch.append(tasks)


def _transaction_of(connection: BaseDatabaseWrapper) -> _Transaction:
    """The open transaction's books: those of before, as long as a hook of theirs still waits."""
    current = _current.get(connection)
    # The latest are looked at first; so the next one of ours is near.
    hooks = (entry[1] for entry in reversed(connection.run_on_commit))
    if current is None or not any(
        isinstance(hook, _Hook) and hook.transaction is current for hook in hooks
    ):
        current = _current[connection] = _Transaction()
    return current


def _send_and_log(tasks: Sequence[Prepared]) -> list[Failed]:
    failed: list[Failed] = []
    for task, outcome in zip(tasks, send(tasks), strict=True):
        if isinstance(outcome, Exception):
            failed.append((task, outcome))
            logger.error(
                "the data is committed, but task %s of queue %r was not enqueued: %s: %s",
                task.task_id,
                task.queue,
                type(outcome).__name__,
                outcome,
            )
    return failed

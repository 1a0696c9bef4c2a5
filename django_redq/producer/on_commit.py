"""Holds tasks until the transaction around the call has committed, and then sends them.

Each call registers one commit hook, as a user's own ``transaction.on_commit`` would, so that what
Django drops on a rollback, or a test captures, is exactly what was enqueued there. The calls made
at one level of savepoints share a batch, and the first of their hooks sends it whole.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from django_redq.conf.rules import show
from django_redq.errors import EnqueueFailed, InvalidArgument
from django_redq.producer.arguments import Prepared
from django_redq.producer.sending import send

logger = logging.getLogger("django_redq.producer")

Hook = Callable[[], None]
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
    _ledger_of(connection).add(tasks)
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
        self.last_hook: ReferenceType[Hook] | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def append(self, tasks: Sequence[Prepared]) -> None:
        self._tasks += tasks

    def take(self, start: int) -> list[Prepared]:
        """What was added from ``start`` on and was not taken yet.

        Not what was added before: its own hook may be one that a test has left uncalled.
        """
        taken = [task for task in self._tasks[start:] if task is not None]
        self._tasks[start:] = [None] * (len(self._tasks) - start)
        return taken


class _Ledger:
    """What waits for the commit of one connection.

    It holds hooks weakly: one that Django has dropped, because its savepoint was rolled back, is
    gone from here too, and its batch with it.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = ref(connection)
        self._batches: WeakValueDictionary[tuple[str | None, ...], _Batch] = WeakValueDictionary()
        self._hooks: WeakValueDictionary[int, Hook] = WeakValueDictionary()
        self._numbers = itertools.count()
        self._failed: list[Failed] = []

    def add(self, tasks: Sequence[Prepared]) -> None:
        connection = self._connection()
        assert connection is not None, "the caller holds it"
        if not self._hooks:
            self._failed.clear()
        batch = self._batch(connection)
        number, start = next(self._numbers), len(batch)

        def send_after_commit() -> None:
            self._send(batch.take(start), number)

        transaction.on_commit(send_after_commit, using=connection.alias)
        batch.append(tasks)
        batch.last_hook = ref(send_after_commit)
        self._hooks[number] = send_after_commit

    def _batch(self, connection: BaseDatabaseWrapper) -> _Batch:
        level = tuple(connection.savepoint_ids)
        batch = self._batches.get(level)
        if batch is None or not _still_waits(batch, connection):
            batch = self._batches[level] = _Batch()
        return batch

    def _send(self, tasks: Sequence[Prepared], number: int) -> None:
        """Sends; the last of the hooks raises for all, since Django calls none after one raised."""
        if tasks:
            self._failed += _send_and_log(tasks)
        if self._failed and not any(later > number for later in self._hooks):
            failed, self._failed = self._failed, []
            raise EnqueueFailed((task.queue, task.task_id) for task, _ in failed) from failed[0][1]


_ledgers: WeakKeyDictionary[BaseDatabaseWrapper, _Ledger] = WeakKeyDictionary()


def _ledger_of(connection: BaseDatabaseWrapper) -> _Ledger:
    ledger = _ledgers.get(connection)
    if ledger is None:
        ledger = _ledgers[connection] = _Ledger(connection)
    return ledger


def _still_waits(batch: _Batch, connection: BaseDatabaseWrapper) -> bool:
    """Whether the batch's last hook will be called; its place is near the end, where it exists."""
    last = batch.last_hook() if batch.last_hook is not None else None
    return last is not None and any(
        entry[1] is last for entry in reversed(connection.run_on_commit)
    )


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

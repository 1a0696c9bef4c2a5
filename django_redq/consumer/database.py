"""A run gets what a request gets: fresh query logs, live database connections, closed caches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.core.cache import caches
from django.db import close_old_connections, connections, reset_queries

from django_redq.lines import get_logger

logger = get_logger("django_redq.consumer")


@contextmanager
def clean_thread() -> Iterator[None]:
    """Around a run in a thread of the consumer's own.

    Connections that are too old or broken are closed before and after; one that the run left inside a
    transaction is closed too, so that nothing leaks into the next run of this thread.
    """
    reset_queries()
    close_old_connections()
    _check_before_use()
    try:
        yield
    finally:
        close_unfinished_transactions()
        close_old_connections()
        caches.close_all()


def _check_before_use() -> None:
    """Has connections that live on looked at when the run first uses them, as CONN_HEALTH_CHECKS does.

    A thread that waited for hours finds many of them closed by a server or a firewall between; a web
    process may lose a request to that, a worker would lose an attempt of a task.
    """
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None:
            vars(connection)["health_check_enabled"] = True  # unknown to django-stubs


def close_unfinished_transactions() -> None:
    """Closes the connections of this thread on which a transaction is still open."""
    for connection in connections.all(initialized_only=True):
        wants_autocommit = connection.settings_dict["AUTOCOMMIT"]
        # One that was closed inside its block is still in it, with a connection or without.
        in_block = connection.in_atomic_block or connection.closed_in_transaction
        is_open = connection.connection is not None
        if in_block or (is_open and wants_autocommit and not connection.autocommit):
            logger.warning(
                "a run left a transaction open on database %r; it is rolled back", connection.alias
            )
            # All that Django forgets when a block ends, and that keeps close() from closing.
            connection.in_atomic_block = False
            connection.closed_in_transaction = False
            vars(connection)["atomic_blocks"] = []  # unknown to django-stubs
            connection.savepoint_ids = []
            connection.needs_rollback = False
            connection.run_on_commit = []
            connection.close()


@asynccontextmanager
async def clean_loop() -> AsyncIterator[None]:
    """Around an async run: a thread of its own for its ORM calls, whose connections are closed after."""
    async with ThreadSensitiveContext() as context:
        try:
            yield
        finally:
            # No thread was started for a run that never left the loop.
            if context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(_close_all)()


def _close_all() -> None:
    close_unfinished_transactions()
    close_connections()
    caches.close_all()


def close_connections() -> None:
    """Closes this thread's connections, which nobody else can: the thread ends."""
    connections.close_all()

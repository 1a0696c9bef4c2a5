"""System checks: what ``manage.py check`` tells before anything runs. None of them asks Redis.

| id | what |
|---|---|
| redq.E001 | a fault of ``REDQ`` |
| redq.E002 | the connection cannot be made: no such cache alias, another backend, ... |
| redq.E003 | a handler for a queue that ``REDQ`` does not have |
| redq.E004 | two handlers for the same queue and kind |
| redq.E005 | a handler's annotation that cannot be resolved |
| redq.E006 | a handler that the consumer cannot look up: ``@handler`` is not outermost |
| redq.W001 | a cache alias whose ``clear()`` would delete every task |
| redq.W002 | another cache in the database of the queues |
| redq.W003 | a ``KEY_PREFIX`` that does not reach the queues' keys |
| redq.W004 | a queue without handlers |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning

from django_redq import registry
from django_redq.broker.alias import backend_of, databases_of, resolve
from django_redq.cache import QueueCache
from django_redq.conf import (
    ConnectionConfig,
    cache_settings,
    find_connection,
    find_faults,
    get_config,
)
from django_redq.errors import ConfigurationError

TAG: Final = "redq"

_HANDLER_FAULTS = {
    "unknown_queue": "redq.E003",
    "double": "redq.E004",
    "annotation": "redq.E005",
    "hidden": "redq.E006",
}
_BACKEND_HINT = (
    "Set its BACKEND to 'django_redq.cache.QueueCache': the same cache, but clear() is refused."
)


def check_settings(**_: Any) -> list[CheckMessage]:
    """``REDQ`` and the queues without handlers."""
    faults = find_faults()
    if faults:
        return [Error(fault, id="redq.E001") for fault in faults]
    return [
        CheckWarning(
            f"Queue {name!r} has no handler.",
            hint=(
                "Write one in a module of HANDLER_MODULES in an installed app. Silence redq.W004 "
                "where other projects run this queue's tasks."
            ),
            id="redq.W004",
        )
        for name in get_config().queues
        if not registry.kinds(name)
    ]


def check_handlers(**_: Any) -> list[CheckMessage]:
    """What is wrong with the handlers that were found."""
    return [
        Error(fault, id=_HANDLER_FAULTS[kind])
        for kind, faults in registry.faults_by_kind().items()
        for fault in faults
    ]


def check_connection(**_: Any) -> list[CheckMessage]:
    """Whether the settings lead to a server, and who else keeps keys there."""
    connection = find_connection()
    if connection is None:
        return []
    try:
        target = resolve(connection)
    except ConfigurationError as error:
        return [Error(fault, id="redq.E002") for fault in error.faults]
    return [*_own_alias(connection), *_neighbours(connection, target)]


def _own_alias(connection: ConnectionConfig) -> Iterator[CheckMessage]:
    if connection.kind != "cache":
        return
    params = cache_settings()[connection.alias]
    if not issubclass(backend_of(params), QueueCache):
        yield CheckWarning(
            f"CACHES[{connection.alias!r}] leads to the queues, and its clear() is FLUSHDB: it "
            "would delete every task.",
            hint=_BACKEND_HINT,
            id="redq.W001",
        )
    if params.get("KEY_PREFIX") and _has_default_namespace():
        yield CheckWarning(
            f"CACHES[{connection.alias!r}] has a KEY_PREFIX, which the keys of the queues do not "
            "get: with another project on the same database they would be shared.",
            hint="Set REDQ['NAMESPACE'] to a name of this project's own.",
            id="redq.W003",
        )


def _has_default_namespace() -> bool:
    return not find_faults() and get_config().namespace == "redq"


def _neighbours(connection: ConnectionConfig, target: ConnectionConfig) -> Iterator[CheckMessage]:
    for alias, params in cache_settings().items():
        is_other = connection.kind != "cache" or alias != connection.alias
        if (
            is_other
            and target.database in databases_of(params)
            and not issubclass(backend_of(params), QueueCache)
        ):
            yield CheckWarning(
                f"CACHES[{alias!r}] shares the database of the queues, {target}; its clear() is "
                "FLUSHDB: it would delete every task.",
                hint="Give the queues a database, or better a server, of their own.",
                id="redq.W002",
            )


CHECKS: Final = (check_settings, check_handlers, check_connection)

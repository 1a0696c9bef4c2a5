"""The setting ``REDQ`` as one frozen, typed configuration; the only place that reads settings.

Everything below asks :func:`get_config`. It is read once, and again after a test has changed
the settings.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.core.signals import setting_changed
from django.utils import timezone

from django_redq.conf.config import (
    Config,
    QueueConfig,
    SchedulerConfig,
    override_queue,
    override_scheduler,
    parse,
    retry_policy,
)
from django_redq.conf.connection import DEFAULT, ConnectionConfig
from django_redq.conf.connection import connection as read_connection
from django_redq.conf.rules import RuleError, a
from django_redq.errors import ConfigurationError, InvalidArgument

__all__ = [
    "Config",
    "ConnectionConfig",
    "QueueConfig",
    "SchedulerConfig",
    "cache_settings",
    "connection_factory",
    "find_connection",
    "find_faults",
    "get_config",
    "override_queue",
    "override_scheduler",
    "retry_policy",
    "to_epoch_ms",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, UTC: what a datetime can hold on the way back."""

_READ_FROM = {"REDQ", "CACHES", "DJANGO_REDIS_CONNECTION_FACTORY"}


_lock = threading.Lock()
_config: Config | None = None


def get_config() -> Config:
    """The configuration, the same object until the settings change.

    Raises:
        ConfigurationError: ``REDQ`` is wrong; it tells every fault.
    """
    global _config  # noqa: PLW0603 - read once a process is the point
    config = _config
    if config is None:
        # Clients are kept for as long as this object stays the same, so no two threads may each
        # make one.
        with _lock:
            config = _config = _config or _read()
    return config


def _read() -> Config:
    try:
        return parse(getattr(settings, "REDQ", {}))
    except RuleError as error:
        raise ConfigurationError(*error.sentences("REDQ")) from None


def find_faults() -> list[str]:
    """Every fault of ``REDQ``, a sentence each; empty where there is none."""
    try:
        get_config()
    except ConfigurationError as error:
        return list(error.faults)
    return []


def find_connection() -> ConnectionConfig | None:
    """The connection, even where other parts of ``REDQ`` are wrong: the checks tell all at once."""
    given = getattr(settings, "REDQ", {})
    if not isinstance(given, Mapping):
        return None
    try:
        return read_connection(given.get("CONNECTION", DEFAULT))
    except RuleError:
        return None


def _forget(*, setting: str, **_: Any) -> None:
    global _config  # noqa: PLW0603
    # CACHES, too: a client of the old server is kept until this object is another.
    if setting in _READ_FROM:
        _config = None


setting_changed.connect(_forget, dispatch_uid="django_redq.conf")


def cache_settings() -> Mapping[str, Mapping[str, Any]]:
    """``CACHES`` as it stands in the settings."""
    return cast("Mapping[str, Mapping[str, Any]]", settings.CACHES)


def connection_factory() -> str:
    """The factory of connections that django-redis uses where an alias names none."""
    default = "django_redis.pool.ConnectionFactory"
    return str(getattr(settings, "DJANGO_REDIS_CONNECTION_FACTORY", default))


def to_epoch_ms(value: datetime) -> int:
    """``run_at`` as ms since the epoch, rounded up: a task is never early. A past one may be 0.

    A naive datetime is taken in ``TIME_ZONE``, and only without ``USE_TZ``.

    Raises:
        InvalidArgument: it is no datetime, naive under ``USE_TZ``, or beyond the year 9999.
    """
    if not isinstance(value, datetime):
        raise InvalidArgument("run_at", f"must be a datetime, got {a(value)}")
    if value.utcoffset() is None:
        if settings.USE_TZ:
            raise InvalidArgument(
                "run_at", "is naive, and USE_TZ is on; django.utils.timezone.now() is aware"
            )
        value = value.replace(tzinfo=timezone.get_default_timezone())
    # A difference, for a zone's midnight at either end of the calendar has no time in UTC.
    milliseconds = -((_EPOCH - value) // _MILLISECOND)
    if milliseconds > LATEST_MS:
        raise InvalidArgument("run_at", "must not be after the year 9999 (UTC)")
    return max(milliseconds, 0)

"""A broker for people who wait for a page: it gives up in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

import redis

from django_redq.broker.alias import resolve
from django_redq.broker.calls import Call
from django_redq.broker.connection import make_client
from django_redq.broker.sync import Broker
from django_redq.conf import Config, get_config

ReplyT = TypeVar("ReplyT")

TIMEOUT = 1.0
"""Seconds that a connection and a reply may take: far more than a healthy Redis needs."""

_deadline: ContextVar[float | None] = ContextVar("redq_deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Has the round trips of :func:`operator_broker` that would begin later fail.

    Those that begin in time may take :data:`TIMEOUT` longer.
    """
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def _check_deadline() -> None:
    deadline = _deadline.get()
    if deadline is not None and time.monotonic() >= deadline:
        raise redis.TimeoutError("Redis answers too slowly for a page")


class PatientBroker(Broker):
    """The same verbs over connections that wait a second at most, and not beyond :func:`within`."""

    def run(self, call: Call[ReplyT]) -> ReplyT:
        _check_deadline()
        return super().run(call)

    def _pipeline(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        if commands:
            _check_deadline()
        return super()._pipeline(commands)


_lock = threading.Lock()
_shared: PatientBroker | None = None


def operator_broker() -> Broker:
    """The broker of web pages, one a process, beside that of :func:`get_broker`.

    Raises:
        ConfigurationError: the settings lead to no server.
        redis.RedisError: a Cluster, which is asked for its nodes at once, does not answer.
    """
    global _shared  # noqa: PLW0603 - one pool a process is the point
    config = get_config()
    if _shared is None or _shared.config is not config:
        with _lock:
            if _shared is None or _shared.config is not config:
                fresh = _make(config)
                if _shared is not None:
                    _shared.close()
                _shared = fresh
    return _shared


def _make(config: Config) -> PatientBroker:
    _check_deadline()
    connection = resolve(config.connection)
    limits = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT}
    hasty = replace(
        connection,
        options={**connection.options, **limits},
        sentinel_options={**connection.sentinel_options, **limits},
    )
    return PatientBroker(config, make_client(hasty))

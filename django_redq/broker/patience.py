"""A broker for people who wait for a page: it gives up in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

import redis

from django_redq.broker.alias import resolve
from django_redq.broker.sync import Broker, Shared, make_wire
from django_redq.broker.wire import Command
from django_redq.conf import Config

ReplyT = TypeVar("ReplyT")

TIMEOUT = 1.0
"""Seconds that a connection and a reply may take: far more than a healthy Redis needs."""

_deadline: ContextVar[float | None] = ContextVar("redq_deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Has the round trips of :func:`operator_broker` fail that are not through by then."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def _in_time(work: Callable[[], ReplyT]) -> ReplyT:
    """The result of the work, which is done in a thread of its own while it is waited for.

    A socket's time-out is that of one read: a Redis that answers drop by drop, or many Sentinels and
    nodes that are asked in turn, would each take their time. What is not waited for any more ends by
    these time-outs.
    """
    deadline = _deadline.get()
    if deadline is None:
        return work()
    outcome: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

    def do() -> None:
        try:
            outcome.put((True, work()))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            outcome.put((False, error))

    rest = deadline - time.monotonic()
    try:
        if rest <= 0:
            raise Empty
        threading.Thread(target=do, name="redq-page", daemon=True).start()
        done, result = outcome.get(timeout=rest)
    except Empty:
        raise redis.TimeoutError("Redis answers too slowly for a page") from None
    if not done:
        raise result
    return cast("ReplyT", result)


class PatientBroker(Broker):
    """The same verbs over connections that wait a second at most, and not beyond :func:`within`."""

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        return _in_time(lambda: super(PatientBroker, self)._exchange(commands))


def operator_broker() -> Broker:
    """The broker of web pages, one a process, beside that of :func:`get_broker`.

    Raises:
        ConfigurationError: the settings lead to no server.
    """
    return _shared.get()


def _make(config: Config) -> PatientBroker:
    connection = resolve(config.connection)
    limits = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT}
    hasty = replace(
        connection,
        options={**connection.options, **limits},
        sentinel_options={**connection.sentinel_options, **limits},
    )
    return PatientBroker(config, make_wire(hasty))


_shared = Shared(_make)

"""A broker for people who wait for a page: it gives up in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django_redq.broker.sync import Broker, get_broker


def operator_broker() -> Broker:
    """The broker of web pages, one a process."""
    return get_broker()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Round trips of this thread that would end later fail.

    Raises:
        redis.TimeoutError: the time is over.
    """
    assert seconds > 0
    yield

"""Listens to the hint channels, so that idle means waiting and not polling."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis

from django_redq.broker import faults, rights
from django_redq.broker.connection import pubsub_of
from django_redq.lines import get_logger

logger = get_logger("django_redq.wakeups")

_POLL = 1.0
"""Seconds that a read of the channel waits before it looks whether it is still wanted."""
_BACKOFF = 1.0
"""Seconds before the next try after the connection was lost."""
_QUIET = 3.0
"""Seconds without a word from Redis after which it is asked for one."""
_ANSWER = 3.0
"""Seconds that it may take for that; then the connection is taken for dead."""
_REFUSED_BACKOFF = 60.0
"""Seconds before the next try where the user may not subscribe."""

OnHint = Callable[[str, str], None]


class WakeListener:
    """A thread that calls ``on_hint(channel, message)`` for each hint while it is wanted.

    It also calls ``on_hint("", "")`` once it is subscribed: what happened before that was not heard.
    Unwanted, it unsubscribes, since a client that does not read would be cut off by the server.

    Args:
        connect: the client whose connections are used; asked for before each subscription.
        channels: their names.
        on_hint: called in this thread.
    """

    def __init__(
        self, connect: Callable[[], redis.Redis], channels: Sequence[str], on_hint: OnHint
    ) -> None:
        self._connect = connect
        self._channels = tuple(channels)
        self._on_hint = on_hint
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._subscribed = threading.Event()
        self._renewed = threading.Event()
        self._pubsub: redis.client.PubSub | None = None
        self._thread = threading.Thread(target=self._run, name="redq-wakeups", daemon=True)

    @property
    def listening(self) -> bool:
        """Whether hints arrive."""
        return self._subscribed.is_set() and self._wanted.is_set()

    def start(self) -> None:
        """Starts the thread, listening."""
        self._wanted.set()
        self._thread.start()

    def listen(self) -> None:
        """Wants hints from now on."""
        self._wanted.set()

    def ignore(self) -> None:
        """Wants no hints until :meth:`listen`."""
        self._wanted.clear()

    def renew(self) -> None:
        """Subscribes anew, within a second: the server may be another one by now."""
        self._renewed.set()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopping.set()
        self._wanted.set()
        pubsub = self._pubsub
        if pubsub is not None:
            # The server's answer ends the read that the thread waits in.
            with suppress(*faults.REDIS_ERRORS, RuntimeError, AttributeError):
                pubsub.unsubscribe()  # type: ignore[no-untyped-call] # redis-py has no types here
        if self._thread.is_alive():
            self._thread.join(_POLL * 2)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait()
            if self._stopping.is_set():
                return
            self._stopping.wait(self._listen_until_it_fails())

    def _listen_until_it_fails(self) -> float:
        """Seconds to wait before the next try."""
        try:
            self._listen()
        except faults.REDIS_ERRORS as error:
            return self._backoff_after(error)
        except Exception:
            # A fault of ours must not end the thread, nor spin.
            logger.exception("redq-wakeups failed; it goes on in a second")
            return _BACKOFF
        finally:
            self._subscribed.clear()
            self._pubsub = None
        return 0.0

    def _backoff_after(self, error: Exception) -> float:
        if not faults.lacks_permission(error):
            return _BACKOFF
        namespace, _, _ = self._channels[0].partition(":")
        rights.tell(rights.missing(error, "subscribe", namespace))
        return _REFUSED_BACKOFF

    def _listen(self) -> None:
        self._renewed.clear()
        with pubsub_of(self._connect()) as pubsub:
            self._pubsub = pubsub
            pubsub.subscribe(*self._channels)
            awaited = set(self._channels)
            since, is_asked = time.monotonic(), True
            while self._goes_on:
                message = pubsub.get_message(timeout=_POLL)
                if message is not None:
                    since, is_asked = time.monotonic(), False
                    self._take(message, awaited)
                    continue
                quiet = time.monotonic() - since
                if quiet >= _QUIET and not is_asked:
                    # Not PING: a server that loads data, or has lost its master, refuses that.
                    pubsub.subscribe(self._channels[0])
                    since, is_asked = time.monotonic(), True
                elif quiet >= _ANSWER and is_asked:
                    raise redis.TimeoutError(f"no word on the hint channels for {quiet:.1f} s")

    @property
    def _goes_on(self) -> bool:
        return self._wanted.is_set() and not self._stopping.is_set() and not self._renewed.is_set()

    def _take(self, message: Mapping[str, Any], awaited: set[str]) -> None:
        channel = _text(message["channel"])
        if message["type"] == "subscribe" and awaited:
            awaited.discard(channel)
            if not awaited:
                self._subscribed.set()
                self._on_hint("", "")
        elif message["type"] == "message":
            self._on_hint(channel, _text(message["data"]))


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value

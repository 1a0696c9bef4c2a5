"""Carries commands to the server and replies back, many a round trip, none ever sent twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import redis

from django_redq.broker import faults
from django_redq.lines import get_logger

logger = get_logger("django_redq.wire")

TELL_INTERVAL = 1.0
"""Seconds between two words about a server that was demoted."""

Command = tuple[Any, ...]
"""As redis-py takes it: name and arguments."""


class Wire(Protocol):
    """What a broker sends by."""

    spans_shards: bool
    """Whether one script may touch several shards, as far as is known."""

    @property
    def client(self) -> redis.Redis:
        """redis-py's client, for what needs no script."""

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """One round trip; in order, an exception in the place of a command that failed.

        Raises:
            redis.RedisError: the round trip itself failed; which commands were done is not known.
        """

    def listening_client(self) -> redis.Redis:
        """Whom to ask for the hints that are published."""

    def watch(self, on_back: Callable[[], None]) -> Callable[[], None]:
        """Has ``on_back`` called when a part that was away, or another server in its place, is there;
        what ends that.
        """

    def close(self) -> None:
        """Closes the connections."""


class Watchers:
    """Who wants to be told that something is back."""

    def __init__(self) -> None:
        self._all: list[Callable[[], None]] = []

    def watch(self, on_back: Callable[[], None]) -> Callable[[], None]:
        """Has ``on_back`` called by :meth:`tell`; what ends that."""
        self._all.append(on_back)
        return lambda: self._all.remove(on_back)

    def tell(self) -> None:
        """Tells all of them."""
        for on_back in tuple(self._all):
            try:
                on_back()
            except Exception:
                # A fault of ours must not keep the others from hearing of it.
                logger.exception("telling that a server is back failed; it goes on")


class ServerWire:
    """To one server, whether it is found by its address or by Sentinels."""

    spans_shards = True

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self._watchers = Watchers()
        self._told = -TELL_INTERVAL

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        replies = self._pipeline(commands) if len(commands) != 1 else [self._single(commands[0])]
        if any(map(faults.wants_new_connection, replies)):
            # Those that others use lead nowhere, too, and fail in their own time.
            self.client.connection_pool.disconnect(inuse_connections=False)
            self._tell_of_it()
        return replies

    def _tell_of_it(self) -> None:
        # Each loop finds it out by itself, too: all together must not wake each other all the time.
        now = time.monotonic()
        if now - self._told >= TELL_INTERVAL:
            self._told = now
            self._watchers.tell()

    def _single(self, command: Command) -> Any:
        execute: Callable[..., Any] = self.client.execute_command
        try:
            return execute(*command)
        except redis.ResponseError as error:
            return error

    def _pipeline(self, commands: Sequence[Command]) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            execute: Callable[..., Any] = pipe.execute_command
            for command in commands:
                execute(*command)
            replies: list[Any] = pipe.execute(raise_on_error=False)
            return replies

    def listening_client(self) -> redis.Redis:
        return self.client

    def watch(self, on_back: Callable[[], None]) -> Callable[[], None]:
        # There are no parts; but of a server that was demoted not everybody finds out: who only listens
        # to it, or asks it nothing, is told that the next round trip goes to another one.
        return self._watchers.watch(on_back)

    def close(self) -> None:
        self.client.close()

"""What every running part shares: a loop in a thread, a Redis that is away, OS signals."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from django_redq.broker import faults
from django_redq.errors import ConfigurationError
from django_redq.lines import get_logger
from django_redq.task import NAME_RULE, is_name

logger = get_logger("django_redq.service")

FIRST_BACKOFF = 0.5
MAX_BACKOFF = 3.0
"""Seconds between tries while Redis is away: at most about two a second, and back within 10 s."""


class Outage:
    """Whether Redis answers, as the loops of one service see it; says each change once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._failing: dict[str, int] = {}

    def begin(self, loop: str, error: BaseException) -> float:
        """Notes a failed round trip; seconds to wait before the next try."""
        with self._lock:
            first = not self._failing
            tries = self._failing.get(loop, 0) + 1
            self._failing[loop] = tries
        if first:
            logger.warning(
                "%s: Redis does not answer as it should, retrying: %s",
                self._name,
                faults.in_words(error),
            )
        backoff = min(FIRST_BACKOFF * 1.5 ** min(tries - 1, 20), MAX_BACKOFF)
        return backoff * random.uniform(1.0, 1.3)  # noqa: S311 - no secret

    def over(self, loop: str) -> bool:
        """Notes a round trip that worked; True where that ended this loop's trouble."""
        if loop not in self._failing:
            return False
        with self._lock:
            del self._failing[loop]
            last = not self._failing
        if last:
            logger.info("%s: Redis is back", self._name)
        return True


class Loop:
    """A daemon thread that calls :meth:`step` until it is stopped, and outlives what that raises."""

    name = "loop"

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._failed = False
        self._thread: threading.Thread | None = None

    def step(self) -> float:
        """One round; seconds until the next one unless :meth:`wake` comes first."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts the thread."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name=f"redq-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Has the next round begin now, unless the last one failed."""
        self._wake.set()

    def stop(self, timeout: float | None = None) -> bool:
        """Ends the thread after the round it is in; False where that took longer than ``timeout``."""
        self._stopping.set()
        self._wake.set()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def on_reconnect(self) -> None:
        """Called by the round that found Redis back."""

    def on_failure(self) -> None:
        """Called when a round failed, before the wait."""

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            pause = self.guarded_step()
            if pause > 0 and not self._stopping.is_set():
                # Whatever comes in while Redis is away must not have it asked more often.
                (self._stopping if self._failed else self._wake).wait(pause)

    def guarded_step(self) -> float:
        """:meth:`step`, with whatever it raises turned into a wait."""
        self._failed = True
        try:
            pause = self.step()
        except faults.REDIS_ERRORS as error:
            self.on_failure()
            return self._outage.begin(self.name, error)
        except Exception:
            # A fault of ours must not end the process, nor spin.
            logger.exception("redq-%s failed; it goes on in a second", self.name)
            self.on_failure()
            return 1.0
        self._failed = False
        if self._outage.over(self.name):
            self.on_reconnect()
        return pause


class Service(Protocol):
    """What a command runs: a scheduler, a consumer, a group of them."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class QueueGroup:
    """Unlike consumers and schedulers that are started and drained as one.

    Args:
        services: whatever has ``start()`` and ``stop()``.
    """

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = tuple(services)

    def start(self) -> None:
        """Starts all; when one cannot start, those before it are stopped again."""
        started: list[Service] = []
        try:
            for service in self.services:
                service.start()
                started.append(service)
        except BaseException:
            _stop_all(started)
            raise

    def stop(self) -> None:
        """Stops all at the same time and waits for the last one."""
        _stop_all(self.services)


def _stop_all(services: Sequence[Service]) -> None:
    threads = [threading.Thread(target=service.stop) for service in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def unique_name(prefix: str | None, argument: str) -> str:
    """``prefix`` (the host's name and pid where none is given) and a random suffix.

    Raises:
        ConfigurationError: the prefix breaks the rule for names; it names ``argument``.
    """
    suffix = os.urandom(4).hex()
    if prefix is None:
        host = re.sub(r"[^A-Za-z0-9_.-]", "", socket.gethostname())
        prefix = f"{host.lstrip('_.-')[:80] or 'host'}-{os.getpid()}"
    name = f"{prefix}-{suffix}"
    if not is_name(name):
        raise ConfigurationError(f"{argument} {prefix!r} must be {NAME_RULE}")
    return name


@contextmanager
def os_signals(on_first: Callable[[str], None], on_second: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call ``on_first`` with the signal's name, a further one ``on_second``."""
    seen = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            on_first(signal.Signals(number).name)
        else:
            on_second()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Runs a scheduler or a consumer until a signal, the end of its work, or a fault that ends it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from django_redq.broker import faults, health, rights
from django_redq.broker.sync import Broker, get_broker
from django_redq.errors import ConfigurationError
from django_redq.lines import get_logger
from django_redq.service import Service, os_signals

logger = get_logger("django_redq.command")

LOOK_INTERVAL = 0.25
"""Seconds between looks whether the work is done, or the service has ended by itself."""
CHECK_INTERVAL = 5.0
"""Seconds between tries to look at a server that is away."""


def serve(
    service: Service,
    queues: Sequence[str],
    *,
    fatal: Callable[[], ConfigurationError | None],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Starts the service, and stops it on SIGTERM or SIGINT; a second signal ends the process.

    Args:
        service: what is run.
        queues: whose server is looked at.
        fatal: why the service ended by itself, if it did.
        is_over: whether the work is done.

    Raises:
        ConfigurationError: the service could not start, or has ended by itself.
    """
    # Unlike an Event, it may be put into from a signal handler whatever the thread is doing.
    signals: SimpleQueue[str] = SimpleQueue()
    ended = threading.Event()
    with os_signals(signals.put, exit_at_once):
        service.start()
        try:
            _look_at_server(get_broker(), queues, ended)
            while not (_signalled(signals) or fatal() or is_over()):
                pass
        finally:
            ended.set()
            service.stop()
    if (error := fatal()) is not None:
        raise error


def _signalled(signals: SimpleQueue[str]) -> bool:
    """Waits a moment for a signal; whether one came."""
    try:
        name = signals.get(timeout=LOOK_INTERVAL)
    except Empty:
        return False
    logger.info("%s: stopping; a second signal stops at once", name)
    return True


def exit_at_once() -> None:
    """What still runs is left for others to run again."""
    # No logging: this may come while the main thread is in the middle of it.
    os.write(2, b"stopped at once; what ran will be run again\n")
    os._exit(1)


def _look_at_server(broker: Broker, queues: Sequence[str], ended: threading.Event) -> None:
    """Warns of what is wrong with the server, beside the work, and once it is there."""

    def look() -> None:
        while not ended.is_set():
            try:
                found = health.look(broker, queues)
            except faults.REDIS_ERRORS as error:
                if faults.is_outage(error):
                    ended.wait(CHECK_INTERVAL)
                    continue
                logger.warning("the server could not be looked at: %s", faults.in_words(error))
            else:
                _tell(found)
            return

    threading.Thread(target=look, name="redq-health", daemon=True).start()


def _tell(found: health.Findings) -> None:
    for problem in found.problems:
        logger.warning("%s", problem)
    for right in found.missing:
        # The listener of a consumer or scheduler may have found it out by itself.
        rights.tell(right)
    for unseen in found.unseen:
        logger.info("%s", unseen)

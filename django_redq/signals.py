"""Django signals, sent with ``send_robust``: a receiver that raises is logged and harms nothing.

Each is sent with ``sender=None`` and ``queue`` (str), ``task_id`` (str), and:

- ``task_enqueued``: ``kind``, ``duplicate``; in the process that enqueued, once Redis has it.
- ``task_started``: ``task``; in the thread or event loop that is about to run it.
- ``task_succeeded``: ``task``; after the handler returned, before the acknowledgement.
- ``task_retried``: ``task`` (None where it could not be decoded), ``failure``, ``delay`` (s);
  once Redis has it.
- ``task_dead_lettered``: ``letter`` (a DeadLetter), ``task`` (None where it could not be decoded),
  ``failure``; once Redis has it.
"""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal

from django_redq.lines import get_logger

logger = get_logger("django_redq.signals")

task_enqueued = Signal()
task_started = Signal()
task_succeeded = Signal()
task_retried = Signal()
task_dead_lettered = Signal()


def send(signal: Signal, **facts: Any) -> None:
    """Sends to whoever listens; Django logs a receiver that raises."""
    if signal.receivers:
        signal.send_robust(sender=None, **facts)


def send_from_worker(signal: Signal, **facts: Any) -> None:
    """As :func:`send`, and takes what ``send_robust`` lets through: a receiver that raises SystemExit
    must neither end a thread of the consumer nor fail a task that was done.
    """
    try:
        send(signal, **facts)
    except BaseException:
        logger.exception("a receiver failed; those after it were not told of %s", facts["task_id"])

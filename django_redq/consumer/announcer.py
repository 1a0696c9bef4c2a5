"""Tells signal receivers and dead-letter handlers what became of tasks, off the consumer's loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextvars import Context

from asgiref.sync import async_to_sync, iscoroutinefunction

from django_redq import registry, signals
from django_redq.codec import decode_failures
from django_redq.codec.records import from_ms
from django_redq.consumer import database
from django_redq.consumer.table import Held
from django_redq.dead_letters import DeadLetter
from django_redq.lines import get_logger
from django_redq.outcome import Dead, RetryAt

logger = get_logger("django_redq.consumer")

Announcement = Callable[[], None]


class Announcer:
    """Calls user code about settled tasks: in a thread of its own, or inline for ``run_once``."""

    def __init__(self, *, inline: bool) -> None:
        self._inline = inline
        self._queue: queue.SimpleQueue[Announcement | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def settled(self, held: Held) -> None:
        """Announces a retry or a death, where anybody wants to know."""
        outcome = held.outcome
        if isinstance(outcome, RetryAt) and signals.task_retried.receivers:
            self._tell(lambda: _announce_retry(held, outcome))
        elif isinstance(outcome, Dead) and (
            signals.task_dead_lettered.receivers
            or registry.dead_letter_handlers(held.delivery.queue)
        ):
            self._tell(lambda: _announce_death(held, outcome))

    def close(self, timeout: float) -> None:
        """Waits for what is yet to be told."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout)
            self._thread = None

    def _tell(self, announcement: Announcement) -> None:
        if self._inline:
            Context().run(announcement)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="redq-announcer", daemon=True)
            self._thread.start()
        self._queue.put(announcement)

    def _work(self) -> None:
        while (announcement := self._queue.get()) is not None:
            try:
                Context().run(_cleanly, announcement)
            except Exception:
                # Cleaning up has failed, and must not leave everybody untold from now on.
                logger.exception("cleaning up after an announcement failed; it goes on")


def _cleanly(announcement: Announcement) -> None:
    with database.clean_thread():
        announcement()


def _announce_retry(held: Held, outcome: RetryAt) -> None:
    one = held.delivery
    signals.send_from_worker(
        signals.task_retried,
        queue=one.queue,
        task_id=one.task_id,
        task=held.task,
        failure=outcome.failure,
        delay=outcome.delay,
    )


def _announce_death(held: Held, outcome: Dead) -> None:
    one, letter = held.delivery, _letter(held, outcome)
    facts = {"task": held.task, "failure": outcome.failure, "letter": letter}
    signals.send_from_worker(
        signals.task_dead_lettered, queue=one.queue, task_id=one.task_id, **facts
    )
    for told in registry.dead_letter_handlers(one.queue):
        try:
            (async_to_sync(told) if iscoroutinefunction(told) else told)(letter)
        except BaseException:
            logger.exception("a dead-letter handler of queue %r failed", one.queue)


def _letter(held: Held, outcome: Dead) -> DeadLetter:
    """The dead letter as it was just written."""
    one, failure = held.delivery, outcome.failure
    # The entry ID bears Redis' time.
    died_at, _, _ = held.letter_id.partition("-")
    return DeadLetter(
        task_id=one.task_id,
        task=held.task,
        queue=one.queue,
        shard=one.shard,
        entry_id=held.letter_id,
        reason=outcome.reason,
        kind=held.kind,
        error=failure.error,
        exception_type=failure.exception_type,
        traceback=failure.traceback,
        attempts=failure.attempt,
        failed_at=from_ms(int(died_at) if died_at else failure.at),
        replayable=one.record is not None,
        idempotency_key=held.key,
        consumer=held.died_on,
        failures=(*decode_failures(one.state.failures), failure),
    )

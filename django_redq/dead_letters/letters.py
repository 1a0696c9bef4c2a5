"""What a person sees of a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django_redq.broker.dead_reading import StoredLetter
from django_redq.broker.dead_walk import Place
from django_redq.broker.operator_calls import Replayed
from django_redq.broker.state import decode_state
from django_redq.codec import build_task, decode_failures, decode_payload, decode_record
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS, QueueConfig
from django_redq.dead_letters.arguments import check_entry_id
from django_redq.errors import InvalidArgument, InvalidPayload
from django_redq.outcome import Failure
from django_redq.producer.lookup import runs_of
from django_redq.task import Task, check_task_id


@dataclass(frozen=True, slots=True)
class LetterRef:
    """Names one dead letter of a queue; as text ``<shard>:<entry ID>:<task ID>``."""

    task_id: str
    """Empty for a letter that names no task."""
    entry_id: str
    shard: int

    def __str__(self) -> str:
        return f"{self.shard}:{self.entry_id}:{self.task_id}"

    @classmethod
    def parse(cls, text: str) -> LetterRef:
        """The name that a text stands for.

        Raises:
            InvalidArgument: it is none.
        """
        shard, _, rest = text.partition(":")
        entry_id, _, task_id = rest.partition(":")
        if not (shard.isascii() and shard.isdigit() and len(shard) <= 4):
            raise InvalidArgument("ref", f"must be like 3:1700000000000-0:task-1, got {text!r:.80}")
        checked = check_task_id(task_id) if task_id else ""
        return cls(checked, check_entry_id(entry_id), int(shard))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A task that gets no further run, and why.

    An entry that somebody else wrote into the dead letters is shown as one, too, with what it has
    of these.
    """

    task_id: str
    """Names the letter; empty where the entry names no task."""
    task: Task[Any] | None
    """The task as a handler without typed payload would get it; None where it cannot be decoded, or
    is not there any more."""
    queue: str
    shard: int
    entry_id: str
    """Its place in the shard's dead letters, ``<ms>-<sequence>``."""
    reason: str
    """A value of :class:`django_redq.outcome.Reason`: ``exhausted``, ``rejected``, ``worker_lost``,
    ``missing_payload``, ``invalid_payload``."""
    kind: str
    error: str
    """What the last failure said."""
    exception_type: str
    """Dotted name of its class."""
    traceback: str
    """The end of its traceback; empty where there is none."""
    attempts: int
    """How often the task had begun to run."""
    failed_at: datetime
    """When it died, in UTC, by Redis' clock."""
    replayable: bool
    """False for a tombstone: there is no payload to run again."""
    idempotency_key: str = ""
    consumer: str = ""
    """Where it ran last; empty where that is not known."""
    failures: tuple[Failure, ...] = ()
    """What its runs ended in, the last ones, oldest first; the error of earlier ones cut short."""

    @property
    def ref(self) -> LetterRef:
        """Its name, for :meth:`DeadLetterQueue.replay_letters` and the like."""
        return LetterRef(self.task_id, self.entry_id, self.shard)


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """Some dead letters; iterate over it, or index it."""

    letters: tuple[DeadLetter, ...]
    cursor: str | None
    """What :meth:`DeadLetterQueue.list` wants as ``after`` for the next page; None: this is the
    last one."""
    scanned: int = 0
    """Letters looked at for this page."""
    reached: datetime | None = None
    """Where ``max_scan`` ended the search: everything was looked at up to this death, in UTC."""
    unreachable: tuple[tuple[str, int], ...] = ()
    """Queue and number of the shards that did not answer; their letters are not on it."""

    def __len__(self) -> int:
        return len(self.letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.letters)

    def __getitem__(self, index: int) -> DeadLetter:
        return self.letters[index]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What became of one dead letter that was to be replayed."""

    task_id: str
    queue: str
    shard: int
    run_at: datetime | None
    """When it is due, in UTC; None where it was not replayed."""
    replayed: bool
    entry_id: str = ""
    """Which letter it was, where the caller or the batch named it."""
    why_not: str = ""
    """Where it was not replayed: ``gone`` (replayed or discarded meanwhile, or a tombstone) or
    ``no payload``."""


def result_of(place: Place, reply: Replayed) -> ReplayResult:
    return ReplayResult(
        task_id=place.task_id,
        queue=place.shard.queue,
        shard=place.shard.number,
        run_at=None if reply.due is None else from_ms(min(reply.due, LATEST_MS)),
        replayed=reply.due is not None,
        entry_id=place.entry_id,
        why_not="" if reply.due is not None else "no payload" if reply.missing else "gone",
    )


def letter_of(queue: QueueConfig, stored: StoredLetter) -> DeadLetter:
    """The letter, with whatever it holds shown as it is; nothing of it may fail."""
    attempts = _whole(_shown(stored, b"attempts")) or 0
    letter = DeadLetter(
        task_id=_task_id(_shown(stored, b"id")),
        task=None,
        queue=queue.name,
        shard=stored.shard,
        entry_id=stored.entry_id,
        reason=_shown(stored, b"reason"),
        kind=_shown(stored, b"kind"),
        error=_shown(stored, b"error"),
        exception_type=_shown(stored, b"type"),
        traceback=_shown(stored, b"traceback"),
        attempts=attempts,
        failed_at=from_ms(_died_at(stored)),
        replayable=stored.has_payload,
        idempotency_key=_shown(stored, b"key"),
        consumer=_shown(stored, b"consumer"),
        failures=decode_failures(decode_state(stored.state).failures),
    )
    return replace(letter, task=_task(queue, stored.record, letter))


def _shown(stored: StoredLetter, field: bytes) -> str:
    return stored.fields.get(field, b"").decode(errors="replace")


def _whole(text: str) -> int | None:
    # Of 15 digits at most, so that garbage of thousands of them is not read as a number.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _task_id(text: str) -> str:
    try:
        return check_task_id(text)
    except InvalidArgument:
        return ""


def _died_at(stored: StoredLetter) -> int:
    told = _whole(_shown(stored, b"at"))
    added = _whole(stored.entry_id.partition("-")[0])
    return min(told if told is not None else added or 0, LATEST_MS)


def _task(queue: QueueConfig, raw: bytes | None, letter: DeadLetter) -> Task[Any] | None:
    if raw is None:
        return None
    try:
        record = decode_record(raw)
        payload = decode_payload(record.payload, None)
    except InvalidPayload:
        return None
    return build_task(
        record,
        task_id=letter.task_id,
        queue=queue.name,
        payload=payload,
        attempt=max(letter.attempts, 1),
        max_attempts=runs_of(queue, record),
        last_error=Failure(
            letter.exception_type,
            letter.error,
            letter.traceback,
            letter.attempts,
            int(letter.failed_at.timestamp() * 1000),
        ),
    )

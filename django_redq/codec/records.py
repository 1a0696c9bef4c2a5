"""A task as it lies in Redis: one sparse JSON object, without ID, queue and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from django_redq.codec.leaves import Refusal, text, type_name
from django_redq.codec.payloads import to_json
from django_redq.codec.plain import path
from django_redq.conf.rules import show
from django_redq.errors import InvalidArgument, InvalidPayload, PayloadTooLarge
from django_redq.outcome import Failure
from django_redq.task import Ownership, Task

# The last millisecond of the year 9999: what datetime can hold.
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What was enqueued, read back."""

    at: int
    """When Redis accepted it, ms since the epoch."""
    due: int | None
    """When it was due, ms since the epoch; None: at once."""
    kind: str
    max: int | None
    """Runs it gets; None: as the handler or the queue says."""
    key: str
    meta: Mapping[str, str]
    payload: bytes
    """JSON, not decoded."""


class _Stored(msgspec.Struct):
    """The record as it is written; other fields (``nonce``, or a later version's) are passed over."""

    at: _Milliseconds
    payload: msgspec.Raw
    due: _Milliseconds | None = None
    kind: str = ""
    max: Annotated[int, msgspec.Meta(ge=1)] | None = None
    key: str = ""
    meta: dict[str, str] = msgspec.field(default_factory=dict)


_encode = msgspec.json.Encoder().encode
_stored = msgspec.json.Decoder(_Stored)
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_failures = msgspec.json.Decoder(tuple[Failure, ...])


def encode_body(
    *,
    payload: Any,
    kind: str = "",
    max_attempts: int | None = None,
    idempotency_key: str = "",
    metadata: Mapping[str, str] | None = None,
    nonce: str = "",
    limit: int,
) -> bytes:
    """The record of a task, but for its opening brace and what Redis' clock adds after that.

    Args:
        payload: see :func:`django_redq.codec.payloads.to_json`.
        kind: already checked; empty for none.
        max_attempts: already checked; None leaves it to the handler or the queue.
        idempotency_key: text, carried along.
        metadata: text to text, carried along.
        nonce: tells a resend of one's own from a duplicate.
        limit: bytes that the whole may take.

    Raises:
        InvalidArgument: with the path to what cannot be sent.
        PayloadTooLarge: it takes more bytes than ``limit``.
    """
    given = {
        "kind": kind,
        "max": max_attempts,
        "key": _text("idempotency_key", idempotency_key),
        "meta": _metadata(metadata),
        "nonce": nonce,
    }
    head = {name: value for name, value in given.items() if value}
    start = _encode(head)[1:-1] + b',"payload":' if head else b'"payload":'
    body = start + to_json(payload) + b"}"
    if len(body) > limit:
        raise PayloadTooLarge(len(body), limit)
    return body


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(field, f"must be text; got {show(value)} ({type_name(value)})")
    try:
        return text(value)
    except Refusal as refusal:
        raise InvalidArgument(field, refusal.reason) from None


def _metadata(metadata: object) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidArgument(
            "metadata",
            f"must be a dict of text to text; got {show(metadata)} ({type_name(metadata)})",
        )
    checked = {}
    for key, value in metadata.items():
        name = _text(f"metadata: the key {show(key)}", key)
        checked[name] = _text(path("metadata", [name]), value)
    return checked


def with_payload(raw: bytes, payload: Any, limit: int) -> bytes:
    """The record with another payload; all else, what a later version has added too, stays as it is.

    Args:
        raw: a record that decodes.
        payload: see :func:`django_redq.codec.payloads.to_json`.
        limit: bytes that the whole may take, times left out.

    Raises:
        InvalidArgument: with the path to what cannot be sent.
        PayloadTooLarge: it takes more bytes than ``limit``.
    """
    fields = _raw_fields.decode(raw)
    fields["payload"] = msgspec.Raw(to_json(payload))
    body = _encode({name: value for name, value in fields.items() if name not in {"at", "due"}})
    if len(body) - 1 > limit:
        raise PayloadTooLarge(len(body) - 1, limit)
    return _encode(fields)


def decode_record(raw: bytes) -> Record:
    """The record back; its payload is still JSON.

    Raises:
        InvalidPayload: these bytes are no task of ours.
    """
    try:
        stored = _stored.decode(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(f"what Redis holds is no task: {error}") from None
    return Record(
        at=stored.at,
        due=stored.due,
        kind=stored.kind,
        max=stored.max,
        key=stored.key,
        meta=stored.meta,
        payload=bytes(stored.payload),
    )


def build_task(
    record: Record,
    *,
    task_id: str,
    queue: str,
    payload: Any,
    attempt: int,
    max_attempts: int,
    due: int | None = None,
    last_error: Failure | None = None,
    ownership: Ownership | None = None,
) -> Task[Any]:
    """The task that a record stands for.

    Args:
        record: as stored.
        task_id: under which it was found.
        queue: in which it was found.
        payload: the record's, decoded.
        attempt: the run that it is, or would be.
        max_attempts: for where the record leaves it to the handler or the queue.
        due: ms since the epoch, where it is no longer due when it was enqueued for (a retry).
        last_error: how the attempt before failed.
        ownership: shared with who renews it, while it runs.
        ownership: what tells it that it is held no more; None outside of a consumer.
    """
    run_at = due if due is not None else record.due if record.due is not None else record.at
    return Task(
        id=task_id,
        queue=queue,
        kind=record.kind,
        payload=payload,
        run_at=from_ms(run_at),
        enqueued_at=from_ms(record.at),
        max_attempts=record.max if record.max is not None else max_attempts,
        attempt=attempt,
        idempotency_key=record.key,
        metadata=record.meta,
        last_error=last_error,
        _ownership=ownership or Ownership(),
    )


def from_ms(value: int) -> datetime:
    """Milliseconds since the epoch as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=value)


def encode_failures(failures: Sequence[Failure]) -> bytes:
    """The failures as JSON.

    What an exception said may hold anything, lone surrogates of a file name too; these are written
    as a question mark, for an error report must not fail.
    """
    try:
        return _encode(failures)
    except UnicodeEncodeError:
        return _encode([_scrubbed(failure) for failure in failures])


def _scrubbed(failure: Failure) -> Failure:
    def scrub(value: str) -> str:
        return value.encode("utf-8", "replace").decode()

    return Failure(
        exception_type=scrub(failure.exception_type),
        error=scrub(failure.error),
        traceback=scrub(failure.traceback),
        attempt=failure.attempt,
        at=failure.at,
    )


def decode_failures(raw: bytes) -> tuple[Failure, ...]:
    """The failures back; () for nothing and for garbage, since they are only told, never acted on."""
    if not raw:
        return ()
    try:
        return _failures.decode(raw)
    except (ValueError, RecursionError):
        return ()

"""A dead letter's task with another payload."""

from __future__ import annotations

from typing import Any, Final

from django_redq import registry
from django_redq.broker.dead_reading import StoredLetter
from django_redq.codec import decode_payload, decode_record
from django_redq.codec.payloads import to_json
from django_redq.codec.records import with_payload
from django_redq.conf import QueueConfig
from django_redq.errors import (
    ConfigurationError,
    InvalidArgument,
    InvalidPayload,
    NotReplayable,
    UnknownKind,
)


class _Unchanged:
    """Stands for no payload at all, since None is one."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()


def edited(queue: QueueConfig, task_id: str, stored: StoredLetter, payload: Any) -> bytes:
    """The record of a dead task with this payload in place of its own.

    Raises:
        InvalidArgument: the payload cannot be sent, is too large, or does not fit its handler.
        NotReplayable: there is no record that could be edited.
    """
    if stored.record is None:
        raise NotReplayable(queue.name, task_id)
    try:
        record = decode_record(stored.record)
    except InvalidPayload as error:
        raise InvalidArgument("payload", f"cannot be edited: {error}") from error
    changed = with_payload(stored.record, payload, queue.max_payload_bytes)
    check_fits(queue.name, record.kind, payload)
    return changed


def check_fits(queue: str, kind: str, payload: Any) -> None:
    """Compares a payload with the type that its handler declares, where this process knows it.

    Raises:
        InvalidArgument: it does not fit.
    """
    try:
        declared = registry.find(queue, kind).payload
    except (UnknownKind, ConfigurationError):
        return
    try:
        decode_payload(to_json(payload), declared)
    except InvalidPayload as error:
        raise InvalidArgument("payload", str(error)) from error

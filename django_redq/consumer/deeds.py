"""Decides what becomes of a pending entry whose owner was silent for too long."""

from __future__ import annotations

from enum import Enum, auto

from django_redq.broker.delivery import PendingRow
from django_redq.conf import QueueConfig
from django_redq.consumer.run import allowed_attempts


class Deed(Enum):
    """What is to be done with it."""

    LEAVE = auto()
    DROP = auto()
    """It stands for no task."""
    BURY_UNREAD = auto()
    """Its payload is missing."""
    BURY = auto()
    """Its worker was lost in its last attempt."""
    PARK = auto()
    """It has one attempt left, which is to run alone."""
    TAKE = auto()


def deed_for(row: PendingRow, queue: QueueConfig, *, is_own: bool) -> Deed:
    """What to do with this entry."""
    one = row.delivery
    stands_for_none = not row.in_stream or not one.task_id or one.what == "second"
    is_kept = not stands_for_none and one.record is None and queue.missing_payload == "keep_pending"
    if is_own or is_kept:
        return Deed.LEAVE
    if stands_for_none:
        return Deed.DROP
    if one.record is None:
        return Deed.BURY_UNREAD
    left = allowed_for(row, queue) - one.attempt
    if left <= 0:
        return Deed.BURY
    return Deed.PARK if left == 1 else Deed.TAKE


def allowed_for(row: PendingRow, queue: QueueConfig) -> int:
    """How many attempts its task gets."""
    one = row.delivery
    return one.state.allowed if one.record is None else allowed_attempts(one.record, queue)

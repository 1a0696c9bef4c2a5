"""Handing tasks over: check them, wait for the commit, send them, say so.

``arguments`` checks and encodes at the call, ``on_commit`` waits, ``sending`` sends,
``lookup`` tells where a task is, ``producer`` and ``functions`` are the API on top.
"""

from __future__ import annotations

from django_redq.producer.functions import (
    acancel,
    aenqueue,
    aenqueue_many,
    aget_task,
    cancel,
    enqueue,
    enqueue_many,
    get_task,
)
from django_redq.producer.producer import Producer

__all__ = [
    "Producer",
    "acancel",
    "aenqueue",
    "aenqueue_many",
    "aget_task",
    "cancel",
    "enqueue",
    "enqueue_many",
    "get_task",
]

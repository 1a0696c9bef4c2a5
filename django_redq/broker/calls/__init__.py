"""The engine's verbs: one pure function each says what is sent and how the reply is read.

Nothing here talks to Redis; ``broker.sync`` and ``broker.aio`` run what these functions build.
"""

from __future__ import annotations

from django_redq.broker.calls.call import (
    MAX_SCRIPT_BYTES,
    MAX_SCRIPT_TASKS,
    Call,
    Shard,
    Submission,
    clock,
    text,
)
from django_redq.broker.calls.flow import (
    Heads,
    Promotion,
    enqueue,
    fetch,
    heads,
    promote,
    release_lease,
)
from django_redq.broker.calls.recover import (
    PENDING_SCAN,
    PendingPage,
    Repair,
    claim,
    drop,
    drop_consumers,
    pending_page,
    repair,
    take_turn,
)
from django_redq.broker.calls.settle import (
    KEPT_DONE,
    KEPT_PAYLOAD_AGE,
    Letter,
    Renewed,
    Settled,
    ack,
    dead_letter,
    release,
    renew,
    retry,
)

__all__ = [
    "KEPT_DONE",
    "KEPT_PAYLOAD_AGE",
    "MAX_SCRIPT_BYTES",
    "MAX_SCRIPT_TASKS",
    "PENDING_SCAN",
    "Call",
    "Heads",
    "Letter",
    "PendingPage",
    "Promotion",
    "Renewed",
    "Repair",
    "Settled",
    "Shard",
    "Submission",
    "ack",
    "claim",
    "clock",
    "dead_letter",
    "drop",
    "drop_consumers",
    "enqueue",
    "fetch",
    "heads",
    "pending_page",
    "promote",
    "release",
    "release_lease",
    "renew",
    "repair",
    "retry",
    "take_turn",
    "text",
]

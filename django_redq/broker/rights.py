"""Which right a Redis user misses, and the rule that gives it."""

from __future__ import annotations

import threading

from django_redq.broker import faults
from django_redq.lines import get_logger

logger = get_logger("django_redq.rights")

_POLLING = "so consumers and schedulers poll instead of waking at once"

_lock = threading.Lock()
_said: set[str] = set()


def missing(error: Exception, verb: str, namespace: str) -> str:
    """What the user may not do, and the line that mends it.

    Args:
        error: how the server refused it.
        verb: ``publish`` or ``subscribe``.
        namespace: whose channels they are.
    """
    channels = f"{namespace}:wake:*"
    if "channel" in str(error):
        # One rule gives the right to hear and to tell.
        may_not, rule = f"use the channels {channels}", f"&{channels}"
    else:
        may_not, rule = f"call {verb.upper()}", f"+{verb}"
    return f"this user may not {may_not}, {_POLLING}; {_give(rule)}"


def missing_keys(error: Exception, namespace: str) -> str:
    """What the user may not do with the queues, and the rule that mends it."""
    rules = f"~{namespace}:*" if "key" in str(error) else "+@all -@admin -@dangerous"
    return f"this user may not use the queues ({faults.in_words(error)}); {_give(rules)}"


def _give(rules: str) -> str:
    return f"on the server: ACL SETUSER <user> {rules}"


def tell(sentence: str) -> None:
    """Warns of a missing right, unless this process did."""
    with _lock:
        if sentence in _said:
            return
        _said.add(sentence)
    logger.warning("%s", sentence)

"""A producer that goes on until it is killed; ``manage.py shell -c`` runs it."""

from __future__ import annotations

from types import SimpleNamespace

from django_redq import TaskSpec, enqueue, enqueue_many
from tests.ledger import Ledger

BATCH = 5


def produce():
    """Notes what was accepted once the call has returned: one at once, one delayed, some together."""
    ledger = Ledger.here()
    while True:
        _note(ledger, [enqueue("default", None)])
        _note(ledger, [enqueue("default", None, delay=0.1)])
        _note(ledger, enqueue_many("default", [TaskSpec(None) for _ in range(BATCH)]))


def _note(ledger, results):
    for result in results:
        ledger.note("accepted", SimpleNamespace(id=result.task_id, kind="", attempt=0))

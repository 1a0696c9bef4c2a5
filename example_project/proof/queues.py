"""The shop's queues as an operator sees them, through the public API of django-redq."""

from __future__ import annotations

from django_redq import DeadLetterQueue, Queue

NAMES = ("email", "webhook", "loyalty")


def unfinished() -> int:
    """Tasks that are scheduled, ready or running; the dead are not among them."""
    stats = [Queue(name).stats() for name in NAMES]
    return sum(one.scheduled + one.ready + one.running for one in stats)


def retried() -> int:
    """Failed runs so far that were given another."""
    return sum(Queue(name).stats().retried for name in NAMES)


def died() -> int:
    """Tasks that reached the dead letters so far, replayed or not."""
    return sum(Queue(name).stats().died for name in NAMES)


def held_by(consumer: str) -> int:
    """Tasks that the consumer named so is running."""
    seen = [one for name in NAMES for one in Queue(name).stats().consumers]
    return sum(one.running for one in seen if one.name.startswith(f"{consumer}-"))


def dead() -> int:
    """Dead letters now."""
    return sum(DeadLetterQueue(name).count() for name in NAMES)


def replay_all() -> int:
    """Put every dead letter back to work; answers how many."""
    results = [one for name in NAMES for one in DeadLetterQueue(name).replay_batch()]
    return sum(result.replayed for result in results)


def leftovers() -> list[str]:
    """What the queues still hold, a sentence a queue; drained ones hold nothing."""
    return [f"{name} still holds {stats}" for name in NAMES if (stats := _holdings(name))]


def _holdings(name: str) -> str:
    stats = Queue(name).stats()
    parts = ("scheduled", "ready", "running", "dead")
    return ", ".join(f"{getattr(stats, part)} {part}" for part in parts if getattr(stats, part))

"""What was promised to customers and what the world received, and the account of the two."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What an order sets going."""

    CONFIRMATION = "confirmation"
    REMINDER = "reminder"
    WEBHOOK = "webhook"
    POINTS = "points"


Receipt = tuple[Kind, str]
"""(what was received, for which order)"""


@dataclass(frozen=True, slots=True)
class Account:
    """Promises against receipts."""

    received: Mapping[Kind, int]
    """Different orders that each kind was received for."""
    lost: tuple[Receipt, ...]
    """Promised, and never received."""
    unwanted: tuple[Receipt, ...]
    """Received, though the order was refused, or paid before its reminder was sent."""
    duplicates: int
    """Receipts beyond the first of the same."""


def promises(accepted: Iterable[str], paid: frozenset[str]) -> set[Receipt]:
    """All that is due to the accepted orders; those paid in time are not reminded."""
    due = set()
    for order in accepted:
        due |= {(kind, order) for kind in Kind}
        if order in paid:
            due.remove((Kind.REMINDER, order))
    return due


def settle(promised: set[Receipt], received: Mapping[Receipt, int]) -> Account:
    """Compare what was promised with what was received how often."""
    return Account(
        received=Counter(kind for kind, _ in received),
        lost=tuple(sorted(promised - received.keys())),
        unwanted=tuple(sorted(received.keys() - promised)),
        duplicates=sum(count - 1 for count in received.values()),
    )


@dataclass
class Ledger:
    """Written by the threads of customers, mail server and partners."""

    accepted: dict[str, str] = field(default_factory=dict)
    """Order -> its partner."""
    refused: int = 0
    """Orders answered "out of stock"."""
    paid: set[str] = field(default_factory=set)
    received: Counter[Receipt] = field(default_factory=Counter)
    reached: Counter[Kind] = field(default_factory=Counter)
    """Different orders that each kind was received for so far."""
    rebuffs: int = 0
    """Webhooks that a partner answered with an error."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def accept(self, order: str, partner: str) -> None:
        with self._lock:
            self.accepted[order] = partner

    def refuse(self) -> None:
        with self._lock:
            self.refused += 1

    def pay(self, order: str) -> None:
        with self._lock:
            # A reminder that was faster than the payment was rightly sent.
            if (Kind.REMINDER, order) not in self.received:
                self.paid.add(order)

    def receive(self, kind: Kind, order: str) -> None:
        with self._lock:
            self.reached[kind] += (kind, order) not in self.received
            self.received[kind, order] += 1

    def rebuff(self) -> None:
        with self._lock:
            self.rebuffs += 1

    @property
    def answered(self) -> int:
        """Orders that the shop has answered, either way."""
        return len(self.accepted) + self.refused

    def account(self, others: Iterable[Receipt] = ()) -> Account:
        """The account so far; ``others`` are receipts found elsewhere, in the shop's database."""
        with self._lock:
            received = self.received + Counter(others)
            return settle(promises(self.accepted, frozenset(self.paid)), received)

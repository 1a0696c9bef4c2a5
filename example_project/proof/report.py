"""The end of a run: the table, and whether every promise held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proof.ledger import Account, Kind

SHOWN = 3


@dataclass
class Tally:
    """What happened on the way, beside what the ledger holds."""

    retried: int = 0
    dead: int = 0
    replayed: int = 0
    consumers_killed: int = 0


def rows(
    account: Account, tally: Tally, *, accepted: int, refused: int
) -> list[tuple[str, int, str]]:
    """The table: name, number, and who counted it how."""
    received = account.received
    return [
        ("accepted", accepted, "orders that the shop answered with a page of their own"),
        ("refused", refused, "orders rolled back for want of stock; nothing may be sent"),
        ("mailed", received[Kind.CONFIRMATION], "confirmations received by the SMTP server"),
        ("reminders", received[Kind.REMINDER], "reminders received by it, of the orders not paid"),
        ("delivered", received[Kind.WEBHOOK], "webhooks taken by the partners' HTTP servers"),
        ("credited", received[Kind.POINTS], "loyalty credits found in the shop's database"),
        ("retried", tally.retried, "runs that failed and were given another"),
        ("dead", tally.dead, "tasks that reached the dead letters"),
        ("replayed", tally.replayed, "dead letters put back to work"),
        ("killed", tally.consumers_killed, "consumers, by kill -9"),
        (
            "duplicates",
            account.duplicates,
            "received more than once: what the killed were at work on",
        ),
        ("unwanted", len(account.unwanted), "received, but for no accepted order or a paid one"),
        ("lost", len(account.lost), "promised, and not received"),
    ]


def broken_promises(account: Account, leftovers: Sequence[str]) -> list[str]:
    """A sentence for each promise that did not hold."""
    faults = list(leftovers)
    if account.lost:
        faults.append(f"{len(account.lost)} lost, among them {_some(account.lost)}")
    if account.unwanted:
        faults.append(f"{len(account.unwanted)} unwanted, among them {_some(account.unwanted)}")
    return faults


def _some(receipts: Sequence[tuple[Kind, str]]) -> str:
    return ", ".join(f"{kind} of order {order}" for kind, order in receipts[:SHOWN])

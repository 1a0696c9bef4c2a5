"""The mail server that the shop sends to: a real SMTP server, which keeps a count, not the mails."""

from __future__ import annotations

from email import message_from_bytes

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from django_redq.devserver import free_port
from proof.ledger import Kind, Ledger


class Postbox:
    """Takes each mail and notes which order it is about."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        mail = message_from_bytes(envelope.content)
        try:
            kind, order = Kind(mail["X-Kind"]), str(mail["X-Order"])
        except ValueError:
            return "554 This postbox takes the shop's mails only"
        self.ledger.receive(kind, order)
        return "250 Taken"


class MailServer(Controller):
    """Listens on a free port of this machine, in a thread of its own, from start() to stop()."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(Postbox(ledger), hostname="127.0.0.1", port=free_port())

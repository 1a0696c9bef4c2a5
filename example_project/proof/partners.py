"""The shop's business partners: real HTTP servers, each with a weakness of its own.

A webhook counts as received once its partner has decided to take it, which is just before the
partner says so: what a caller is told can get lost on the way, what the partner has booked cannot.
"""

from __future__ import annotations

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from proof.ledger import Kind, Ledger

SLOWNESS = 1.0
"""Seconds that the slow partner takes for each webhook."""


class Partner(ThreadingHTTPServer):
    """Takes every webhook."""

    request_queue_size = 128

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(("127.0.0.1", 0), Webhook, bind_and_activate=False)
        self.ledger = ledger
        # From here on the port is ours, but until start() it refuses connections, as the port of a
        # server that is down does.
        self.server_bind()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/orders"

    def start(self) -> None:
        self.server_activate()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def decide(self) -> int:
        """The HTTP status to answer with."""
        return 200


class SlowPartner(Partner):
    """Takes every webhook, but takes its time."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.stopping = threading.Event()

    def decide(self) -> int:
        self.stopping.wait(SLOWNESS)
        return 200

    def stop(self) -> None:
        self.stopping.set()
        super().stop()


class FlakyPartner(Partner):
    """Breaks down or is too busy every now and then."""

    def decide(self) -> int:
        return random.choices((200, 429, 503), weights=(70, 10, 20))[0]  # noqa: S311


class DownPartner(Partner):
    """Refuses connections until it is mended."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.is_mended = False

    def start(self) -> None:
        """It stays down; see :meth:`mend`."""

    def mend(self) -> None:
        super().start()
        self.is_mended = True

    def stop(self) -> None:
        if self.is_mended:
            super().stop()
        else:
            self.server_close()


class Webhook(BaseHTTPRequestHandler):
    """One call of a partner by the shop."""

    server: Partner

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["order_id"]
        status = self.server.decide()
        if status == 200:
            self.server.ledger.receive(Kind.WEBHOOK, order)
        else:
            self.server.ledger.rebuff()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """The ledger is the log."""


BY_NAME: dict[str, type[Partner]] = {
    "swift": Partner,
    "slow": SlowPartner,
    "flaky": FlakyPartner,
    "down": DownPartner,
}

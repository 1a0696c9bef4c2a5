"""Run in a process of its own by test_readme.py, inside a project made of the README's code blocks."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core import mail  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.test import Client  # noqa: E402

from django_redq import Consumer, DeadLetterQueue, Queue, enqueue, get_task  # noqa: E402

received: list[dict[str, Any]] = []


class Partner(BaseHTTPRequestHandler):
    """Takes what comes to /ok, and is gone under any other path."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        received.append({"key": self.headers["Idempotency-Key"], "body": json.loads(body)})
        self.send_response(200 if self.path == "/ok" else 410)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def drain(queue: str) -> None:
    consumer = Consumer(queue)
    while consumer.run_once():
        pass


def main() -> dict[str, Any]:
    call_command("check", fail_level="ERROR")
    call_command("migrate", verbosity=0)
    server = HTTPServer(("127.0.0.1", 0), Partner)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    found: dict[str, Any] = {}

    answer = Client().post("/sign-up/", {"email": "ann@example.org", "name": "Ann"})
    task_id = answer.json()["task"]
    info = get_task("email", task_id)
    found["state before"] = info and info.state
    Queue("email").run_now(task_id)
    drain("email")
    found["mails"] = [(message.to, message.body) for message in mail.outbox]
    found["state after"] = get_task("email", task_id)

    with transaction.atomic():
        user = get_user_model().objects.create_user("ann")
        found["sent before commit"] = get_task("webhook", f"crm-user-{user.pk}") is not None
    found["sent after commit"] = get_task("webhook", f"crm-user-{user.pk}") is not None
    user.delete()

    enqueue("webhook", {"url": f"{url}/ok", "body": {"id": 7}}, task_id="good")
    enqueue("webhook", {"url": f"{url}/gone", "body": {"id": 8}}, task_id="bad")
    drain("webhook")
    found["received"] = sorted(received, key=lambda one: one["body"]["id"])
    dead = DeadLetterQueue("webhook").get("bad")
    found["dead"] = (dead.reason, dead.error)
    exec(Path("dlq.py").read_text(), {})  # noqa: S102 - the README's own block
    found["left dead"] = DeadLetterQueue("webhook").count()
    server.shutdown()
    return found


if __name__ == "__main__":
    found = main()
    # What the blocks themselves print comes before it.
    print("FOUND " + json.dumps(found, default=str))  # noqa: T201

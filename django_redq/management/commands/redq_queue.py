"""``manage.py redq_queue``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redq.management.command import OperatorCommand, queue_names
from django_redq.queue import Queue

HELP = """\
Pauses and resumes queues. From a paused queue consumers take nothing more, wherever they run: what
runs goes on to its end, what waits is kept, what comes in is accepted, and what is due becomes
ready. Pausing lasts until somebody resumes the queue, restarts of Redis and of consumers included.

  manage.py redq_queue pause webhook           the partner is down: let no task fail
  manage.py redq_queue resume webhook          go on
  manage.py redq_queue pause email webhook     several at once
  manage.py redq_stats                         shows which queues are paused
"""


class Command(OperatorCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["pause", "resume"])
        parser.add_argument("queues", nargs="+", metavar="QUEUE")

    def handle(self, **options: Any) -> None:
        # All names are looked at before the first queue is touched.
        for name in queue_names(options["queues"]):
            queue = Queue(name)
            if options["action"] == "pause":
                self._say(name, "paused", "was paused already", changed=queue.pause())
            else:
                self._say(name, "resumed", "was not paused", changed=queue.resume())

    def _say(self, name: str, done: str, nothing: str, *, changed: bool) -> None:
        self.stdout.write(f"{name}: {done if changed else nothing}")

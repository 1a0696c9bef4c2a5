"""``manage.py redq_enqueue``."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.management.command import OperatorCommand, moment, positive, seconds
from django_redq.management.output import as_json
from django_redq.producer import enqueue

HELP = """\
Hands one task over, as enqueue() does: to try a handler, or from a shell script.

  manage.py redq_enqueue email '{"to": "ada@example.org"}'
  manage.py redq_enqueue email '{"to": "ada@example.org"}' --kind welcome --delay 5m
  manage.py redq_enqueue report '"2030-07"' --task-id report-2030-07
  curl -s https://example.org/order/7 | manage.py redq_enqueue webhook -

The payload is JSON, so text needs quotes of its own. While a task of the same ID is in Redis nothing
is enqueued, and the exit code is 0 all the same.
"""


class Command(OperatorCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", metavar="QUEUE")
        parser.add_argument("payload", metavar="JSON", help="'-' reads it from standard input")
        parser.add_argument("--kind", default="", metavar="K", help="which handler of the queue")
        when = parser.add_mutually_exclusive_group()
        when.add_argument(
            "--delay", type=seconds, metavar="S", help="seconds, or like 30m, 12h, 7d"
        )
        when.add_argument("--run-at", type=moment, metavar="T", help="like 2030-12-31T23:59:00")
        parser.add_argument("--task-id", metavar="ID", help="default: one that nobody else has")
        parser.add_argument(
            "--max-attempts", type=positive, metavar="N", help="how many runs it gets"
        )
        parser.add_argument("--idempotency-key", default="", metavar="KEY")
        parser.add_argument(
            "--metadata",
            type=_pair,
            action="append",
            default=[],
            metavar="NAME=TEXT",
            help="may be given several times",
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, **options: Any) -> None:
        result = enqueue(
            options["queue"],
            _payload(options["payload"]),
            delay=options["delay"],
            run_at=options["run_at"],
            task_id=options["task_id"],
            kind=options["kind"],
            max_attempts=options["max_attempts"],
            idempotency_key=options["idempotency_key"],
            metadata=dict(options["metadata"]),
            mode="immediate",
        )
        if options["json"]:
            self.stdout.write(as_json(result))
        elif result.duplicate:
            self.stdout.write(f"{result.task_id} is in {result.queue} already, and stays as it is")
        else:
            self.stdout.write(f"{result.task_id} enqueued to {result.queue}")


def _payload(text: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"JSON: {error}") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"must be NAME=TEXT, not {text!r}")
    return name, value

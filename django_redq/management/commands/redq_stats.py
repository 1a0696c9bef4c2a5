"""``manage.py redq_stats``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from queue import Empty, SimpleQueue
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.broker import faults, health, rights
from django_redq.broker.sync import get_broker
from django_redq.errors import ConfigurationError
from django_redq.management.command import OperatorCommand, queue_names, seconds, where
from django_redq.management.consumers import consumer_rows
from django_redq.management.output import as_json, duration, one_line, table
from django_redq.management.serving import exit_at_once
from django_redq.queue import Queue
from django_redq.queue_stats import QueueStats
from django_redq.service import os_signals
from django_redq.troubles import TroubleCode, troubles_of

HELP = """\
Shows how full the queues are, and who works on them.

  manage.py redq_stats                      all queues
  manage.py redq_stats email -v 2           each consumer and each shard, too
  manage.py redq_stats --watch              again every 2 seconds, until Ctrl-C
  manage.py redq_stats --json               for programs: one line, ages in seconds
  manage.py redq_stats --check              is this server fit for tasks? exit code 1 if not

"oldest" is how long the first ready task has waited: too long means too few consumers. "late" is
how long the first delayed task is overdue: more than a second or two means that no scheduler keeps
up. "consumers" are those alive; "schedulers" is how many serve the queue's shards: without any,
nothing delayed runs. What needs a person is told below the table, a line each.
"""
HEAD = (
    "queue",
    "scheduled",
    "ready",
    "running",
    "dead",
    "oldest",
    "late",
    "consumers",
    "schedulers",
)
TROUBLES: dict[TroubleCode, Callable[[float], str]] = {
    TroubleCode.UNREACHABLE: lambda number: f"{number:.0f} shard(s) do not answer",
    TroubleCode.NO_CONSUMER: lambda _: "no consumer is alive",
    TroubleCode.NO_SCHEDULER: lambda number: f"{number:.0f} shard(s) have no scheduler",
    TroubleCode.LATE: lambda number: f"the first due task is {duration(number)} overdue",
    TroubleCode.SLOW_START: lambda number: f"the first ready task has waited {duration(number)}",
    TroubleCode.DYING: lambda number: f"{number:.0f} task(s) died in the last hour",
}
CLEAR = "\x1b[H\x1b[2J"


class Command(OperatorCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="default: all queues")
        parser.add_argument("--json", action="store_true", help="print JSON, an object a queue")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--watch", action="store_true", help="print again and again, until Ctrl-C")
        how.add_argument(
            "--check",
            action="store_true",
            help="look at the server instead: version, eviction, rights, layout of the queues",
        )
        parser.add_argument(
            "--interval", type=seconds, default=2.0, metavar="S", help="of --watch (default 2)"
        )

    def handle(self, **options: Any) -> None:
        queues = queue_names(options["queues"])
        if options["check"]:
            self._check(queues, as_document=options["json"])
        elif options["watch"]:
            self._watch(queues, options)
        else:
            self.stdout.write(_shown(queues, options))

    def _watch(self, queues: Sequence[str], options: dict[str, Any]) -> None:
        signals: SimpleQueue[str] = SimpleQueue()
        clear = CLEAR if self.stdout.isatty() and not options["json"] else ""
        with os_signals(signals.put, exit_at_once):
            while True:
                try:
                    shown = _shown(queues, options)
                except faults.REDIS_ERRORS as error:
                    shown = f"{where()}: {faults.in_words(error)}"
                self.stdout.write(ending=clear)
                self.stdout.write(shown)
                self.stdout.flush()
                with suppress(Empty):
                    signals.get(timeout=options["interval"])
                    return

    def _check(self, queues: Sequence[str], *, as_document: bool) -> None:
        found = health.look(get_broker(), queues)
        problems = [*found.problems, *found.missing, *_disagreements(queues)]
        if as_document:
            self.stdout.write(as_json({"problems": problems, "unseen": found.unseen}))
        else:
            fit = f"{where()} is as it should be" + (", as far as seen" if found.unseen else "")
            for line in (*(problems or [fit]), *found.unseen):
                self.stdout.write(line)
        if problems:
            raise CommandError(f"{len(problems)} problem(s) found")


def _disagreements(queues: Sequence[str]) -> Iterator[str]:
    broker = get_broker()
    for name in queues:
        try:
            broker.open(broker.config.queue(name))
        except ConfigurationError as error:
            yield from error.faults
        except faults.REDIS_ERRORS as error:
            if not faults.lacks_permission(error):
                raise
            yield rights.missing_keys(error, broker.config.namespace)
            return


def _shown(queues: Sequence[str], options: dict[str, Any]) -> str:
    stats = [Queue(name).stats() for name in queues]
    if options["json"]:
        return as_json([_document(one) for one in stats])
    lines = table(HEAD, [_row(one) for one in stats])
    lines += [
        f"{one.queue}: {TROUBLES[trouble.code](trouble.number)}"
        for one in stats
        for trouble in troubles_of(one)
    ]
    if options["verbosity"] > 1:
        for one in stats:
            lines += ["", *_details(one)]
    return "\n".join(lines)


def _document(stats: QueueStats) -> dict[str, Any]:
    known = {field.name: getattr(stats, field.name) for field in fields(stats)}
    return {**known, "troubles": troubles_of(stats)}


def _row(stats: QueueStats) -> Sequence[object]:
    return (
        f"{stats.queue} (paused)" if stats.paused else stats.queue,
        stats.scheduled,
        stats.ready,
        stats.running,
        stats.dead,
        duration(stats.oldest_ready_age),
        duration(stats.lateness),
        sum(one.alive for one in stats.consumers),
        len(stats.lease_holders),
    )


def _details(stats: QueueStats) -> Iterator[str]:
    yield from table(
        (f"consumers of {stats.queue}", "running", "host", "pid", "version", "heard of"),
        consumer_rows(stats.consumers),
    )
    yield ""
    yield from table(
        (f"shards of {stats.queue}", "scheduled", "ready", "running", "dead", "scheduler"),
        [
            (
                one.shard,
                one.scheduled,
                one.ready,
                one.running,
                one.dead,
                one_line(one.lease_holder or "none"),
            )
            for one in stats.shards
        ],
    )

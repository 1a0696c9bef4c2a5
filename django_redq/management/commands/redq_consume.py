"""``manage.py redq_consume``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redq.consumer.consumer import Consumer
from django_redq.management.burst import Burst
from django_redq.management.command import RedqCommand, positive, queue_names
from django_redq.management.reloading import run_reloading
from django_redq.management.serving import serve
from django_redq.scheduler.scheduler import Scheduler
from django_redq.service import QueueGroup, Service

HELP = """\
Runs the tasks of one or more queues. Start as many processes as the work needs, on any number of
machines. Delayed tasks and retries need a redq_scheduler as well.

  manage.py redq_consume email
  manage.py redq_consume email webhook --concurrency 8
  manage.py redq_consume email --with-scheduler      both in one process, for a small site
  manage.py redq_consume email --burst               run what is ready, and end: for cron and tests
  manage.py redq_consume email --reload              restart when the code changes: development

SIGTERM or SIGINT stops it: it takes nothing more, hands back what has not begun, waits up to
SHUTDOWN_TIMEOUT for what runs, and ends with exit code 0. A second signal ends it on the spot; what
ran then is run again by others. A Redis that is away is waited for. Options beat the settings of
the queues.
"""


class Command(RedqCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="+", metavar="QUEUE")
        parser.add_argument(
            "--group", metavar="G", help="consumer group; all that use a queue have to agree on it"
        )
        parser.add_argument(
            "--name",
            metavar="N",
            help="prefix of the consumer name; a random suffix is always added (default: host and "
            "process)",
        )
        parser.add_argument(
            "--concurrency", type=positive, metavar="N", help="tasks that run at a time"
        )
        parser.add_argument(
            "--read-count", type=positive, metavar="N", help="tasks that one fetch takes at most"
        )
        parser.add_argument(
            "--with-scheduler", action="store_true", help="run a scheduler for these queues too"
        )
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            "--burst", action="store_true", help="end when nothing is ready or running any more"
        )
        how.add_argument(
            "--reload", action="store_true", help="restart the consumer when a file changes"
        )

    def handle(self, **options: Any) -> None:
        queues = queue_names(options["queues"])
        if options["reload"]:
            run_reloading(["redq_consume", *queues, *_flags(options)])
            return
        consumer = Consumer(
            *queues,
            name=options["name"],
            group=options["group"],
            concurrency=options["concurrency"],
            read_count=options["read_count"],
        )
        scheduler = Scheduler(*queues) if options["with_scheduler"] else None
        service: Service = consumer if scheduler is None else QueueGroup([scheduler, consumer])

        def fatal() -> Any:
            return consumer.fatal or (scheduler.fatal if scheduler is not None else None)

        if not options["burst"]:
            serve(service, queues, fatal=fatal)
            return
        burst = Burst(queues, promoting=scheduler is not None)
        serve(service, queues, fatal=fatal, is_over=burst.is_over)
        self.stdout.write(burst.summary(consumer.counts))


def _flags(options: dict[str, Any]) -> list[str]:
    """The options as the child of ``--reload`` gets them."""
    values = {
        f"--{name.replace('_', '-')}": options[name]
        for name in ("group", "name", "concurrency", "read_count", "verbosity")
    }
    flags = [f"{flag}={value}" for flag, value in values.items() if value is not None]
    return [*flags, "--with-scheduler"] if options["with_scheduler"] else flags

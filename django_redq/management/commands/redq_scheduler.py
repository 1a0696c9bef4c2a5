"""``manage.py redq_scheduler``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redq.management.command import RedqCommand, positive, queue_names, seconds
from django_redq.management.serving import serve
from django_redq.scheduler.scheduler import Scheduler

HELP = """\
Moves delayed tasks, retries and replays to the consumers when they are due, and keeps the queues
whole. Run one; a second one on another machine takes over when the first dies. Any number may run,
each shard is served by one of them at a time.

  manage.py redq_scheduler                     all queues of the settings
  manage.py redq_scheduler email webhook       these only
  manage.py redq_scheduler --once              move what is due now, and end: for cron and scripts

SIGTERM or SIGINT stops it (exit code 0) and gives its shards up at once; a second signal ends it on
the spot. A Redis that is away is waited for. Options beat REDQ["SCHEDULER"]; a duration is in
seconds, or with a unit: 30m, 12h, 7d.
"""


class Command(RedqCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="default: all queues")
        parser.add_argument(
            "--instance-id",
            metavar="ID",
            help="name in the leases; a random suffix is always added (default: host and process)",
        )
        parser.add_argument(
            "--batch-size", type=positive, metavar="N", help="tasks that one script moves, a shard"
        )
        parser.add_argument(
            "--tick",
            type=seconds,
            metavar="S",
            help="the longest that a task is late after a lost wake-up",
        )
        parser.add_argument(
            "--lease-ttl",
            type=seconds,
            metavar="S",
            help="how long a dead instance's shards stay without a scheduler",
        )
        parser.add_argument(
            "--once",
            action="store_true",
            help="move what is due now, then end; Redis has to answer",
        )

    def handle(self, **options: Any) -> None:
        queues = queue_names(options["queues"])
        scheduler = Scheduler(
            *queues,
            instance_id=options["instance_id"],
            batch_size=options["batch_size"],
            tick_interval=options["tick"],
            lease_ttl=options["lease_ttl"],
        )
        if options["once"]:
            self._move_once(scheduler)
        else:
            serve(scheduler, queues, fatal=lambda: scheduler.fatal)

    def _move_once(self, scheduler: Scheduler) -> None:
        try:
            moved = scheduler.run_once()
        finally:
            scheduler.stop()
        self.stdout.write(f"{moved} task(s) moved")

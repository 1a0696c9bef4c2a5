"""What both impostors do."""

from __future__ import annotations

import os
import signal
import sys
from argparse import REMAINDER
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from tests.harness import connect


class Impostor(BaseCommand):
    name = ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("rest", nargs=REMAINDER)

    def handle(self, **options: Any) -> None:
        # Blocked, it is pending until sigwait takes it, however early it comes.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self.stdout.write(f"{self.name} as {os.getpid()} with {options['rest']}")
        if os.environ.get("REDQ_IMPOSTOR_FAILS") == self.name:
            sys.exit(3)
        signal.sigwait([signal.SIGTERM])
        with connect(settings.CACHES["redq"]["LOCATION"]) as client:
            try:
                client.ping()
                self.stdout.write(f"{self.name} has put its work away")
            except redis.ConnectionError:
                self.stdout.write(f"{self.name} found nobody")

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
from redis.backoff import NoBackoff
from redis.retry import Retry


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
        no_retry = Retry(NoBackoff(), 0)
        with redis.Redis.from_url(settings.CACHES["redq"]["LOCATION"], retry=no_retry) as client:
            try:
                client.ping()
                self.stdout.write(f"{self.name} has put its work away")
            except redis.ConnectionError:
                self.stdout.write(f"{self.name} found nobody")

"""What all commands share: help that teaches, logs, and errors told in a line."""

from __future__ import annotations

import logging
import os
import re
import sys
from argparse import ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from django_redq.broker import faults
from django_redq.broker.alias import resolve
from django_redq.conf import get_config
from django_redq.errors import RedqError
from django_redq.management.output import Screen

LEVELS = {0: logging.WARNING, 1: logging.INFO}
"""What ``-v`` lets through; beyond that, DEBUG."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
INTERRUPTED = 130
"""What a shell sees of a command that Ctrl-C has ended."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([smhd]?)", re.ASCII)


class RedqCommand(BaseCommand):
    """A command that prints its ``help`` as it is written, and shows no traceback for a Redis that is
    not there or for what the settings get wrong.
    """

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        kwargs.setdefault("formatter_class", RawDescriptionHelpFormatter)
        return super().create_parser(prog_name, subcommand, **kwargs)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stdout = Screen(options.get("stdout") or sys.stdout)
        self.stderr = Screen(options.get("stderr") or sys.stderr)
        self.stderr.style_func = self.style.ERROR

    def execute(self, *args: Any, **options: Any) -> str | None:
        for name in ("stdout", "stderr"):
            if (out := options.pop(name, None)) is not None:
                setattr(self, name, Screen(out))
        log_to_stderr(options["verbosity"])
        with told():
            return super().execute(*args, **options)


class OperatorCommand(RedqCommand):
    """A command for people and scripts: it works, and says no more, where the project's checks fail."""

    requires_system_checks = ()


def log_to_stderr(verbosity: int) -> None:
    """Shows our logs on stderr, unless the project's LOGGING has a place for them."""
    ours = logging.getLogger("django_redq")
    if ours.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    ours.addHandler(handler)
    ours.setLevel(LEVELS.get(verbosity, logging.DEBUG))


@contextmanager
def told() -> Iterator[None]:
    """Turns what an operator can mend into a CommandError: one line, exit code 1."""
    try:
        yield
    except RedqError as error:
        raise CommandError(str(error)) from error
    except BrokenPipeError:
        # Who read our output has gone, as "| head" does; the interpreter must not flush to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except faults.REDIS_ERRORS as error:
        raise CommandError(f"{where()}: {faults.in_words(error)}") from error
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def where() -> str:
    """Which Redis it is about, without credentials."""
    return f"Redis at {resolve(get_config().connection)}"


def queue_names(given: Sequence[str]) -> list[str]:
    """The queues that are named, or all.

    Raises:
        UnknownQueue: there is no such queue.
    """
    config = get_config()
    return [config.queue(name).name for name in dict.fromkeys(given or config.queues)]


# --- types of arguments ----------------------------------------------------------------------


def positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Seconds, or with a unit: 90, 1.5, 30m, 12h, 7d."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"must be seconds, or like 30m, 12h or 7d, not {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def moment(text: str) -> datetime:
    """An ISO 8601 date and time; without an offset it is in the settings' TIME_ZONE."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"must be like 2030-12-31T23:59:00, not {text!r}") from None
    return value if value.tzinfo else value.replace(tzinfo=timezone.get_default_timezone())

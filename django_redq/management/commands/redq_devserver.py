"""``manage.py redq_devserver``: Valkey, a scheduler and consumers in one terminal."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redq.broker.alias import resolve
from django_redq.conf import Config, ConnectionConfig, get_config
from django_redq.devserver import DevServer
from django_redq.errors import ConfigurationError
from django_redq.keeper import Kept
from django_redq.management.command import RedqCommand, positive, queue_names

HELP = """\
Starts a Valkey server where the settings look for one, a scheduler, and a consumer for all queues
or for those named: all that development needs beside runserver, in one terminal. Ctrl-C stops the
consumers first, then the server. Needs: pip install 'django-redq[dev]'.

  manage.py redq_devserver
  manage.py redq_devserver email webhook --concurrency 8 --data-dir .valkey

Tasks are lost with the server when it stops, unless --data-dir gives them a place. Not for
production: there, run a server of your own, redq_scheduler and redq_consume.
"""
LOCAL = {"localhost", "127.0.0.1"}
VALKEY = "valkey"


@dataclass(frozen=True)
class Line:
    """A line that one of the processes printed."""

    name: str
    text: str


@dataclass(frozen=True)
class Ended:
    """One of the processes has ended."""

    name: str
    code: int


Event = Line | Ended | signal.Signals
Events = queue.SimpleQueue[Event]


class Command(RedqCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="default: all queues")
        parser.add_argument(
            "--port", type=int, help="where Valkey listens; has to be where the settings look"
        )
        parser.add_argument("--data-dir", help="where Valkey keeps its data over restarts")
        parser.add_argument("--concurrency", type=positive, help="tasks at a time a consumer")
        parser.add_argument(
            "--consumers", type=positive, default=1, help="consumer processes (default 1)"
        )
        parser.add_argument(
            "--noreload",
            action="store_true",
            help="do not restart the consumers when the code changes",
        )

    def handle(self, **options: Any) -> None:
        events: Events = queue.SimpleQueue()
        queues = queue_names(options["queues"])
        server = _server(get_config(), options["port"], options["data_dir"])
        with _signals_to(events), server:
            self._greet(server, options["data_dir"])
            self._run(server, _commands(queues, options), events)

    def _greet(self, server: DevServer, data_dir: str | None) -> None:
        kept = f"data in {server.data_dir}" if data_dir else "data are gone when it stops"
        self.stdout.write(f"Valkey listens on {server.url} ({kept}). Ctrl-C stops everything.")

    def _run(self, server: DevServer, commands: Mapping[str, list[str]], events: Events) -> None:
        with ExitStack() as stack:
            running = {name: _start(name, line, events, stack) for name, line in commands.items()}
            threading.Thread(target=_watch, args=(VALKEY, server.wait, events), daemon=True).start()
            failure = self._supervise(running, events)
        if failure is not None:
            raise CommandError(f"{failure.name} ended by itself, with exit code {failure.code}")

    def _supervise(self, running: dict[str, Kept], events: Events) -> Ended | None:
        """Print what they print until all have ended; who ended unbidden ends the others."""
        width = max(map(len, running))
        stopping = False
        failure: Ended | None = None
        while running:
            event = events.get()
            match event:
                case Line(name, text):
                    self.stdout.write(f"{name:<{width}} |", self.style.SQL_KEYWORD, ending=" ")
                    self.stdout.write(text)
                    continue
                case Ended(name, _):
                    running.pop(name, None)
                    failure = failure or (None if stopping else event)
                    if stopping:
                        continue
                case _:
                    self.stdout.write("stopping ...")
            stopping = True
            for process in running.values():
                process.signal(signal.SIGTERM)
        return failure


# --- the server ------------------------------------------------------------------------------


def _server(config: Config, port: int | None, data_dir: str | None) -> DevServer:
    """The server that the settings look for.

    Raises:
        ConfigurationError: they look for one that cannot be on this machine.
    """
    connection = resolve(config.connection)
    if connection.kind != "url" or connection.tls or connection.host not in LOCAL:
        raise ConfigurationError(
            f"the settings look for Redis at {connection}, and a development server can only be "
            "at redis://127.0.0.1:<port>/<database> or unix://<path>"
        )
    if port is not None and not connection.path and port != connection.port:
        raise ConfigurationError(
            f"--port {port}: the settings look for Redis at {connection}; change the one or the "
            "other"
        )
    return DevServer(
        port=port if connection.path else connection.port,
        unix_socket=connection.path or None,
        data_dir=data_dir,
        append_only=data_dir is not None,
        options=_options(connection),
    )


def _options(connection: ConnectionConfig) -> dict[str, str]:
    """What the server needs so that the settings' database and login are there."""
    options = {"databases": str(max(16, connection.db + 1))}
    password = connection.options.get("password")
    username = connection.options.get("username") or "default"
    if password:
        options["user"] = f"{_quoted(username)} on {_quoted('>' + password)} ~* &* +@all"
    return options


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- the processes ---------------------------------------------------------------------------


def _commands(queues: list[str], options: Mapping[str, Any]) -> dict[str, list[str]]:
    # What the checks say has been said by this process.
    shared = ["--skip-checks", "--verbosity", str(options["verbosity"])]
    consume = ["redq_consume", *shared, *queues]
    if options["concurrency"] is not None:
        consume += ["--concurrency", str(options["concurrency"])]
    if not options["noreload"]:
        consume.append("--reload")
    several = options["consumers"] > 1
    numbers = range(1, options["consumers"] + 1)
    return {
        "scheduler": ["redq_scheduler", *shared, *queues],
        **{f"consumer {number}" if several else "consumer": consume for number in numbers},
    }


def _start(name: str, arguments: list[str], events: Events, stack: ExitStack) -> Kept:
    process = Kept(
        [sys.executable, "-m", "django", *arguments],
        output=subprocess.PIPE,
        # The project is found where this process has found it, wherever manage.py is.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
    )
    stack.callback(process.close)

    def read() -> int:
        for line in process.output:
            events.put(Line(name, line.decode(errors="replace").rstrip()))
        return process.wait()

    threading.Thread(target=_watch, args=(name, read, events), daemon=True).start()
    return process


def _watch(name: str, wait: Callable[[], int], events: Events) -> None:
    events.put(Ended(name, wait()))


@contextmanager
def _signals_to(events: Events) -> Iterator[None]:
    """SIGINT and SIGTERM become events, so that they are met in order with all else."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda got, _frame: events.put(signal.Signals(got)))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

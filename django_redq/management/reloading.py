"""``--reload``: a parent that watches files, and a child that it restarts when one changes.

Django's own reloader ends its process on the spot; a consumer has to finish what it runs. So the
parent only watches, with Django's eyes, and the child is an ordinary consumer that gets SIGTERM.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from django.apps import apps
from django.core.management.base import CommandError
from django.utils.autoreload import StatReloader, autoreload_started

from django_redq.keeper import Kept
from django_redq.lines import get_logger
from django_redq.management.serving import exit_at_once
from django_redq.service import os_signals

logger = get_logger("django_redq.command")


@dataclass(frozen=True)
class Signalled:
    """Somebody wants it all to stop."""

    name: str


@dataclass(frozen=True)
class Changed:
    """A file is not what it was."""

    path: Path


@dataclass(frozen=True)
class Ended:
    """The child has ended."""

    code: int


Event = Signalled | Changed | Ended
Events = SimpleQueue[Event]


class Watcher(StatReloader):
    """Django's reloader, but for what it does about a change."""

    def __init__(self, on_change: Callable[[Path], None]) -> None:
        super().__init__()
        self._on_change = on_change

    def notify_file_changed(self, path: str | os.PathLike[str]) -> None:
        self._on_change(Path(path))

    def watch_project(self) -> None:
        """Beside what is imported here: modules that the child may import later, and templates."""
        for app in apps.get_app_configs():
            if not {"site-packages", "dist-packages"} & set(Path(app.path).parts):
                self.watch_dir(app.path, "**/*.py")
        autoreload_started.send(sender=self)


def run_reloading(arguments: Sequence[str]) -> None:
    """Keeps ``manage.py ARGUMENTS`` running, until a signal.

    Raises:
        CommandError: the child did not stop cleanly.
    """
    events: Events = SimpleQueue()
    with os_signals(lambda name: events.put(Signalled(name)), exit_at_once):
        _watch(events)
        code = _supervise(arguments, events)
    # By SIGTERM itself it ends only where it had not begun yet.
    if code not in {0, 128 + signal.SIGTERM}:
        raise CommandError(f"the consumer ended with exit code {code}")


def _watch(events: Events) -> None:
    watcher = Watcher(lambda path: events.put(Changed(path)))
    watcher.watch_project()

    def watch() -> None:
        for _ in watcher.tick():
            pass

    threading.Thread(target=watch, name="redq-reload", daemon=True).start()


def _supervise(arguments: Sequence[str], events: Events) -> int:
    """Restarts the child at each change; its last exit code."""
    child: Kept | None = _start(arguments, events)
    stopping = restarting = False
    code = 0
    while child is not None or not stopping:
        match events.get():
            case Signalled(name):
                logger.info("%s: stopping; a second signal stops at once", name)
                if not restarting:
                    _ask_to_stop(child)
                stopping, code = True, 0
            case Ended(code):
                child = _after(code, arguments, events, restart=restarting and not stopping)
                restarting = False
            case Changed(path) if child is None:
                logger.info("%s has changed", path)
                child = _start(arguments, events)
            case Changed(path) if not (restarting or stopping):
                # Once only: a second SIGTERM would end it on the spot.
                logger.info("%s has changed: restarting the consumer", path)
                restarting = True
                _ask_to_stop(child)
    return code


def _after(code: int, arguments: Sequence[str], events: Events, *, restart: bool) -> Kept | None:
    if restart:
        return _start(arguments, events)
    logger.log(
        logging.WARNING if code else logging.INFO,
        "the consumer ended with exit code %d; a change starts it again",
        code,
    )
    return None


def _start(arguments: Sequence[str], events: Events) -> Kept:
    # The project is found where this process has found it, wherever manage.py is.
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = Kept([sys.executable, "-m", "django", *arguments], env=environ)

    def wait() -> None:
        code = child.wait()
        child.close()
        events.put(Ended(code))

    threading.Thread(target=wait, name="redq-reload-child", daemon=True).start()
    return child


def _ask_to_stop(child: Kept | None) -> None:
    if child is not None:
        child.signal(signal.SIGTERM)

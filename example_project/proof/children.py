"""The processes of the demo: started, watched, killed, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from django_redq.keeper import Kept

PROJECT = Path(__file__).resolve().parent.parent
STOP_TIMEOUT = 30.0
LOG_TAIL = 15


class ChildDied(Exception):
    """A child ended that nobody had told to; the message has the end of its log."""


class Child:
    """One ``manage.py`` command, its output in a log file; it does not outlive this process."""

    def __init__(
        self, name: str, *arguments: str, log: Path, env: Mapping[str, str], exit_code: int
    ) -> None:
        self.name = name
        self.log = log
        self.exit_code = exit_code
        with log.open("ab") as output:
            self._process = Kept(
                [sys.executable, str(PROJECT / "manage.py"), *arguments],
                output=output,
                cwd=PROJECT,
                env={**os.environ, **env},
            )

    def check(self) -> None:
        """Raise :class:`ChildDied` where it has ended by itself."""
        if not self._process.is_running:
            tail = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
            end = "\n  ".join(tail) or "(nothing)"
            code = self._process.wait()
            raise ChildDied(f"{self.name} ended with code {code}; its log ends with\n  {end}")

    def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        self._process.close()

    def ask_to_stop(self) -> None:
        self._process.signal(signal.SIGTERM)

    def wait_until_stopped(self) -> str:
        """What was wrong with its stop, or nothing."""
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"{self.name} did not stop within {STOP_TIMEOUT:g} s"
        finally:
            self._process.close()
        if code != self.exit_code:
            return f"{self.name} stopped with exit code {code}, not {self.exit_code}"
        return ""


class Children:
    """All children of one run, stopped last in, first out."""

    def __init__(self, log_dir: Path, env: Mapping[str, str]) -> None:
        self.log_dir = log_dir
        self.env = dict(env)
        self._running: list[Child] = []

    def start(self, name: str, *arguments: str, exit_code: int = 0) -> Child:
        """Start ``manage.py ARGUMENTS``, which is to end with ``exit_code`` when told to stop."""
        log = self.log_dir / f"{name}.log"
        child = Child(name, *arguments, log=log, env=self.env, exit_code=exit_code)
        self._running.append(child)
        return child

    def kill(self, child: Child) -> None:
        child.kill()
        self._running.remove(child)

    def check(self) -> None:
        for child in self._running:
            child.check()

    def stop(self) -> list[str]:
        """Stop all in good order.

        Returns:
            A sentence about each that did not stop as it should.
        """
        stopping, self._running = self._running[::-1], []
        for child in stopping:
            child.ask_to_stop()
        return [complaint for child in stopping if (complaint := child.wait_until_stopped())]

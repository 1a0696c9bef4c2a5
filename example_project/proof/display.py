"""How a run is shown: one live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable

PLAIN_INTERVAL = 3.0
"""Seconds between two lines where the output is no terminal."""


class Display:
    """Writes to standard output."""

    def __init__(self) -> None:
        self._is_live = sys.stdout.isatty()
        self._live_line = ""
        self._shown: str | None = None
        self._shown_at = time.monotonic()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._erase()
        print(text, flush=True)

    def progress(self, text: str) -> None:
        """What replaces the last progress on a terminal, and is thinned out elsewhere."""
        if self._is_live:
            line = text[: shutil.get_terminal_size().columns - 1]
            # In one go, over the old one, so that it does not flicker.
            print("\r" + line.ljust(len(self._live_line)), end="", flush=True)
            self._live_line = line
        elif self._shown is None:
            self._shown = text  # nothing has happened yet
        elif text != self._shown and time.monotonic() - self._shown_at >= PLAIN_INTERVAL:
            self._shown, self._shown_at = text, time.monotonic()
            print(text, flush=True)

    def table(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Rows of (name, number, what it counts)."""
        self.say("")
        for name, number, meaning in rows:
            self.say(f"  {name:<12}{number:>8,}   {meaning}")
        self.say("")

    def _erase(self) -> None:
        if self._live_line:
            print("\r" + " " * len(self._live_line) + "\r", end="", flush=True)
            self._live_line = ""

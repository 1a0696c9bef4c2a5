"""What commands print: for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from django.core.management.base import OutputWrapper

_HIDDEN = "_"


def as_json(value: object, *, readable: bool = False) -> str:
    """Our frozen values as JSON, a field a key; times in ISO 8601.

    ``readable`` leaves letters of other alphabets as they are: what a terminal cannot show is the
    caller's business then.
    """
    return json.dumps(_plain(value), ensure_ascii=not readable)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = [one.name for one in fields(value) if not one.name.startswith(_HIDDEN)]
        return {name: _plain(getattr(value, name)) for name in named}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def printable(text: str) -> str:
    """Text from Redis as a terminal may get it: no control characters but line breaks and tabs."""
    return "".join(
        one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text
    )


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line, cut to ``limit`` characters."""
    line = " ".join(printable(text[: limit * 4]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def duration(seconds: float | None) -> str:
    """Seconds for people: 0.3 s, 42 s, 3 min 5 s, 2 h 10 min, 5 d 3 h."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, less, lesser in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // less
            return f"{whole // size} {unit}" + (f" {rest} {lesser}" if rest else "")
    return f"{whole} s"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines in columns; the first one to the left, the others, numbers mostly, to the right."""
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


class Screen(OutputWrapper):
    """A command's output, that text from Redis cannot take over: what :func:`printable` leaves of it.

    Only a style and the ``ending``, which are ours, may steer the terminal.
    """

    def write(  # type: ignore[override] # Django's own
        self,
        msg: str = "",
        style_func: Callable[[str], str] | None = None,
        ending: str | None = None,
    ) -> None:
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        # A terminal that lacks a letter shows its number, as Python's stderr does.
        shown = printable(msg).encode(encoding, "backslashreplace").decode(encoding)
        super().write(shown, style_func, ending)


class Progress:
    """Tells how far long work is: in place on a terminal, else a line now and then.

    Args:
        out: where to.
        what: said behind the number.
    """

    EVERY = 10_000
    """Steps between lines where there is no terminal."""

    def __init__(self, out: OutputWrapper, what: str) -> None:
        self._out = out
        self._what = what
        self._said = 0
        self._open = False

    def __call__(self, done: int) -> None:
        if self._out.isatty():
            self._open = True
            self._out.write(f"{done:,} {self._what}", ending="\r")
            self._out.flush()
        elif done - self._said >= self.EVERY:
            self._said = done
            self._out.write(f"{done:,} {self._what}")

    def close(self) -> None:
        """Ends the line that was written in place."""
        if self._open:
            self._out.write("")

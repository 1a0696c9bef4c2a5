"""Text that others have written, as it may stand in our lines: of logs, of terminals.

Task IDs, kinds, payloads, what an exception says, what strangers put into Redis, what Redis answers:
any of it may hold line breaks, control sequences, halves of characters, or a megabyte.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

LIMIT = 600
"""Characters of one argument of a log call, and of one line of a traceback."""
MAX_TRACEBACK = 11 * 1024
"""Characters; its end is kept."""


def one_line(text: str, limit: int = 200) -> str:
    """Text as it may stand in a line: no line break, no control character, not too long."""
    shown = "".join(char if char.isprintable() else " " for char in text[: limit + 1])
    return shown if len(text) <= limit else shown[:limit] + "…"


def block(text: str) -> str:
    """Text of several lines, each printable and set in, so that none looks like one of ours."""
    lines = text[-MAX_TRACEBACK:].split("\n")
    return "\n".join("    " + one_line(line.rstrip(), LIMIT) for line in lines if line.strip())


def traceback_of(error: BaseException) -> str:
    """Its traceback, those of its causes and its notes, also where it cannot be read."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as fault:  # noqa: BLE001 - the text of a failure must not be one
        return f"<its traceback could not be read: {type(fault).__name__}>"


def get_logger(name: str) -> LineLogger:
    """The logger of this name, whose lines stay lines."""
    return LineLogger(logging.getLogger(name))


class LineLogger(logging.LoggerAdapter[logging.Logger]):
    """Makes each argument of a log call printable and short; the message itself is ours.

    ``%r`` is for text only: of anything else the text is taken first.
    """

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        exc_info: object = None,
        stacklevel: int = 1,
        **kwargs: Any,
    ) -> None:
        """As :meth:`logging.Logger.log`; any true ``exc_info`` means the exception that is handled."""
        logger = self.logger
        if not logger.isEnabledFor(level):
            return
        path, number, function, _ = logger.findCaller(stacklevel=stacklevel + 1)
        shown = tuple(map(_shown, args))
        info = sys.exc_info() if exc_info else None
        record = logger.makeRecord(
            logger.name, level, path, number, msg, shown, info, function, **kwargs
        )
        if info and info[1] is not None:
            # A formatter takes this in place of what it would write itself.
            record.exc_text = block(traceback_of(info[1]))
        logger.handle(record)


def _shown(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return one_line(value if isinstance(value, str) else text_of(value), LIMIT)


def text_of(value: object) -> str:
    """Its text, also where it cannot be read."""
    try:
        # What str() gives may be of a class whose methods are somebody's own.
        return str.__str__(str(value))
    except BaseException as fault:  # noqa: BLE001 - a log line must not be what fails a task
        return f"<its text could not be read: {type(fault).__name__}>"

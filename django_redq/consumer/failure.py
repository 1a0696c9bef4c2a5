"""An exception as a bounded record of what went wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from django_redq.lines import text_of, traceback_of
from django_redq.outcome import Failure

MAX_TYPE = 256
MAX_ERROR = 4 * 1024
MAX_TRACEBACK = 11 * 1024
"""Bytes; with the type and the message a failure stays under 16 KiB."""
KEPT_FAILURES = 10
KEPT_ERROR = 500
"""Of earlier failures the message's beginning is kept, without traceback."""


def describe(error: BaseException, attempt: int) -> Failure:
    """What is kept of an exception: its type, message and the end of its traceback."""
    return Failure(
        exception_type=_start(_type_name(error), MAX_TYPE),
        error=_start(text_of(error), MAX_ERROR),
        traceback=_end(traceback_of(error), MAX_TRACEBACK),
        attempt=attempt,
        at=int(time.time() * 1000),
    )


def in_words(exception_type: str, words: str, attempt: int) -> Failure:
    """A failure that no exception of the handler's stands for."""
    return Failure(exception_type, _start(words, MAX_ERROR), "", attempt, int(time.time() * 1000))


def appended(earlier: Sequence[Failure], latest: Failure) -> list[Failure]:
    """The failures to keep: the latest whole, those before it cut short."""
    cut = [replace(one, error=one.error[:KEPT_ERROR], traceback="") for one in earlier]
    return [*cut[-(KEPT_FAILURES - 1) :], latest]


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__
    try:
        module = kind.__module__
    except BaseException:  # noqa: BLE001 - a metaclass may raise anything
        return name
    return name if module == "builtins" else f"{text_of(module)}.{name}"


def _start(text: str, limit: int) -> str:
    raw = text[:limit].encode(errors="backslashreplace")
    return raw[:limit].decode(errors="ignore")


def _end(text: str, limit: int) -> str:
    raw = text[-limit:].encode(errors="backslashreplace")
    return raw[-limit:].decode(errors="ignore")

"""The values without parts: how each becomes one of JSON's own, and what to say of the rest.

Each converter takes subclasses too and calls the base's own method, so that a ``SafeString`` or a
``pandas.Timestamp`` is sent as what it is a kind of, whatever it overrides.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from django_redq.conf.rules import show

Scalar = str | int | float | bool | None

# msgspec, as Python, reads no longer number back from text; to msgspec the sign counts.
_MOST, _LEAST = 10**4300 - 1, -(10**4299) + 1
_WHOLE_MINUTES = timedelta(minutes=1)


class Refusal(Exception):
    """A value that cannot be sent; whoever knows where it stands adds the path."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def text(value: str) -> str:
    plain = str.__str__(value)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise Refusal(
                f"holds a lone surrogate, {plain[error.start]!a} at index {error.start}, "
                "which is half a character and no text"
            ) from None
    return plain


def _integer(value: int) -> int:
    plain = int.__int__(value)
    if not _LEAST <= plain <= _MOST:
        raise Refusal("is a whole number of more than 4,300 characters, too long to be read back")
    return plain


def _float(value: float) -> float:
    plain = float.__float__(value)
    if not math.isfinite(plain):
        raise Refusal(f"is {plain}, which JSON has no number for")
    return plain


def _as_is(value: Any) -> Any:
    return value


def _datetime(value: datetime) -> str:
    offset = datetime.utcoffset(value)
    if offset is not None and offset % _WHOLE_MINUTES:
        # Local mean time of the 19th century: no reader of RFC 3339 takes seconds in an offset.
        try:
            value = datetime.astimezone(value, UTC)
        except OverflowError:
            raise Refusal(
                f"is {show(value)}, which has no UTC form within the years 1 to 9999"
            ) from None
    return datetime.isoformat(value)


def _time(value: time) -> str:
    offset = time.utcoffset(value)
    if offset is not None and offset % _WHOLE_MINUTES:
        raise Refusal(f"is {show(value)}; an offset from UTC has whole minutes in JSON")
    return time.isoformat(value)


def _date(value: date) -> str:
    return date.isoformat(value)


def _timedelta(value: timedelta) -> str:
    plain = timedelta(value.days, value.seconds, value.microseconds)
    duration: str = msgspec.to_builtins(plain)
    return duration


def _decimal(value: Decimal) -> str:
    if not Decimal.is_finite(value):
        raise Refusal(f"is Decimal {Decimal.__str__(value)!r}, which JSON has no number for")
    return Decimal.__str__(value)


def _uuid(value: UUID) -> str:
    return UUID.__str__(value)


LEAVES: dict[type, Callable[[Any], Scalar]] = {
    str: text,
    int: _integer,
    bool: _as_is,
    float: _float,
    type(None): _as_is,
    datetime: _datetime,
    date: _date,
    time: _time,
    timedelta: _timedelta,
    Decimal: _decimal,
    UUID: _uuid,
}

_ADVICE: tuple[tuple[tuple[type, ...], str], ...] = (
    (
        (bytes, bytearray, memoryview),
        "is bytes; JSON has only text: send it base64-encoded, or send where it is stored",
    ),
    ((set, frozenset), "is a set, which JSON does not have; send a list"),
    ((Mapping,), "is a mapping that is no dict; send dict(…) of it"),
    (
        (Iterator, range, deque, KeysView, ValuesView, ItemsView),
        "is no list; send list(…) of it",
    ),
)


def why_not(value: object) -> str:
    """Why a value that nothing here converts cannot be sent, and what to send instead."""
    # Only a call that fails gets here, and only it should need the ORM.
    from django.db.models import Manager, Model, QuerySet  # noqa: PLC0415

    if isinstance(value, Model):
        return f"is a model instance ({type_name(value)}); send its pk, and load it in the handler"
    if isinstance(value, QuerySet | Manager):
        return "is a queryset; send the pks: list(queryset.values_list('pk', flat=True))"
    if inspect.isawaitable(value):
        return "has not been awaited"
    for types, advice in _ADVICE:
        if isinstance(value, types):
            return f"{advice} ({type_name(value)})"
    return (
        f"is of type {type_name(value)}, which JSON does not have; send text, numbers, lists and "
        "dicts of them, or a dataclass"
    )


def type_name(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"

"""Payloads as people read and change them: exact, and without a character that lies."""

from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext as _

from django_redq.errors import InvalidArgument


def pretty(payload: Any) -> str:
    """The payload as indented JSON that reads back as the same value.

    What cannot be seen, or turns the direction of writing, is escaped as JSON escapes it: so it is
    visible, and still what it was.
    """
    text = json.dumps(payload, ensure_ascii=False, indent=2)
    if text.isascii():
        # Nothing to escape: json has done so with control characters.
        return text.replace("\x7f", "\\u007f")
    return "".join(one if one.isprintable() or one == "\n" else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    # Between strings there are only printable characters and line breaks, so this is in a string.
    return json.dumps(character)[1:-1]


def parse(text: str) -> Any:
    """What a person typed, as the payload.

    Raises:
        InvalidArgument: it is no JSON; it says where.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = {"line": error.lineno, "column": error.colno, "why": error.msg}
        raise InvalidArgument(
            "payload", _("This is no JSON, line %(line)d, column %(column)d: %(why)s.") % place
        ) from None
    except RecursionError:
        raise InvalidArgument("payload", _("It is nested too deeply.")) from None
    except ValueError as error:
        # Of the hooks below, or a number of more digits than Python reads.
        raise InvalidArgument("payload", str(error)) from None


def _refuse(constant: str) -> Any:
    raise ValueError(_("JSON knows no %(constant)s.") % {"constant": constant})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each key once: of two the first would get lost without a word."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(_("The key %(key)r is there twice.") % {"key": key[:80]})
        found[key] = value
    return found

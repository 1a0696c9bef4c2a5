"""Connection URLs, read as redis-py reads them, but whole: what it would skip is an error here.

A password with ``#``, ``/`` or ``?`` that is not percent-encoded ends the part of the URL in which
it stands, and a client may then connect to a wrong host without a word. No message shows any part
of the URL, for it may be such a password.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django_redq.conf import rules
from django_redq.conf.options import OPTIONS, OURS, options
from django_redq.conf.rules import RuleError, nearest, problem

SCHEMES = ("redis", "rediss", "unix")

_UNREADABLE = (
    "cannot be read as a URL such as redis://user:password@host:6379/0; in user name and password "
    "percent-encode every character but letters and digits (urllib.parse.quote(..., safe=''))"
)
_FALSE = {"0", "f", "false", "n", "no"}


def parse_url(url: object) -> dict[str, Any]:
    """``host``, ``port`` or ``path``, ``db``, ``ssl`` and redis-py's keyword arguments.

    Only what the URL says is in it.

    Raises:
        RuleError: it cannot be read, or says what a connection of ours does not take.
    """
    given, query = read_url(url)
    faults = [("", _unknown_argument(key)) for key in query if key not in OPTIONS]
    if faults:
        raise RuleError(*faults)
    return given | options(query)


def read_url(url: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same, apart from the arguments of the query, which are converted but not checked.

    Where both name a database, the query's wins.
    """
    if not isinstance(url, str):
        raise problem(f"must be text, got {rules.a(url)}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text shows what stands where the port should
        raise problem(_UNREADABLE) from None
    if parts.scheme not in SCHEMES:
        raise problem("must start with redis://, rediss:// or unix://")
    if parts.fragment or ("@" in parts.path and parts.scheme != "unix"):
        raise problem(_UNREADABLE)
    given = _credentials(parts) | (
        _socket(parts) if parts.scheme == "unix" else _server(parts, port)
    )
    return given, _query(parts)


def _credentials(parts: SplitResult) -> dict[str, Any]:
    given = {"username": parts.username, "password": parts.password}
    return {key: unquote(value) for key, value in given.items() if value}


def _socket(parts: SplitResult) -> dict[str, Any]:
    if parts.hostname or len(parts.path) < 2:
        raise problem("must hold the absolute path of the socket: unix:///run/redis.sock?db=1")
    return {"path": unquote(parts.path)}


def _server(parts: SplitResult, port: int | None) -> dict[str, Any]:
    database = re.fullmatch(r"/?([0-9]{0,9})/?", unquote(parts.path))
    if database is None:
        raise problem("must end in the number of the database, as in redis://host:6379/0")
    found = {
        "host": unquote(parts.hostname or ""),
        "port": port,
        "db": int(database[1]) if database[1] else None,
        "ssl": True if parts.scheme == "rediss" else None,
    }
    return {key: value for key, value in found.items() if value not in {None, ""}}


# --- the query -------------------------------------------------------------------------------


def _flags(value: str) -> list[ssl.VerifyFlags]:
    return [ssl.VerifyFlags[word.strip()] for word in value.strip("[]").split(",")]


def _flag(value: str) -> bool:
    return value.lower() not in _FALSE


_CONVERTERS: dict[str, Callable[[str], Any]] = {
    "db": int,
    "socket_connect_timeout": float,
    "socket_keepalive": _flag,
    "socket_read_size": int,
    "socket_timeout": float,
    "ssl": _flag,
    "ssl_check_hostname": _flag,
    "ssl_exclude_verify_flags": _flags,
    "ssl_include_verify_flags": _flags,
    "ssl_min_version": lambda value: ssl.TLSVersion(int(value)),
}


def _query(parts: SplitResult) -> dict[str, Any]:
    try:
        pairs = parse_qsl(parts.query, strict_parsing=True) if parts.query else []
    except ValueError:
        raise problem(_UNREADABLE) from None
    query: dict[str, Any] = {}
    for key, value in pairs:
        if key not in OPTIONS and "@" in parts.query and "@" not in parts.netloc:
            raise problem(_UNREADABLE)
        try:
            # The first of several wins, as in redis-py.
            query.setdefault(key, _CONVERTERS.get(key, str)(value))
        except (KeyError, ValueError):
            raise problem(f"the value of its argument {key!r} cannot be read") from None
    return query


def _unknown_argument(key: str) -> str:
    if key in OURS:
        return f"its argument {key!r} is what django-redq sets for itself; leave it out"
    near = nearest(key, OPTIONS)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(OPTIONS))}"
    return f"unknown argument {key!r}; {hint}"

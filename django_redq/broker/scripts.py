"""Reads the Lua files: resolves includes, checks the header against the code, knows the SHA."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_LUA = files("django_redq.broker") / "lua"
_INCLUDE = re.compile(r"^--@include (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One transition, as sent to Redis."""

    name: str
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of ``lua/<name>.lua``, its includes in place of the lines that name them."""
    text = (_LUA / f"{name}.lua").read_text(encoding="utf-8")
    source = _INCLUDE.sub(lambda match: _included(match[1].split()), text)
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def _included(names: list[str]) -> str:
    return "\n".join(
        (_LUA / "include" / f"{name}.lua").read_text(encoding="utf-8").rstrip() for name in names
    )


def script_names() -> Iterator[str]:
    """The name of every script there is, sorted."""
    entries = sorted(entry.name for entry in _LUA.iterdir() if entry.name.endswith(".lua"))
    return (name.removesuffix(".lua") for name in entries)

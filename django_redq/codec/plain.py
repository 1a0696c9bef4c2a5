"""Any value -> JSON's own types, by a walk that knows where it stands.

The walk keeps its own stack, so what is nested 100,000 levels deep, or in itself, is told in words
and is no RecursionError.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
from django.utils.functional import LazyObject, Promise

from django_redq.codec.leaves import LEAVES, Refusal, text, type_name, why_not
from django_redq.conf.rules import show
from django_redq.errors import InvalidArgument

MAX_DEPTH = 256
"""Levels of nesting. A reader with little stack left (a deep call, another language) still takes
it: CPython 3.11 counts each level against its 1,000."""

_SHOWN_KEY = 40
_SHOWN_PATH = 120

Key = str | int
Step = tuple[Key, Any]


@dataclass(slots=True)
class _Branch:
    """A container that is being walked."""

    source: object
    out: list[Any] | dict[str, Any]
    steps: Iterator[Step]
    at: Key | None = None
    """Where the walk is in it; None between two steps."""

    def add(self, child: Any) -> None:
        if isinstance(self.out, list):
            self.out.append(child)
        elif self.at in self.out:
            raise Refusal("stands under a key that is there twice, once as a subclass of str")
        else:
            self.out[str(self.at)] = child


def to_plain(value: Any, root: str) -> Any:
    """``value`` made of dict, list, str, int, float, bool and None alone.

    Args:
        value: what a caller wants to send.
        root: its name in errors, such as ``payload``.

    Raises:
        InvalidArgument: something in it cannot be sent; ``field`` is the path to it.
    """
    branches: list[_Branch] = []
    try:
        tree = _grow(value, branches)
        while branches:
            branch = branches[-1]
            branch.at = None
            step = next(branch.steps, None)
            if step is None:
                branches.pop()
                continue
            branch.at, child = step
            branch.add(_grow(child, branches))
    except Refusal as refusal:
        keys = [branch.at for branch in branches if branch.at is not None]
        raise InvalidArgument(path(root, keys), refusal.reason) from None
    return tree


def _grow(value: Any, branches: list[_Branch]) -> Any:
    """The plain form of a leaf; of a container an empty one, which the walk then fills."""
    kind = type(value)
    if kind in LEAVES:
        return LEAVES[kind](value)
    if kind in _CONTAINERS:
        return _open(value, *_CONTAINERS[kind](value), branches)
    return _grow_other(value, kind, branches)


def _grow_other(value: Any, kind: type, branches: list[_Branch]) -> Any:
    if issubclass(kind, Enum):
        return _grow(value.value, branches)
    base = next((base for base in kind.__mro__ if base in LEAVES or base in _CONTAINERS), None)
    if base in LEAVES:
        return LEAVES[base](value)
    if base in _CONTAINERS:
        return _open(value, *_CONTAINERS[base](value), branches)
    if issubclass(kind, msgspec.Struct):
        return _open(value, *_struct(value), branches)
    if dataclasses.is_dataclass(kind):
        return _open(value, {}, _fields(value), branches)
    if issubclass(kind, Promise):
        return _lazy_text(value)
    if issubclass(kind, LazyObject):
        return _grow(_wrapped(value), branches)
    raise Refusal(why_not(value))


def _open(
    source: object,
    out: list[Any] | dict[str, Any],
    steps: Iterator[Step],
    branches: list[_Branch],
) -> list[Any] | dict[str, Any]:
    for level, branch in enumerate(branches):
        if branch.source is source:
            raise Refusal(
                f"is a cycle: the same {type_name(source)} holds it, "
                f"{len(branches) - level} level(s) up"
            )
    if len(branches) >= MAX_DEPTH:
        raise Refusal(f"is nested deeper than {MAX_DEPTH} levels")
    branches.append(_Branch(source, out, steps))
    return out


def _list(value: list[Any]) -> tuple[list[Any], Iterator[Step]]:
    return [], enumerate(list.__iter__(value))


def _tuple(value: tuple[Any, ...]) -> tuple[list[Any], Iterator[Step]]:
    return [], enumerate(tuple.__iter__(value))


def _dict(value: dict[Any, Any]) -> tuple[dict[str, Any], Iterator[Step]]:
    return {}, ((_key(key), child) for key, child in dict.items(value))


_CONTAINERS: dict[type, Callable[[Any], tuple[list[Any] | dict[str, Any], Iterator[Step]]]] = {
    list: _list,
    tuple: _tuple,
    dict: _dict,
}


def _key(key: object) -> str:
    if issubclass(type(key), Promise):
        key = _lazy_text(key)
    if not issubclass(type(key), str):
        raise Refusal(
            f"has the key {show(key)} of type {type_name(key)}; a key is text in JSON, "
            "so make it str and turn it back in the handler"
        )
    try:
        return text(key)  # type: ignore[arg-type] # type() does not lie, where __class__ may
    except Refusal as refusal:
        raise Refusal(f"has the key {show(key)}, which {refusal.reason}") from None


def _fields(value: Any) -> Iterator[Step]:
    """The fields of a dataclass; one that was never set is left out, as msgspec does."""
    for field in dataclasses.fields(value):
        child = getattr(value, field.name, msgspec.UNSET)
        if child is not msgspec.UNSET:
            yield field.name, child


def _struct(value: msgspec.Struct) -> tuple[list[Any] | dict[str, Any], Iterator[Step]]:
    """A Struct under the names, and with the tag, that msgspec reads it back by."""
    config = value.__struct_config__
    children = [getattr(value, name) for name in value.__struct_fields__]
    if config.array_like:
        tagged = children if config.tag is None else [config.tag, *children]
        return [], enumerate(tagged)
    named: list[Step] = [
        (name, child)
        for name, child in zip(value.__struct_encode_fields__, children, strict=True)
        if child is not msgspec.UNSET
    ]
    if config.tag is not None:
        named.insert(0, (config.tag_field or "type", config.tag))
    return {}, iter(named)


def _lazy_text(value: Any) -> str:
    resolved = str(value)
    # A proxy compares as what it stands for, so this tells text from lazy numbers.
    if value != resolved:
        raise Refusal("is lazy and stands for no text; send what it stands for")
    return text(resolved)


def _wrapped(value: Any) -> Any:
    value.__class__  # noqa: B018 - any look at the object makes it
    return vars(value)["_wrapped"]


def path(root: str, keys: Iterable[Key]) -> str:
    """``payload.order.lines[3]['unit price']``, with its middle cut out where it is long."""
    whole = root + "".join(_segment(key) for key in keys)
    if len(whole) <= _SHOWN_PATH:
        return whole
    return f"{whole[: _SHOWN_PATH // 2]} … {whole[-_SHOWN_PATH // 2 :]}"


def _segment(key: Key) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    shown = key if len(key) <= _SHOWN_KEY else key[: _SHOWN_KEY - 1] + "…"
    return f".{shown}" if key.isidentifier() else f"[{shown!r}]"

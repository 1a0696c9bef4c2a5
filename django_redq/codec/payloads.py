"""A payload to JSON and back, plain or into the type that its handler declares."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from django.core.exceptions import ValidationError

from django_redq.codec.plain import MAX_DEPTH, to_plain
from django_redq.errors import InvalidArgument, InvalidPayload

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any, root: str = "payload") -> bytes:
    """``value`` as JSON, UTF-8.

    Args:
        value: what design and docs allow in a payload.
        root: its name in errors.

    Raises:
        InvalidArgument: something in it cannot be sent; ``field`` is the path to it.
    """
    raw = _encode_if_equal(value)
    if raw is not None:
        return raw
    tree = to_plain(value, root)
    try:
        return _encode(tree)
    except (ValueError, RecursionError) as error:
        # sys.set_int_max_str_digits below its default, or a caller with hardly any stack left.
        raise InvalidArgument(root, f"cannot be written as JSON here: {error}") from None


def _encode_if_equal(value: Any) -> bytes | None:
    """The JSON of ``value`` if it reads back equal, else None.

    msgspec takes more than we do and turns it into something else (NaN into null, bytes into text,
    a set into a list, the key 1 into "1"). Reading back finds every one of these, in a tenth of the
    time that a walk in Python takes.
    """
    try:
        raw = _encode(value)
        tree = _decode(raw)
        if tree != value or _is_too_deep(raw, tree):
            return None
    except Exception:  # noqa: BLE001 - from whatever a foreign __eq__ may raise; the walk will tell
        return None
    return raw


def _is_too_deep(raw: bytes, tree: Any) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def decode_payload(raw: bytes, type_: Any | None) -> Any:
    """The payload that ``raw`` is the JSON of.

    Args:
        raw: JSON, UTF-8.
        type_: decoded and validated into this by msgspec; None or Any: JSON's own types.

    Raises:
        InvalidPayload: it is no JSON, or does not fit the type.
    """
    try:
        return _decoder(type_).decode(raw) if _is_typed(type_) else _decode(raw)
    except msgspec.ValidationError as error:
        fits = f"does not fit {_name(type_)}" if _is_typed(type_) else "cannot be read"
        raise InvalidPayload(f"the payload {fits}: {_told(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(f"the payload is no JSON that can be read: {error}") from None
    except ValidationError as error:
        # Django's, from a __post_init__; msgspec itself takes care of ValueError and TypeError.
        raise InvalidPayload(
            f"the payload does not fit {_name(type_)}: {'; '.join(error.messages)}"
        ) from error


def _is_typed(type_: Any | None) -> bool:
    return type_ is not None and type_ is not Any


@functools.lru_cache(maxsize=512)
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def _name(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else str(type_)


def _told(error: msgspec.ValidationError) -> str:
    """The words of msgspec, with the payload called by its name and not ``$``."""
    return str(error).replace("`$", "`payload")


def find_undecodable(type_: Any | None) -> str | None:
    """Why payloads can never be decoded into ``type_``, or None where they can."""
    if not _is_typed(type_):
        return None
    try:
        _decoder(type_)
        custom = _find_custom(msgspec.inspect.type_info(type_))
    except Exception as error:  # noqa: BLE001 - evaluates foreign annotations, whatever they are
        return f"{type(error).__name__}: {error}"
    if custom is None:
        return None
    return f"{_name(custom)} is no type that JSON can be decoded into; make it a dataclass"


def _find_custom(info: msgspec.inspect.Type) -> Any | None:
    """The first class in a type that msgspec would ask a hook for: we have none.

    ``object`` is not meant: what is decoded without a hook is an instance of it.
    """
    seen: set[int] = set()
    open_: list[object] = [info]
    while open_:
        node = open_.pop()
        if isinstance(node, msgspec.inspect.CustomType) and node.cls is not object:
            return node.cls
        if isinstance(node, list | tuple):
            open_.extend(node)
        elif isinstance(node, msgspec.Struct) and id(node) not in seen:
            seen.add(id(node))
            open_.extend(getattr(node, name) for name in node.__struct_fields__)
    return None

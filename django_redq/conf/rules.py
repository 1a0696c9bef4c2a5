"""Rules that a setting's value must keep, and how they combine into rules for whole dicts.

A rule is a function: it returns the value as we use it (seconds as float, tuple for list), or
raises :class:`RuleError`. A rule for a dict runs the rules of all its keys before it raises, so a
reader of the settings sees every fault at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from django_redq.task import NAME_RULE, is_name

T = TypeVar("T")

Rule = Callable[[object], Any]
REQUIRED: Final = object()
"""The default of a key that has none."""

LONGEST: Final = 100 * 365 * 86_400.0
"""The longest duration, in s: 100 years. In ms it still has fewer digits than Lua keeps (14)."""
MOST: Final = 10**9
"""The largest count."""


class RuleError(ValueError):
    """A value breaks its rule. ``faults`` holds (path below the value, reason) of each fault."""

    def __init__(self, *faults: tuple[str, str]) -> None:
        self.faults = faults
        super().__init__("; ".join(self.sentences("")))

    def below(self, path: str) -> list[tuple[str, str]]:
        """The faults as seen from the value that holds this one at ``path``."""
        return [(path + inner, reason) for inner, reason in self.faults]

    def sentences(self, root: str) -> list[str]:
        return [f"{root}{path}: {reason}" for path, reason in self.faults]


@dataclass(frozen=True, slots=True)
class Key:
    """What a dict may hold under one key."""

    rule: Rule
    default: Any = REQUIRED
    """As a user would write it; it goes through the rule."""


def problem(reason: str) -> RuleError:
    return RuleError(("", reason))


def show(value: object) -> str:
    """``repr`` for a message: bounded, and harmless where it raises (an int of 5,000 digits)."""
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise anything
        return a(value)


def a(value: object) -> str:
    """The value's type with its article: all that may be shown of a secret."""
    word = type(value).__name__
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def refused(wanted: str, value: object) -> RuleError:
    return problem(f"must be {wanted}, got {show(value)}")


def at(path: str, rule: Callable[[Any], T], value: object) -> T:
    """The rule's answer; what it finds wrong is told as ``path``."""
    try:
        return rule(value)
    except RuleError as error:
        raise RuleError(*error.below(path)) from None


# --- single values ---------------------------------------------------------------------------


def anything(value: object) -> Any:
    return value


def text(value: object) -> str:
    """Text that is not empty; no message shows it, for it may be a URL with a password."""
    if not isinstance(value, str):
        raise problem(f"must be text, got {a(value)}")
    if not value:
        raise problem("must not be empty")
    return str(value)


def secret(value: object) -> str | bytes:
    """Text or bytes, never shown in a message; digits may have been read as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str | bytes):
        raise problem(f"must be text, got {a(value)}")
    return value


def name(value: object) -> str:
    if not is_name(value):
        raise refused(NAME_RULE, value)
    return str(value)


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise refused("True or False", value)
    return value


def module_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(map(_is_dotted, value)):
        raise refused("a list of module names such as ['handlers']", value)
    return tuple(dict.fromkeys(value))


def _is_dotted(value: object) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def whole(low: int, high: int = MOST) -> Rule:
    """A whole number from ``low`` to ``high``; True is none, although Python says so."""

    def rule(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refused(f"a whole number from {low:,} to {high:,}", value)
        return int(value)

    return rule


def number(low: float, high: float) -> Rule:
    """A plain number, as float."""

    def rule(value: object) -> float:
        plain = _as_float(value)
        if plain is None or not low <= plain <= high:
            raise refused(f"a number from {low:,g} to {high:,g}", value)
        return plain

    return rule


def duration(low: float, high: float = LONGEST) -> Rule:
    """Seconds (int or float) or timedelta, from ``low`` to ``high`` s; as float seconds."""

    def rule(value: object) -> float:
        plain = value.total_seconds() if isinstance(value, timedelta) else _as_float(value)
        if plain is None or not low <= plain <= high:
            span = f"from {low:g} to {high:,.0f} s" if high < LONGEST else f"of at least {low:g} s"
            raise refused(f"seconds (int or float) or a timedelta, {span}", value)
        return plain

    return rule


def _as_float(value: object) -> float | None:
    """The float that ``value`` stands for; None where it is no number, as True is none.

    NaN and infinity are left to the range, which neither of them is in.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def one_of(*allowed: str) -> Rule:
    def rule(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            near = f"; did you mean {guess!r}?" if (guess := nearest(value, allowed)) else ""
            raise problem(f"must be {_listed(allowed)}, got {show(value)}{near}")
        return str(value)

    return rule


def optional(rule: Rule) -> Rule:
    return lambda value: None if value is None else rule(value)


# --- dicts -----------------------------------------------------------------------------------


def section(
    keys: Mapping[str, Key],
    build: Callable[..., T],
    homes: Mapping[str, str] | None = None,
) -> Callable[[object], T]:
    """A dict of just these keys, handed to ``build`` as keyword arguments in lower case.

    ``homes`` says where keys belong that are known elsewhere, for who puts one here.
    """

    def rule(given: object) -> T:
        if not isinstance(given, Mapping):
            raise problem(f"must be a dict, got {a(given)}")
        faults = [("", unknown(key, keys, homes)) for key in given if key not in keys]
        values: dict[str, Any] = {}
        for key, spec in keys.items():
            try:
                values[key.lower()] = _kept(spec, given, key)
            except RuleError as error:
                faults += error.below(f"[{key!r}]")
        if faults:
            raise RuleError(*faults)
        return build(**values)

    return rule


def _kept(spec: Key, given: Mapping[str, object], key: str) -> Any:
    value = given.get(key, spec.default)
    if value is REQUIRED:
        raise problem("is missing")
    return spec.rule(value)


def changes(keys: Mapping[str, Key], given: Mapping[str, object]) -> dict[str, Any]:
    """Some keys of a section, named as its fields are (lower case); None means not given.

    Raises:
        RuleError: naming each fault by the field.
    """
    known = {key.lower(): spec for key, spec in keys.items()}
    faults: list[tuple[str, str]] = []
    values: dict[str, Any] = {}
    for field, value in given.items():
        if field not in known:
            faults.append((field, unknown(field, known)))
        elif value is not None:
            try:
                values[field] = known[field].rule(value)
            except RuleError as error:
                faults += error.below(field)
    if faults:
        raise RuleError(*faults)
    return values


# --- unknown keys ----------------------------------------------------------------------------


def unknown(key: object, known: Collection[str], homes: Mapping[str, str] | None = None) -> str:
    """The reason for a key that should not be here: where it belongs, or the nearest known."""
    if homes and isinstance(key, str) and key in homes:
        return f"{key!r} does not belong here but into {homes[key]}"
    if near := nearest(key, known):
        return f"unknown key {show(key)}; did you mean {near!r}?"
    if homes and (near := nearest(key, homes)):
        return f"unknown key {show(key)}; did you mean {near!r}, which belongs into {homes[near]}?"
    return f"unknown key {show(key)}; known: {', '.join(sorted(known))}"


def nearest(key: object, known: Iterable[str]) -> str | None:
    """The known word that ``key`` resembles, letter case aside."""
    if not isinstance(key, str):
        return None
    folded = {word.lower(): word for word in known}
    wanted = key.lower()[:80]
    close = difflib.get_close_matches(wanted, folded, n=1) or [
        word for word in folded if len(wanted) > 2 and (wanted in word or word in wanted)
    ]
    return folded[close[0]] if close else None


def _listed(words: Collection[str]) -> str:
    return " or ".join(map(repr, words))

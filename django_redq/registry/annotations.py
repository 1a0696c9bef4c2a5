"""From ``def send(task: Task[WelcomeEmail])`` to ``WelcomeEmail``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from django_redq.task import Task


class Unresolvable(Exception):
    """The annotation names what is not there when it is looked up."""

    def __init__(self, annotation: object, error: Exception) -> None:
        shown = annotation if isinstance(annotation, str) else repr(annotation)
        super().__init__(f"{shown} ({type(error).__name__}: {error})")


def payload_type(func: Callable[..., Any]) -> Any | None:
    """The T of the first parameter's ``Task[T]``; None where nothing, or Any, is said.

    Raises:
        Unresolvable: it cannot be looked up.
    """
    inner = inspect.unwrap(func)
    if not isinstance(inner, FunctionType) or not inner.__code__.co_argcount:
        return None
    first = inner.__code__.co_varnames[0]
    annotation = _annotations(inner).get(first)
    if annotation is None:
        return None
    try:
        hint = _evaluate(inner, first, annotation)
    except Exception as error:  # noqa: BLE001 - evaluates a user's text, which may raise anything
        raise Unresolvable(annotation, error) from None
    if get_origin(hint) is not Task:
        return None
    (payload,) = get_args(hint)
    return None if payload is Any or isinstance(payload, TypeVar) else payload


def _annotations(func: FunctionType) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        # The plain attribute would raise where any annotation, needed or not, cannot be resolved.
        import annotationlib  # noqa: PLC0415

        return annotationlib.get_annotations(func, format=annotationlib.Format.FORWARDREF)
    return func.__annotations__


def _evaluate(func: FunctionType, name: str, annotation: Any) -> Any:
    """One annotation as the function's module sees it; the others may name what is not there."""
    probe = FunctionType(func.__code__, func.__globals__, closure=func.__closure__)
    probe.__annotations__ = {name: annotation}
    return get_type_hints(probe, include_extras=True)[name]


def takes_one_argument(func: Callable[..., Any]) -> bool:
    """Whether ``func(task)`` fits its signature; True where that cannot be told."""
    if not isinstance(func, FunctionType):
        return True
    code = func.__code__
    optional = len(func.__defaults__ or ())
    needed_by_name = code.co_kwonlyargcount - len(func.__kwdefaults__ or ())
    room = code.co_argcount > 0 or bool(code.co_flags & inspect.CO_VARARGS)
    return room and code.co_argcount - optional <= 1 and not needed_by_name

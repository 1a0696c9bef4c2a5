"""Functions whose annotations can, and cannot, be resolved; not handlers before a test says so."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from django_redq.task import Task

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")


@dataclass
class Mail:
    to: str


MailTask = Task[Mail]
Positive = Annotated[int, msgspec.Meta(gt=0)]


class Opaque:
    """Nothing that JSON could be decoded into."""


def bare(task): ...


def bare_task(task: Task) -> None: ...


def anything(task: Task[Any]) -> None: ...


def type_variable(task: Task[T]) -> None: ...


def other_hint(task: dict[str, Any]) -> None: ...


def no_fixed_argument(*args: Any) -> None: ...


def typed(task: Task[Mail]) -> None: ...


def aliased(task: MailTask) -> None: ...


def builtin(task: Task[dict[str, int]]) -> None: ...


def constrained(task: Task[Positive]) -> None: ...


def only_the_rest_is_unresolvable(task: Task[Mail], rate: Decimal | None = None) -> Decimal: ...


def under_type_checking(task: Task[Decimal]) -> None: ...


def of_later(task: Task[Later]) -> None: ...


@dataclass
class Later:
    """Defined after the function that names it."""

    n: int


def undecodable(task: Task[list[Opaque]]) -> None: ...


def of_local_class():
    @dataclass
    class Local:
        n: int

    def local(task: Task[Local]) -> None: ...

    return local


def passing_on(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


@passing_on
def wrapped(task: Task[Mail]) -> None: ...

"""One function and what it is registered for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django_redq.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function stands, so that it can be looked up when it is called."""

    module: str
    qualname: str

    @classmethod
    def of(cls, func: Callable[..., Any]) -> Place:
        return cls(func.__module__, func.__qualname__)

    def __str__(self) -> str:
        return f"{self.module}.{self.qualname}"

    @property
    def is_local(self) -> bool:
        """Made inside a function, where nobody can look it up."""
        return "<locals>" in self.qualname

    def find(self) -> Any | None:
        """What stands there now; None for nothing."""
        found: Any = sys.modules.get(self.module)
        for name in self.qualname.split("."):
            found = getattr(found, name, None)
        return found

    def callable_or(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """What stands there, if it can be called: ``mock.patch`` may have put something there."""
        found = self.find()
        return found if callable(found) else func


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A handler as the consumer knows it."""

    queue: str
    kind: str
    func: Callable[..., Any]
    place: Place
    payload: Any | None
    """What payloads are decoded into; None: JSON's own types."""
    max_attempts: int | None
    """None: as the queue says; so for ``retry``."""
    retry: RetryPolicy | None
    timeout: float | None
    """Seconds; None: it may run for as long as it likes."""
    is_async: bool

    @property
    def path(self) -> str:
        """``module.qualname``."""
        return str(self.place)

    def target(self) -> Callable[..., Any]:
        """What to call now: what the module holds under the handler's name."""
        return self.place.callable_or(self.func)

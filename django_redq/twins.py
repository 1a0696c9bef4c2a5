"""Sync methods that wait for Redis, and their async twins, which a view may await."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.utils.asyncio import async_unsafe

SelfT = TypeVar("SelfT")
P = ParamSpec("P")
R = TypeVar("R")


def blocks(method: Callable[P, R]) -> Callable[P, R]:
    """Refuses to block an event loop, and says what to await instead."""
    name = method.__name__
    return async_unsafe(
        f"{name}() waits for Redis, and an event loop runs in this thread, which it would block; "
        f"await a{name}() instead."
    )(method)


def twin(
    method: Callable[Concatenate[SelfT, P], R],
) -> Callable[Concatenate[SelfT, P], Coroutine[Any, Any, R]]:
    """The method with an ``a`` before its name, run in another thread."""

    @functools.wraps(method)
    async def awaited(self: SelfT, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # Any thread will do: nothing here depends on the caller's transaction.
        return await sync_to_async(method, thread_sensitive=False)(self, *args, **kwargs)

    awaited.__name__ = f"a{method.__name__}"
    awaited.__qualname__ = method.__qualname__.replace(method.__name__, awaited.__name__)
    awaited.__doc__ = f"As :meth:`{method.__name__}`, from async code."
    return awaited

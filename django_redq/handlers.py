"""``@handler`` and ``@dead_letter_handler``: from a function to what the consumer runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django_redq import registry
from django_redq.conf import retry_policy, rules
from django_redq.errors import ConfigurationError
from django_redq.producer.arguments import (
    HandlerOptions,
    Mode,
    check,
    check_kind,
    check_max_attempts,
)
from django_redq.producer.producer import Producer
from django_redq.registry.annotations import takes_one_argument
from django_redq.registry.registration import Place, Registration
from django_redq.retry import RetryPolicy
from django_redq.task import EnqueueResult, Task

PayloadT = TypeVar("PayloadT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_timeout = rules.optional(rules.duration(0.001))
_retry = rules.optional(retry_policy)


class Handler(Generic[PayloadT]):
    """A function that runs the tasks of one kind; calling it calls the function.

    It is a coroutine function where the function is one, and pickled as what stands under its
    import path.
    """

    __name__: str
    __qualname__: str

    def __init__(self, func: Callable[..., Any], queue: str, kind: str) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.queue = queue
        self.kind = kind
        if iscoroutinefunction(func):
            markcoroutinefunction(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        of_kind = f", kind={self.kind!r}" if self.kind else ""
        return f"<Handler {self.__module__}.{self.__qualname__} of {self.queue!r}{of_kind}>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def enqueue(
        self,
        payload: PayloadT | Mapping[str, Any],
        *,
        mode: Mode | None = None,
        using: str = "default",
        **options: Unpack[HandlerOptions],
    ) -> EnqueueResult:
        """Enqueues a task for this handler; the arguments are those of :func:`enqueue`."""
        producer = Producer(self.queue)
        return producer.enqueue(payload, kind=self.kind, mode=mode, using=using, **options)

    async def aenqueue(
        self,
        payload: PayloadT | Mapping[str, Any],
        *,
        mode: Mode | None = None,
        using: str = "default",
        **options: Unpack[HandlerOptions],
    ) -> EnqueueResult:
        """As :meth:`enqueue`, from async code."""
        producer = Producer(self.queue)
        return await producer.aenqueue(payload, kind=self.kind, mode=mode, using=using, **options)


class _TypedDecorator(Protocol[PayloadT]):
    def __call__(self, func: Callable[[Task[PayloadT]], Any], /) -> Handler[PayloadT]: ...


class _Decorator(Protocol):
    def __call__(self, func: Callable[[Task[PayloadT]], Any], /) -> Handler[PayloadT]: ...


@overload
def handler(
    queue: str,
    *,
    kind: str = "",
    payload: type[PayloadT],
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | str | None = None,
    timeout: float | timedelta | None = None,
) -> _TypedDecorator[PayloadT]: ...


@overload
def handler(
    queue: str,
    *,
    kind: str = "",
    payload: None = None,
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | str | None = None,
    timeout: float | timedelta | None = None,
) -> _Decorator: ...


def handler(
    queue: str,
    *,
    kind: str = "",
    payload: Any | None = None,
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | str | None = None,
    timeout: float | timedelta | None = None,
) -> Callable[[Callable[..., Any]], Handler[Any]]:
    """Makes a function the handler of one kind of task; the outermost decorator.

    Args:
        queue: whose tasks it runs.
        kind: which of them; '' those that are enqueued without a kind.
        payload: what payloads are decoded into and validated as; None: what the function's
            ``Task[...]`` says, and without that, JSON's own types.
        max_attempts: runs that a task gets; None: as the queue says. A call can say otherwise.
        retry: a callable of (attempt, error), or a policy as in ``REDQ``; None: as the queue says.
        timeout: seconds or timedelta that a run may take; None: as long as it likes.

    Raises:
        InvalidArgument: an argument breaks its rule.
        ConfigurationError: the function does not take the task as its one argument.
    """
    options: dict[str, Any] = {
        "queue": check("queue", rules.name, queue),
        "kind": check_kind(kind),
        "payload": payload,
        "max_attempts": check_max_attempts(max_attempts),
        "retry": check("retry", _retry, retry),
        "timeout": check("timeout", _timeout, timeout),
    }

    def decorate(func: Callable[..., Any]) -> Handler[Any]:
        if isinstance(func, Handler):
            # Two decorators, for two queues or kinds: both are of the same function.
            func = func.func
        _check_function(func)
        _check_argument(func, "task")
        made: Handler[Any] = Handler(func, options["queue"], options["kind"])
        is_async = iscoroutinefunction(func)
        registry.add(Registration(func=func, place=Place.of(func), is_async=is_async, **options))
        return made

    return decorate


def dead_letter_handler(queue: str) -> Callable[[FunctionT], FunctionT]:
    """Has a function told of each task of the queue that is dead-lettered, once Redis has it so.

    It is called in the consumer with the :class:`DeadLetter`, off the loop that fetches. What it
    raises is logged. It is not called for what a person does, such as a purge.
    """
    name = check("queue", rules.name, queue)

    def decorate(func: FunctionT) -> FunctionT:
        _check_function(func)
        _check_argument(func, "dead letter")
        registry.add_dead_letter_handler(name, func)
        return func

    return decorate


def _check_function(func: object) -> None:
    if not callable(func) or not hasattr(func, "__qualname__") or isinstance(func, type):
        raise ConfigurationError(f"a handler must be a function, got {rules.show(func)}")


def _check_argument(func: Callable[..., Any], name: str) -> None:
    if not takes_one_argument(func):
        raise ConfigurationError(f"handler {Place.of(func)} must take one argument, the {name}")

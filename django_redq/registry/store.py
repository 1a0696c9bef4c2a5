"""The registrations, and what can be wrong with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from django_redq.codec import find_undecodable
from django_redq.conf import get_config
from django_redq.errors import ConfigurationError, UnknownKind
from django_redq.registry.annotations import Unresolvable, payload_type
from django_redq.registry.registration import Place, Registration

FaultKind = Literal["double", "unknown_queue", "annotation", "hidden"]
_Key = tuple[str, str]
"""Queue and kind."""


class Registry:
    """Handlers by queue and kind, dead-letter handlers by queue.

    A module that is imported again, or reloaded, takes the place of its former self.
    """

    def __init__(self) -> None:
        self._added: dict[_Key, dict[Place, Registration]] = defaultdict(dict)
        self._resolved: dict[_Key, Registration] = {}
        self._told: dict[str, dict[Place, Callable[..., Any]]] = defaultdict(dict)

    def add(self, registration: Registration) -> None:
        """Registers a handler; its annotation is looked at later, when all modules are there."""
        key = registration.queue, registration.kind
        self._added[key][registration.place] = registration
        self._resolved.pop(key, None)

    def add_dead_letter_handler(self, queue: str, func: Callable[..., Any]) -> None:
        self._told[queue][Place.of(func)] = func

    def find(self, queue: str, kind: str) -> Registration:
        """The handler of a kind of task, its payload type resolved.

        Raises:
            UnknownKind: there is none.
            ConfigurationError: its annotation cannot be resolved.
        """
        found = self._resolved.get((queue, kind))
        return found if found is not None else self._resolve(queue, kind)

    def kinds(self, queue: str) -> tuple[str, ...]:
        """The kinds of task that the queue has handlers for, sorted; '' is one without kind."""
        return tuple(sorted(kind for of, kind in self._added if of == queue))

    def dead_letter_handlers(self, queue: str) -> tuple[Callable[..., Any], ...]:
        """Who is told of the queue's dead letters, as they can be called now."""
        told = self._told.get(queue)
        if not told:
            return ()
        return tuple(place.callable_or(func) for place, func in told.items())

    def resolve(self) -> list[str]:
        """Resolves the payload types of all handlers; what cannot be is told, a sentence each."""
        faults: list[str] = []
        for queue, kind in self._added:
            try:
                self.find(queue, kind)
            except ConfigurationError as error:
                faults += error.faults
        return faults

    def faults(self) -> list[str]:
        """Everything that is wrong with the registrations, a sentence each."""
        return [fault for faults in self.faults_by_kind().values() for fault in faults]

    def faults_by_kind(self) -> dict[FaultKind, list[str]]:
        """The same by what is wrong, for the checks, whose IDs are stable."""
        return {
            "double": list(self._doubles()),
            "unknown_queue": list(self._of_unknown_queues()),
            "annotation": self.resolve(),
            "hidden": list(self._hidden()),
        }

    def clear(self) -> None:
        """Forgets all."""
        self._added.clear()
        self._resolved.clear()
        self._told.clear()

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """For tests: empty at first, and afterwards what it was before."""
        kept = self._added, self._resolved, self._told
        self._added, self._resolved, self._told = defaultdict(dict), {}, defaultdict(dict)
        try:
            yield
        finally:
            self._added, self._resolved, self._told = kept

    def _resolve(self, queue: str, kind: str) -> Registration:
        added = self._added.get((queue, kind))
        if not added:
            raise UnknownKind(queue, kind, self.kinds(queue))
        resolved = _resolved(next(iter(added.values())))
        self._resolved[queue, kind] = resolved
        return resolved

    def _doubles(self) -> Iterator[str]:
        for (queue, kind), added in self._added.items():
            if len(added) > 1:
                rivals = " and ".join(map(str, added))
                of_kind = f"kind {kind!r}" if kind else "tasks without kind"
                yield f"queue {queue!r}: {rivals} are both for {of_kind}; give one another kind="

    def _of_unknown_queues(self) -> Iterator[str]:
        try:
            known = get_config().queues
        except ConfigurationError:
            return  # its own faults are told elsewhere
        names = ", ".join(sorted(known))
        for (queue, _), added in self._added.items():
            if queue not in known:
                for place in added:
                    yield f"handler {place}: {queue!r} is not in REDQ['QUEUES']; known: {names}"
        for queue, told in self._told.items():
            if queue not in known:
                for place in told:
                    yield (
                        f"dead-letter handler {place}: {queue!r} is not in REDQ['QUEUES']; "
                        f"known: {names}"
                    )

    def _hidden(self) -> Iterator[str]:
        """Handlers that the consumer cannot look up, so that not they would be run."""
        for added in self._added.values():
            for place, registration in added.items():
                held = place.find()
                if not place.is_local and not _is_handler_of(held, registration.func):
                    yield (
                        f"handler {place}: under this name stands {held!r:.80} instead; "
                        "@handler must be the outermost decorator, and the name its own"
                    )


def _is_handler_of(held: object, func: Callable[..., Any]) -> bool:
    # A decorator outside copies the handler's attributes (functools.wraps), "func" too; but what
    # it wraps is the handler, and not the function.
    return getattr(held, "func", None) is func and getattr(held, "__wrapped__", func) is func


def _resolved(registration: Registration) -> Registration:
    payload = registration.payload
    if payload is None:
        try:
            payload = payload_type(registration.func)
        except Unresolvable as error:
            raise ConfigurationError(
                f"handler {registration.path}: its annotation cannot be resolved: {error}. "
                "Import the type at module level, neither under TYPE_CHECKING nor in a function, "
                f"or name it: @handler({registration.queue!r}, payload=…)"
            ) from None
    if why := find_undecodable(payload):
        raise ConfigurationError(f"handler {registration.path}: its payload type: {why}")
    return replace(registration, payload=payload)

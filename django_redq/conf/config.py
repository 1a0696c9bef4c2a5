"""The setting ``REDQ`` as frozen, typed objects, and the rules that lead there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, cast

from django.utils.module_loading import import_string

from django_redq.conf import rules
from django_redq.conf.connection import DEFAULT, ConnectionConfig, connection
from django_redq.conf.rules import Key
from django_redq.errors import ConfigurationError, UnknownQueue
from django_redq.retry import Exponential, Fixed, RetryPolicy
from django_redq.task import NAME_RULE, is_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """``REDQ["SCHEDULER"]``; durations in seconds."""

    batch_size: int
    """The most tasks that one script call promotes, a shard."""
    tick_interval: float
    """The longest that a task is late after a lost wake-up."""
    lease_ttl: float
    """How long a dead instance's shards stay without a scheduler."""
    shutdown_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """One of ``REDQ["QUEUES"]``; durations in seconds."""

    name: str
    shards: int
    group: str
    max_payload_bytes: int
    max_attempts: int
    retry: RetryPolicy
    concurrency: int
    read_count: int
    prefetch: int
    block_timeout: float
    pending_min_idle: float
    """After this long without a renewal, a task's owner counts as vanished."""
    recovery_interval: float
    recovery_count: int
    recovery_concurrency: int | None
    """None: recovered tasks share the slots of the others."""
    shutdown_timeout: float
    payload_cleanup: Literal["on_success", "never"]
    stream_retention: Literal["delete_on_ack", "keep"]
    missing_payload: Literal["move_to_dlq", "keep_pending"]
    dead_letter_max_age: float | None
    """None: no dead letter is too old."""
    dead_letter_max_count: int | None
    """None: never too many dead letters."""
    enqueue_mode: Literal["on_commit", "immediate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole setting."""

    namespace: str
    connection: ConnectionConfig
    handler_modules: tuple[str, ...]
    scheduler: SchedulerConfig
    queues: Mapping[str, QueueConfig]

    def queue(self, name: str) -> QueueConfig:
        """The settings of one queue.

        Raises:
            UnknownQueue: there is no such queue.
        """
        try:
            return self.queues[name]
        except (KeyError, TypeError):
            raise UnknownQueue(name, self.queues) from None


# --- retry policies --------------------------------------------------------------------------


def retry_policy(value: object) -> RetryPolicy:
    """A policy from a dict, a dotted path, or a callable.

    Raises:
        rules.RuleError: it is none of these, or one of a wrong kind.
    """
    if isinstance(value, Mapping):
        return _policy_of_dict(value)
    if isinstance(value, str):
        return _two_arguments(_imported(value))
    return _two_arguments(value)


def _imported(path: str) -> object:
    try:
        return import_string(path)
    except Exception as error:  # the module is a user's and may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise rules.problem(f"{rules.show(path)} cannot be imported ({reason})") from error


def _two_arguments(policy: object) -> RetryPolicy:
    """The callable, once it is sure that it can be asked (attempt, error)."""
    if isinstance(policy, type) or not callable(policy):
        raise rules.refused("a policy dict or a callable of (attempt, error)", policy)
    try:
        inspect.signature(policy).bind(1, Exception())
    except TypeError as error:
        raise rules.problem(f"{rules.show(policy)} must take (attempt, error): {error}") from None
    except ValueError:
        pass  # a builtin without a signature; its first call tells
    return cast("RetryPolicy", policy)


def _exponential(**given: Any) -> Exponential:
    initial, maximum = given["initial"], given["max"]
    if maximum < initial:
        reason = f"must not be less than INITIAL ({initial:g} s), got {maximum:g} s"
        raise rules.RuleError(("['MAX']", reason))
    return Exponential(initial, maximum, given["multiplier"], given["jitter"])


def _fixed(**given: Any) -> Fixed:
    return Fixed(given["interval"])


_POLICY = Key(rules.one_of("exponential", "fixed"), "exponential")
_FIXED = {"POLICY": _POLICY, "INTERVAL": Key(rules.duration(0))}
_EXPONENTIAL = {
    "POLICY": _POLICY,
    "INITIAL": Key(rules.duration(0), 1),
    "MAX": Key(rules.duration(0), 60),
    "MULTIPLIER": Key(rules.number(1, 1000), 2),
    "JITTER": Key(rules.number(0, 1), 0.1),
}
_POLICIES: dict[str, Callable[[object], RetryPolicy]] = {
    "fixed": rules.section(
        _FIXED, _fixed, dict.fromkeys(_EXPONENTIAL, "{'POLICY': 'exponential', ...}")
    ),
    "exponential": rules.section(
        _EXPONENTIAL, _exponential, dict.fromkeys(_FIXED, "{'POLICY': 'fixed', ...}")
    ),
}


def _policy_of_dict(value: Mapping[str, object]) -> RetryPolicy:
    # An unknown policy is told alone: which keys it would have is a guess.
    name = rules.at("['POLICY']", _POLICY.rule, value.get("POLICY", _POLICY.default))
    return _POLICIES[name](value)


# --- queues and the scheduler ----------------------------------------------------------------

_SCHEDULER = {
    "BATCH_SIZE": Key(rules.whole(1, 5_000), 100),
    "TICK_INTERVAL": Key(rules.duration(0.001, 3_600), 0.2),
    "LEASE_TTL": Key(rules.duration(0.05, 3_600), 10),
    "SHUTDOWN_TIMEOUT": Key(rules.duration(0), 5),
}
_QUEUE = {
    "SHARDS": Key(rules.whole(1, 1_024), 16),
    "GROUP": Key(rules.name, "default"),
    # A Redis string ends at 512 MiB.
    "MAX_PAYLOAD_BYTES": Key(rules.whole(1, 512 * 1024**2), 256 * 1024),
    "MAX_ATTEMPTS": Key(rules.whole(1), 3),
    "RETRY": Key(retry_policy, MappingProxyType({"POLICY": "exponential"})),
    "CONCURRENCY": Key(rules.whole(1, 10_000), 1),
    "READ_COUNT": Key(rules.whole(1, 10_000), 10),
    "PREFETCH": Key(rules.whole(0, 10_000), 0),
    "BLOCK_TIMEOUT": Key(rules.duration(0.001, 3_600), 5),
    "PENDING_MIN_IDLE": Key(rules.duration(0.01), 30),
    "RECOVERY_INTERVAL": Key(rules.duration(0.01), 10),
    "RECOVERY_COUNT": Key(rules.whole(1, 10_000), 100),
    "RECOVERY_CONCURRENCY": Key(rules.optional(rules.whole(1, 10_000)), None),
    "SHUTDOWN_TIMEOUT": Key(rules.duration(0), 20),
    "PAYLOAD_CLEANUP": Key(rules.one_of("on_success", "never"), "on_success"),
    "STREAM_RETENTION": Key(rules.one_of("delete_on_ack", "keep"), "delete_on_ack"),
    "MISSING_PAYLOAD": Key(rules.one_of("move_to_dlq", "keep_pending"), "move_to_dlq"),
    "DEAD_LETTER_MAX_AGE": Key(rules.optional(rules.duration(0.001)), None),
    "DEAD_LETTER_MAX_COUNT": Key(rules.optional(rules.whole(1)), None),
    "ENQUEUE_MODE": Key(rules.one_of("on_commit", "immediate"), "on_commit"),
}
_TOP_KEYS = ("CONNECTION", "NAMESPACE", "HANDLER_MODULES", "SCHEDULER", "QUEUES")
_IN_TOP = dict.fromkeys(_TOP_KEYS, "REDQ itself")
_IN_SCHEDULER = dict.fromkeys(_SCHEDULER, "REDQ['SCHEDULER']")
_IN_QUEUE = dict.fromkeys(_QUEUE, "a queue's own dict, REDQ['QUEUES'][<queue>]")
_IN_BOTH = {"SHUTDOWN_TIMEOUT": "REDQ['SCHEDULER'] or REDQ['QUEUES'][<queue>]"}


def _queues(given: object) -> Mapping[str, QueueConfig]:
    """The queues by name; none given means one, ``default``."""
    if not isinstance(given, Mapping):
        raise rules.problem(f"must be a dict of name: settings, got {rules.a(given)}")
    faults: list[tuple[str, str]] = []
    queues: dict[str, QueueConfig] = {}
    for name, settings in (given or {"default": {}}).items():
        if not is_name(name):
            faults.append(("", f"{rules.show(name)} is no name for a queue: {NAME_RULE}"))
        try:
            queues[name] = _queue(name)(settings)
        except rules.RuleError as error:
            faults += error.below(f"[{rules.show(name)}]")
    if faults:
        raise rules.RuleError(*faults)
    return MappingProxyType(queues)


def _queue(name: str) -> Callable[[object], QueueConfig]:
    return rules.section(_QUEUE, partial(QueueConfig, name=name), _IN_SCHEDULER | _IN_TOP)


parse = rules.section(
    {
        "CONNECTION": Key(connection, DEFAULT),
        "NAMESPACE": Key(rules.name, "redq"),
        "HANDLER_MODULES": Key(rules.module_names, ("handlers",)),
        "SCHEDULER": Key(
            rules.section(_SCHEDULER, SchedulerConfig, _IN_QUEUE | _IN_TOP), MappingProxyType({})
        ),
        "QUEUES": Key(_queues, MappingProxyType({})),
    },
    Config,
    _IN_SCHEDULER | _IN_QUEUE | _IN_BOTH,
)
"""The rule for ``REDQ`` as a whole."""


# --- overrides -------------------------------------------------------------------------------


def override_queue(queue: QueueConfig, **changes: Any) -> QueueConfig:
    """A copy with some settings changed, by a command's flags or a class's keyword arguments.

    Args:
        queue: the settings of the queue.
        changes: fields of :class:`QueueConfig` but ``name``, as ``REDQ`` would have them; None
            means not given.

    Raises:
        ConfigurationError: naming each field that is unknown or breaks its rule.
    """
    return replace(queue, **_checked(_QUEUE, changes))


def override_scheduler(scheduler: SchedulerConfig, **changes: Any) -> SchedulerConfig:
    """The same for the scheduler's settings."""
    return replace(scheduler, **_checked(_SCHEDULER, changes))


def _checked(keys: Mapping[str, Key], changes: Mapping[str, object]) -> dict[str, Any]:
    try:
        return rules.changes(keys, changes)
    except rules.RuleError as error:
        raise ConfigurationError(*error.sentences("")) from None

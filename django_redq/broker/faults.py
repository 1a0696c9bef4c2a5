"""What can go wrong between us and Redis, sorted by what to do about it."""

from __future__ import annotations

import re
from typing import Self

import redis

from django_redq.lines import one_line

REDIS_ERRORS: tuple[type[Exception], ...] = (
    redis.RedisError,
    redis.exceptions.RedisClusterException,
    OSError,
)
"""Everything that a round trip may raise."""

_NAMED: dict[str, type[redis.RedisError]] = {
    "LOADING": redis.exceptions.BusyLoadingError,
    "READONLY": redis.exceptions.ReadOnlyError,
    "OOM": redis.exceptions.OutOfMemoryError,
    "MASTERDOWN": redis.exceptions.MasterDownError,
    "TRYAGAIN": redis.exceptions.TryAgainError,
    "CLUSTERDOWN": redis.exceptions.ClusterDownError,
}
_PASSING = (
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "UNBLOCKED",
    "BUSY",
    "OOM",
    "NOREPLICAS",
    "MISCONF",
    "TRYAGAIN",
    "CLUSTERDOWN",
)
"""Answers that name a state of the server, not a fault of the call (redis-py 8 has classes for
some of them only, and each is a ResponseError, no ConnectionError)."""


_OF_THE_NODE = ("LOADING", "READONLY", "MASTERDOWN", "UNBLOCKED", "BUSY", "CLUSTERDOWN")
"""Of these, what a server says to every call alike, whatever it is about."""
_SLOT_IS_DOWN = "Hash slot not served"
"""The CLUSTERDOWN of a single slot that has no owner."""


class Away(redis.ConnectionError):
    """A node of the Cluster is away, or on its way to be the owner, while others answer.

    It was not asked, or it did not answer; who works on many shards goes on with the others.
    """

    @classmethod
    def of(cls, node: str, reason: Exception) -> Self:
        """That the node is away for this reason."""
        return cls(f"the node {node} is away: {in_words(reason)}")


_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError)


def is_of_the_node(error: Exception) -> bool:
    """Whether what a node of a Cluster said, or did not say, is about all that it would be asked."""
    if isinstance(error, _NO_ANSWER):
        return True
    if not isinstance(error, redis.ResponseError) or _SLOT_IS_DOWN in str(error):
        return False
    return _says(error, *_OF_THE_NODE)


_REFUSED = re.compile("NOPERM|ACL failure in script|The user executing the script can't")
"""How the servers tell of a right that is missing: to a client; inside a script, Valkey and Redis."""


def is_outage(error: BaseException) -> bool:
    """Whether the server is away or in a state that passes, so that the same call may work later."""
    if isinstance(error, _NO_ANSWER):
        return True
    if isinstance(error, redis.exceptions.RedisClusterException):
        # No RedisError, though it says that no node can be reached, or none has the slot.
        return isinstance(error, redis.exceptions.SlotNotCoveredError) or (
            "cannot be connected" in str(error)
        )
    return isinstance(error, redis.ResponseError) and _says(error, *_PASSING)


def wants_new_connection(reply: object) -> bool:
    """Whether a reply says that the connection leads to a server that was demoted meanwhile."""
    return isinstance(reply, redis.ResponseError) and _says(reply, "READONLY", "UNBLOCKED")


def is_cross_slot(error: BaseException) -> bool:
    """Whether the server is cluster-enabled and refuses keys of several slots in one script."""
    return isinstance(error, redis.ResponseError) and (
        "CROSSSLOT" in str(error) or "same slot" in str(error)
    )


def lacks_permission(error: BaseException) -> bool:
    """Whether the user of the connection may not do this."""
    return isinstance(error, redis.exceptions.NoPermissionError) or (
        isinstance(error, redis.ResponseError) and _REFUSED.search(str(error)) is not None
    )


def in_words(error: BaseException) -> str:
    """The error as one short line for a log."""
    return one_line(" ".join(f"{type(error).__name__}: {error}".split()), 299)


def _says(error: redis.ResponseError, *words: str) -> bool:
    # redis-py strips the prefix of the errors it has a class for; the class's name keeps it.
    message = str(error)
    if any(isinstance(error, _NAMED[word]) for word in words if word in _NAMED):
        return True
    # An error inside a script bears the script's name before or after the server's word, which
    # follows a dash on Redis 6.2.
    return re.search(rf"(^|[ -])({'|'.join(words)}) ", message[:200]) is not None

"""Whether the server is one on which tasks are safe: its version, eviction, and our user's rights.

What the server does not tell this user is passed over: many hosted ones forbid INFO or CONFIG.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import redis

from django_redq.broker import faults
from django_redq.broker.keys import due_channel, wake_channel
from django_redq.broker.sync import Broker

OLDEST_REDIS = (6, 2)
OLDEST_VALKEY = (7, 2)


def find_problems(broker: Broker, queues: Iterable[str], *, subscribe: bool = True) -> list[str]:
    """What is wrong with the server, a sentence each; empty where nothing is.

    Args:
        broker: the connection.
        queues: whose channels are tried.
        subscribe: whether to try SUBSCRIBE too; who listens all the time finds that out itself.

    Raises:
        redis.RedisError: the server is not there.
    """
    namespace = broker.config.namespace
    channels = [
        of(namespace, queue) for queue in sorted(queues) for of in (wake_channel, due_channel)
    ]
    problems = [*_old(_info(broker, "server")), *_evicting(_info(broker, "memory"))]
    if not _may_publish(broker.client, channels):
        problems.append(_forbidden("publish to", namespace))
    if subscribe and not _may_subscribe(broker.client, channels):
        problems.append(_forbidden("subscribe to", namespace))
    return problems


def _info(broker: Broker, section: str) -> Mapping[str, Any]:
    try:
        info: Mapping[str, Any] = broker.client.info(section)
    except redis.ResponseError as error:
        if faults.is_outage(error):
            raise
        return {}
    return info


def _old(server: Mapping[str, Any]) -> list[str]:
    valkey = server.get("valkey_version")
    name, version = ("Valkey", valkey) if valkey else ("Redis", server.get("redis_version"))
    oldest = OLDEST_VALKEY if valkey else OLDEST_REDIS
    found = _numbers(version)
    if not found or found >= oldest:
        return []
    return [f"the server is {name} {version}; it has to be Redis 6.2 or Valkey 7.2, or later"]


def _numbers(version: object) -> tuple[int, ...]:
    parts = str(version or "").split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


def _evicting(memory: Mapping[str, Any]) -> list[str]:
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return []
    advice = "when its memory is full it deletes tasks; set maxmemory-policy to noeviction"
    return [f"the server's maxmemory-policy is {policy}: {advice}"]


def _may_publish(client: redis.Redis, channels: Iterable[str]) -> bool:
    try:
        for channel in channels:
            # Who hears it looks once for something to do.
            client.publish(channel, "")
    except redis.ResponseError as error:
        return _passed(error)
    return True


def _may_subscribe(client: redis.Redis, channels: Iterable[str]) -> bool:
    try:
        with client.pubsub() as pubsub:  # type: ignore[no-untyped-call] # redis-py leaves it so
            for channel in channels:
                pubsub.subscribe(channel)
                pubsub.get_message(timeout=5)
    except redis.ResponseError as error:
        return _passed(error)
    return True


def _passed(error: redis.ResponseError) -> bool:
    """Whether the refusal says nothing about rights."""
    if faults.is_outage(error):
        raise error
    return not faults.lacks_permission(error)


def _forbidden(verb: str, namespace: str) -> str:
    return (
        f"this user may not {verb} the channels {namespace}:wake:*, so consumers and schedulers "
        f"poll instead of waking at once; on the server: ACL SETUSER <user> &{namespace}:wake:*"
    )

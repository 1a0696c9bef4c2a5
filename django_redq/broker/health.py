"""Whether the server is one on which tasks are safe: its version, eviction, and our user's rights.

What the server does not tell this user is no fault, for many hosted ones forbid INFO; it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis

from django_redq.broker import faults, rights
from django_redq.broker.connection import pubsub_of
from django_redq.broker.keys import due_channel, wake_channel
from django_redq.broker.sync import Broker

OLDEST_REDIS = (6, 2)
OLDEST_VALKEY = (7, 2)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at the server brought; a sentence each."""

    problems: tuple[str, ...]
    """What is wrong with it."""
    missing: tuple[str, ...]
    """Rights that the user lacks; without them all works, but more slowly."""
    unseen: tuple[str, ...]
    """What could not be looked at, and why."""


def look(broker: Broker, queues: Iterable[str]) -> Findings:
    """Looks at the server that the queues are on.

    Raises:
        redis.RedisError: the server is not there.
    """
    problems: list[str] = []
    unseen: list[str] = []
    try:
        for node, info in _infos(broker.client, "server"):
            problems += [f"{problem}{node}" for problem in _old(info)]
        for node, info in _infos(broker.client, "memory"):
            problems += [f"{problem}{node}" for problem in _evicting(info)]
    except redis.ResponseError as error:
        if faults.is_outage(error):
            raise
        unseen.append(
            "not looked at: the server's version, which has to be Redis 6.2 or Valkey 7.2, or later, "
            f"and its maxmemory-policy, which has to be noeviction ({faults.in_words(error)})"
        )
    return Findings(tuple(problems), tuple(_missing(broker, queues)), tuple(unseen))


def _infos(client: object, section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What the server says of itself; of a Cluster each master, with its name."""
    if isinstance(client, redis.RedisCluster):
        for node in client.get_primaries():  # type: ignore[no-untyped-call] # redis-py
            yield f" (node {node.name})", client.info(section, target_nodes=node)
    elif isinstance(client, redis.Redis):
        yield "", client.info(section)


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


def _missing(broker: Broker, queues: Iterable[str]) -> Iterator[str]:
    """The rights that the user lacks; what lacks both for one reason is told once."""
    namespace = broker.config.namespace
    channels = [
        of(namespace, queue) for queue in sorted(queues) for of in (wake_channel, due_channel)
    ]
    ways: dict[str, Callable[[redis.Redis, list[str]], None]] = {
        "publish": _publish,
        "subscribe": _subscribe,
    }
    found: dict[str, None] = {}
    for verb, use in ways.items():
        try:
            use(broker.client, channels)
        except redis.ResponseError as error:
            if faults.is_outage(error):
                raise
            if faults.lacks_permission(error):
                found[rights.missing(error, verb, namespace)] = None
    yield from found


def _publish(client: redis.Redis, channels: list[str]) -> None:
    for channel in channels:
        # Who hears it looks once for something to do.
        client.publish(channel, "")


def _subscribe(client: redis.Redis, channels: list[str]) -> None:
    with pubsub_of(client) as pubsub:
        for channel in channels:
            pubsub.subscribe(channel)
            pubsub.get_message(timeout=5)

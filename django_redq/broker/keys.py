"""Every key and channel name, and the shard of a task."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

SUSPECTS_CONSUMER = "_suspects"
"""Holds what may only run alone. No consumer can bear this name: names begin with a letter or digit."""


def shard_of(task_id: str, shards: int) -> int:
    """CRC-32 of the task ID modulo the shard count: the same in every process, unlike ``hash()``."""
    return zlib.crc32(task_id.encode()) % shards


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of one shard, all in one Cluster slot by their hash tag."""

    delay: str
    payload: str
    state: str
    entry: str
    stream: str
    dlq: str
    lease: str
    meta: str
    done: str
    kept: str
    meter: str
    """What happened lately, in rings of fixed size."""
    groups: str
    """Dead letters counted by kind and exception type."""
    bulk: str
    """What an operator has begun on many dead letters."""
    consumers: str
    """Signs of life of the queue's consumers; of shard 0 only."""


@lru_cache(maxsize=8192)
def shard_keys(namespace: str, queue: str, shard: int) -> ShardKeys:
    """The keys of shard ``shard`` of ``queue``."""
    prefix = f"{namespace}:{{{queue}:{shard}}}:"
    return ShardKeys(*(prefix + name for name in ShardKeys.__slots__))


def wake_channel(namespace: str, queue: str) -> str:
    """Where it is told that something became READY; a message is the shard's number."""
    return f"{namespace}:wake:{queue}"


def due_channel(namespace: str, queue: str) -> str:
    """Where it is told that something is due sooner than the rest; ``<shard> <due ms>``.

    A channel of its own, so that a stream of ready tasks does not wake the schedulers.
    """
    return f"{namespace}:wake:{queue}:due"

"""Signs of life: what consumers tell of themselves, for those who look after a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from django_redq.broker.calls import Call, Shard, text

FORGET_MS = 3_600_000
"""Without a sign for so long a consumer is forgotten."""
MAX_ABOUT = 8 * 1024
"""Bytes of what one tells; running tasks with long IDs are left out beyond it."""
MAX_TOLD = MAX_ABOUT + len("1234567890123456 ")
"""The same with the moment before it."""
MAX_NAME = 128
"""Bytes of a consumer's name; a longer one is nobody's."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer tells of itself."""

    host: str = ""
    pid: int | None = None
    version: str = ""
    """Of django-redq."""
    started: int | None = None
    """ms since the epoch, by its own clock."""
    concurrency: int | None = None
    running: tuple[tuple[str, str, int], ...] = ()
    """Task ID, kind and ms since the epoch at which it was taken, of some that it holds."""


_about = msgspec.json.Decoder(About)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Beat:
    """The last sign of life of a consumer."""

    seen: float
    """Seconds ago, by the clock of Redis."""
    about: About


def beat(shard: Shard, name: str, about: About, now: str) -> Call[int]:
    """Notes it; ``shard`` is the queue's first."""
    return Call(
        "consumer_beat",
        (shard.keys.consumers,),
        (now, name, _told(about), FORGET_MS),
        int,
    )


def _told(about: About) -> bytes:
    told = _encode(about)
    while len(told) > MAX_ABOUT and about.running:
        about = msgspec.structs.replace(about, running=about.running[:-1])
        told = _encode(about)
    return told


def leave(shard: Shard, name: str) -> Call[bool]:
    """Forgets it; ``shard`` is the queue's first."""
    return Call("consumer_leave", (shard.keys.consumers,), (name,), lambda reply: reply == 1)


def seen(shard: Shard, now: str) -> Call[Mapping[str, Beat]]:
    """Reads as the last sign of each; ``shard`` is the queue's first."""
    return Call("consumers_seen", (shard.keys.consumers,), (now, MAX_NAME, MAX_TOLD), _beats)


def _beats(reply: Any) -> Mapping[str, Beat]:
    now, flat = int(reply[0]), reply[1]
    return {
        text(name): _beat(now, value)
        for name, value in zip(flat[::2], flat[1::2], strict=True)
        if text(name)
    }


def _beat(now: int, raw: bytes) -> Beat:
    moment, _, told = raw.partition(b" ")
    at = int(moment) if moment.isdigit() and len(moment) <= 15 else 0
    try:
        about = _about.decode(told)
    except (ValueError, RecursionError):
        about = About()
    return Beat(max(now - at, 0) / 1000, about)

"""Which shards this instance holds, and when each wants attention; plain arithmetic, no Redis."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from django_redq.broker.calls import Heads, Promotion, Shard

BAD_SHARD_PAUSE = 1.0
"""Seconds before a shard that answered with an error is tried again."""
ROUNDING = 0.0005
"""Seconds added to a wait: Redis' clock is read in whole ms."""


class Leases:
    """Due times are told by Redis' clock and kept as moments of this process' monotonic one, so that
    the wall clock of this machine does not matter.

    Args:
        shards: all shards that are served.
        instance: the owner's name in the leases.
        ttl: seconds that a lease lasts.
    """

    def __init__(self, shards: Sequence[Shard], instance: str, ttl: float) -> None:
        self.instance = instance
        self.held: frozenset[Shard] = frozenset()
        """Another one each time it changes, for other threads go through it."""
        self._ttl = ttl
        self._by_channel: dict[str, dict[int, Shard]] = {}
        for shard in shards:
            self._by_channel.setdefault(shard.due, {})[shard.number] = shard
        self._upkeep: dict[Shard, float] = dict.fromkeys(shards, 0.0)
        self._due: dict[Shard, float] = {}
        self._offset = 0.0
        self._hints: deque[tuple[str, str]] = deque()

    def hint(self, channel: str, message: str) -> None:
        """Notes what was heard; safe from any thread."""
        self._hints.append((channel, message))

    def take_hints(self) -> None:
        """Acts on what was heard since the last time."""
        while self._hints:
            channel, message = self._hints.popleft()
            number, _, due = message.partition(" ")
            if not channel:
                # The channel is new: anything may have happened before.
                self._upkeep = dict.fromkeys(self._upkeep, 0.0)
                continue
            shard = self._by_channel.get(channel, {}).get(_whole(number))
            if shard is None:
                continue
            if due:
                self._note_sooner(shard, due)
            else:
                self._upkeep[shard] = 0.0

    def _note_sooner(self, shard: Shard, due: str) -> None:
        try:
            moment = float(due) / 1000 - self._offset
        except ValueError:
            return
        self._due[shard] = min(moment, self._due.get(shard, moment))

    def to_promote(self) -> list[Shard]:
        """Shards with something due, or whose lease wants to be taken or renewed."""
        now = time.monotonic()
        return [
            shard
            for shard, upkeep in self._upkeep.items()
            if upkeep <= now or (shard in self.held and self._due.get(shard, now + 1) <= now)
        ]

    def wait(self) -> float:
        """Seconds until some shard wants attention."""
        upkeep = min(self._upkeep.values())
        due = min((self._due[shard] for shard in self.held if shard in self._due), default=upkeep)
        return max(min(upkeep, due) - time.monotonic(), 0.0)

    def note(self, shard: Shard, promotion: Promotion) -> None:
        """Takes in what a promote answered."""
        now = time.monotonic()
        self._offset = promotion.now / 1000 - now
        self._upkeep[shard] = now + self._ttl / 3
        if promotion.held:
            self.held |= {shard}
            self._note_due(shard, promotion.next_due)
            return
        self.held -= {shard}
        self._due.pop(shard, None)
        if promotion.lapses_in is not None:
            lapse = now + promotion.lapses_in / 1000 + 0.01
            self._upkeep[shard] = min(lapse, self._upkeep[shard])

    def note_heads(self, shards: Sequence[Shard], heads: Heads) -> None:
        """Takes in when each shard's first task is due."""
        self._offset = heads.now / 1000 - time.monotonic()
        for shard, due in zip(shards, heads.due, strict=True):
            self._note_due(shard, due)

    def _note_due(self, shard: Shard, due: float | None) -> None:
        if due is None or due == float("inf"):
            self._due.pop(shard, None)
        else:
            self._due[shard] = due / 1000 - self._offset + ROUNDING

    def failed(self, shard: Shard) -> None:
        """The shard answered with an error."""
        self.held -= {shard}
        self._due.pop(shard, None)
        self._upkeep[shard] = time.monotonic() + BAD_SHARD_PAUSE

    def forget(self) -> None:
        """All leases were given up."""
        self.held = frozenset()
        self._due.clear()


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1

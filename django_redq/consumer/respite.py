"""Which shards are left alone by recovery for now, because live owners may be late with their renewals."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from django_redq.broker.calls import Shard


class Respites:
    """After a shard was away its owners get one PENDING_MIN_IDLE to renew. Safe from any thread.

    Args:
        lengths: of each shard, in seconds.
    """

    def __init__(self, lengths: Mapping[Shard, float]) -> None:
        self._lengths = lengths
        self._in_doubt: set[Shard] = set()
        self._until: dict[Shard, float] = {}

    def doubt(self, shards: Iterable[Shard]) -> None:
        """These did not answer; each one's respite begins at its next answer."""
        self._in_doubt.update(shards)

    def give(self, shards: Iterable[Shard], longest: float = float("inf")) -> None:
        """Begins the respites of these now; none of them ends sooner than it would have.

        Args:
            shards: which.
            longest: seconds; where it is less than a PENDING_MIN_IDLE, that long only.
        """
        now = time.monotonic()
        for shard in shards:
            until = now + min(self._lengths[shard], longest)
            self._until[shard] = max(until, self._until.get(shard, until))

    def answered(self, shard: Shard) -> bool:
        """Notes that it answered; True where that was in doubt, so that its respite begins."""
        if shard not in self._in_doubt:
            return False
        self._in_doubt.discard(shard)
        self.give([shard])
        return True

    def wants_asking(self, shard: Shard) -> bool:
        """Whether to ask it: it has no respite, or was not heard of since it was away."""
        return shard in self._in_doubt or not self._is_held(shard)

    def covers(self, shard: Shard) -> bool:
        """Whether nothing may be taken over in it now."""
        return shard in self._in_doubt or self._is_held(shard)

    def next_end(self) -> float:
        """The next moment (monotonic) at which one ends; infinity where none runs."""
        now = time.monotonic()
        return min((one for one in self._until.copy().values() if one > now), default=float("inf"))

    def _is_held(self, shard: Shard) -> bool:
        return self._until.get(shard, 0.0) > time.monotonic()

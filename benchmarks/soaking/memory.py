"""The memory of Redis and of each process, and whether it grows."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import redis

MIB = 2**20
SHARE, MORE = 1.10, 4 * MIB
"""What grows in the last third beyond the second by more than both of these grows."""
LEFT = 8 * MIB
"""Bytes that a drained Redis may use beyond what it used before: logs of commands, buffers, metadata."""
LONG_ENOUGH = 180.0
"""Seconds of load from which on the thirds say something: before, a Python process still warms up."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All at one moment."""

    at: float
    """Seconds of load so far."""
    used: Mapping[str, int]
    """Bytes: of a process its RSS, of ``redis`` what it says that it uses."""


class Memory:
    """Takes samples."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._began = time.monotonic()
        self.samples: list[Sample] = []
        self.before = self.of_redis()
        self.after = 0

    def of_redis(self) -> int:
        """What it uses for data now."""
        return int(self._client.info("memory")["used_memory"])

    def start(self) -> None:
        """The load begins."""
        self._began = time.monotonic()

    def take(self, pids: Mapping[str, int]) -> None:
        """One sample; a Redis that is away is in the next."""
        try:
            used = {"redis": self.of_redis(), **rss(pids)}
        except redis.RedisError:
            return
        self.samples.append(Sample(time.monotonic() - self._began, used))

    def table(self) -> dict[str, list[int]]:
        """At the start, once warm, in the middle, and at the end; 0 where it was just dead."""
        if not self.samples:
            return {}
        last = self.samples[-1].at
        shown = [self._nearest(last * share) for share in (0.1, 0.5, 1.0)]
        names = sorted({name for one in shown for name in one.used})
        return {name: [one.used.get(name, 0) for one in shown] for name in names}

    def _nearest(self, at: float) -> Sample:
        return min(self.samples, key=lambda sample: abs(sample.at - at))

    def is_judged(self) -> bool:
        """Whether the load was long enough for the rule of the thirds."""
        return bool(self.samples) and self.samples[-1].at >= LONG_ENOUGH

    def growing(self) -> list[str]:
        """A sentence for each that grows."""
        found = []
        if self.after > self.before + LEFT:
            found.append(
                f"Redis uses {self.after / MIB:.1f} MiB once it is drained, "
                f"{self.before / MIB:.1f} MiB before"
            )
        for name in self._judged() if self.is_judged() else ():
            second, last = (self._of_third(name, third) for third in (1, 2))
            if last > max(second * SHARE, second + MORE):
                found.append(
                    f"{name} grows: {second / MIB:.1f} MiB in the second third of the time, "
                    f"{last / MIB:.1f} MiB in the last"
                )
        return found

    def _judged(self) -> list[str]:
        """Those that lived all the time."""
        return [name for name in self.samples[-1].used if name.endswith("-0")]

    def _of_third(self, name: str, third: int) -> float:
        length = self.samples[-1].at / 3
        begin, end = third * length, (third + 1) * length
        return median(
            one.used[name] for one in self.samples if begin <= one.at <= end and name in one.used
        )


def rss(pids: Mapping[str, int]) -> dict[str, int]:
    """Bytes that each process has in memory; of those that are there."""
    names = {pid: name for name, pid in pids.items()}
    asked = ["ps", "-o", "pid=,rss=", "-p", ",".join(map(str, names))]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in answer.splitlines())
    return {names[int(pid)]: int(kib) * 1024 for pid, kib in pairs}

"""A bystander: pings Redis every 2 ms, and prints what that took once its input is closed, as JSON.

python pinging.py redis://127.0.0.1:6379/0
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import redis

EVERY = 0.002
"""Seconds."""


class Pinger:
    """A process of its own that pings, until its answer is asked for."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, __file__, url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, **pipes)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def end(self) -> dict[str, float]:
        """``pings``, and ms: ``p50``, ``p99``, ``p999``, ``max``."""
        printed, _ = self._process.communicate(timeout=30)
        return dict(json.loads(printed))

    def close(self) -> None:
        """Ends it without an answer, unless it was given."""
        with self._process:
            self._process.kill()


def main() -> None:
    client = redis.Redis.from_url(sys.argv[1])
    client.ping()
    print("ready", flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    took = []
    while not ended.wait(EVERY):
        begun = time.perf_counter()
        client.ping()
        took.append((time.perf_counter() - begun) * 1000)
    took.sort()
    shown = {"pings": len(took), "p50": took[len(took) // 2], "max": took[-1]}
    shown |= {"p99": took[int(len(took) * 0.99)], "p999": took[int(len(took) * 0.999)]}
    print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()

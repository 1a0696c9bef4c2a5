"""A bystander: pings Redis every 2 ms, and prints what that took once its input is closed, as JSON.

python pinging.py redis://127.0.0.1:6379/0
"""

from __future__ import annotations

import json
import sys
import threading
import time

import redis

EVERY = 0.002
"""Seconds."""


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

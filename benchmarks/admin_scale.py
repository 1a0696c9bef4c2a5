#!/usr/bin/env python
"""The admin at scale: how long each page takes over a queue of 16 shards with 1,000,000 dead letters
and 1,000,000 scheduled tasks, what it transfers from Redis, and what a bulk replay of 100,000 does
to everybody else who talks to that Redis.

    python benchmarks/admin_scale.py                    about five minutes, and 8 GB of memory
    python benchmarks/admin_scale.py --check            exit code 1 where a target is missed
    python benchmarks/admin_scale.py --letters 20000 --tasks 20000
    python benchmarks/admin_scale.py --url redis://127.0.0.1:6379/0    a server that stays; not seeded twice

Pages are asked for by Django's test client in this process, so that no web server counts in. A real
scheduler runs all the while.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

from django_redq.devserver import DevServer

HERE = Path(__file__).parent
PAGE_TARGET = 300.0
"""Milliseconds that a page may take."""
PING_TARGET = 20.0
"""Milliseconds that 99 of 100 pings may take while a replay runs."""


def main() -> int:
    options = _options()
    with _server(options.url) as url:
        os.environ |= {"SCALE_URL": url, "DJANGO_SETTINGS_MODULE": "scale_settings"}
        django.setup()
        return _measure(options, url)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--letters", default=1_000_000, **number, help="dead letters to seed")
    parser.add_argument("--tasks", default=1_000_000, **number, help="scheduled tasks to seed")
    parser.add_argument("--times", default=20, **number, help="how often each page is asked for")
    parser.add_argument("--url", metavar="URL", help="instead of an embedded Valkey")
    parser.add_argument("--no-replay", action="store_true", help="the pages alone")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 above the targets")
    return parser.parse_args()


@contextlib.contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with DevServer() as server:
        yield server.url


def _measure(options: argparse.Namespace, url: str) -> int:
    from scale_pages import measure_pages  # noqa: PLC0415 - needs Django, which is set up by now
    from scale_replay import measure_replay  # noqa: PLC0415
    from scale_world import World  # noqa: PLC0415

    world = World(url)
    seeded = world.seed(options.letters, options.tasks)
    _say(f"seeded in {seeded:.0f} s: {world.describe()}")
    report: dict[str, Any] = {"machine": _machine(), "world": world.describe()}
    with _scheduler():
        world.wait_for_scheduler()
        report["pages"] = measure_pages(world, options.times)
        if not options.no_replay:
            report["replay"] = measure_replay(world)
    missed = _missed(report)
    report["missed"] = missed
    print(json.dumps(report, indent=2) if options.json else _table(report))
    return 1 if missed and options.check else 0


@contextlib.contextmanager
def _scheduler() -> Iterator[None]:
    command = [sys.executable, "-m", "django", "redq_scheduler", "-v", "0"]
    paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as process:
        try:
            yield
        finally:
            process.terminate()


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        # Above the number of cores others were at work, and the figures are theirs, too.
        "load": round(os.getloadavg()[0], 1),
        "python": sys.version.split()[0],
        "django": django.__version__,
    }


def _missed(report: dict[str, Any]) -> list[str]:
    missed = [
        f"{page['page']}: {page['median']:.0f} ms"
        for page in report["pages"]
        if page["median"] > PAGE_TARGET
    ]
    if "replay" in report and report["replay"]["ping"]["p99"] > PING_TARGET:
        missed.append(f"PING p99 in a replay: {report['replay']['ping']['p99']:.1f} ms")
    return missed


def _table(report: dict[str, Any]) -> str:
    lines = [
        f"{report['world']}; load {report['machine']['load']}",
        "",
        f"{'page':<40}{'median ms':>10}{'max ms':>8}{'Redis ms':>10}{'longest':>9}{'KiB read':>10}{'KiB HTML':>10}",
    ]
    lines += [
        f"{one['page']:<40}{one['median']:>10.0f}{one['max']:>8.0f}{one['redis_ms']:>10.1f}"
        f"{one['longest_ms']:>9.1f}{one['read'] / 1024:>10.1f}{one['html'] / 1024:>10.1f}"
        for one in report["pages"]
    ]
    if replay := report.get("replay"):
        lines += ["", f"replay of {replay['changed']:,}: {replay['seconds']:.1f} s"]
        lines += [
            f"PING {name}: p50 {ping['p50']:.2f}, p99 {ping['p99']:.1f}, max {ping['max']:.1f} ms"
            f" ({ping['pings']:,} pings)"
            for name, ping in (("before", replay["calm"]), ("meanwhile", replay["ping"]))
        ]
    lines += ["", *(f"MISSED {one}" for one in report["missed"])]
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

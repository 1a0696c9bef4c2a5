#!/usr/bin/env python
"""Constant mixed load on a Valkey of its own, and blows at random: every task is accounted for.

    python benchmarks/soak.py 20                    twenty minutes
    python benchmarks/soak.py 10 --restart-redis    the server is killed and started again, too
    python benchmarks/soak.py 20 --seed 4711        the same blows at the same times as last time
    python benchmarks/soak.py 1 --json FILE         the figures as JSON, too

Two producers enqueue tasks that run at once, later, on a thread or an event loop, that fail and are
retried, die and are replayed, die and are discarded, are cancelled, come in lots, or run for
longer than PENDING_MIN_IDLE. Two schedulers and three consumers work on two queues of ten shards.
Meanwhile processes are killed by SIGKILL, or frozen by SIGSTOP and thawed. Then the load stops, the
queues drain, and a ledger kept outside of Redis is added up.

The exit code is 1 where a task was lost, one that was cancelled ran, a dead letter was doubled, a task
was done twice without a blow that explains it, a process ended or did not stop in good order, or
memory grew: a drained Redis may use 8 MiB more than before the load, and a process that was never
killed 10 % and 4 MiB more in the last third of the time than in the second. Ctrl-C ends the
load early; a second one ends all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from django_redq.devserver import DevServer


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    home = Path(tempfile.mkdtemp(prefix="soak-"))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # all take the way out of Ctrl-C
    with DevServer(append_only=True) as server:
        environ = {
            "DJANGO_SETTINGS_MODULE": "soaking.settings",
            "SOAK_URL": server.url,
            "SOAK_LEDGER": str(home / "ledger"),
            "SOAK_SEED": str(seed),
            "SOAK_RATE": str(options.rate / 2),
        }
        os.environ |= {**environ, "SOAK_WHO": "soak"}
        from soaking.stage import Stage  # noqa: PLC0415 - needs the settings
        from soaking.world import Died  # noqa: PLC0415

        try:
            with Stage(home, server, environ, seed) as stage:
                report = stage.play(
                    options.minutes * 60, options.peace, restarts=options.restart_redis
                )
        except (Died, KeyboardInterrupt) as error:
            print(f"ended without an account; the logs are in {home}\n{error}", file=sys.stderr)
            return 1 if isinstance(error, Died) else 130
    print(report.text())
    if options.json:
        options.json.write_text(json.dumps(report.figures(), indent=2))
    faults = report.faults()
    for fault in faults:
        print(f"FAULT: {fault}")
    if faults:
        print(f"The ledger and the logs of all processes are in {home}")
        return 1
    shutil.rmtree(home)
    print("nothing lost, nothing run that was cancelled, memory is flat")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = {"type": float, "metavar": "N"}
    parser.add_argument("minutes", type=float, metavar="MINUTES", help="of load; 0.3 will do")
    parser.add_argument("--seed", type=int, metavar="N", help="of the blows and the mixture")
    parser.add_argument("--rate", default=100.0, **number, help="tasks a second (100)")
    parser.add_argument("--peace", default=8.0, **number, help="seconds between blows (8)")
    parser.add_argument("--restart-redis", action="store_true", help="kill the server, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python
"""The shop under fire: orders come in steadily, and every 20 seconds a consumer or a scheduler is
killed by kill -9 and replaced, by turns. In the end everything that was accepted must have arrived.

    python endure.py                 ten minutes
    python endure.py --minutes 2     exit code 1 where a promise of django-redq was broken
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import count

from proof import runner
from proof.children import Child
from proof.report import Tally
from proof.stage import Stage

PEACE = 20.0
"""Seconds between two kills."""
PAUSE = 0.2
"""Seconds between two crowds of customers."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, metavar="M", help="how long")
    options = parser.parse_args()
    return runner.run("endure", lambda stage: play(stage, options.minutes * 60))


def play(stage: Stage, duration: float) -> None:
    from shop.factories import OrderData  # needs Django, which the stage has set up by now

    end, tally = time.monotonic() + duration, Tally()
    scheduler = stage.start_scheduler()
    consumers = [stage.start_consumer(), stage.start_consumer()]
    stage.partners["down"].mend()  # who is down for ten minutes is the demo's business
    posting = stage.let_order((OrderData() for _ in count()), pause=PAUSE)

    for turn in count():
        attack_at = time.monotonic() + PEACE
        if attack_at > end:
            break
        stage.wait(lambda: posting.done() or time.monotonic() >= attack_at, "the next kill")  # noqa: B023
        if turn % 2:
            scheduler = replace_scheduler(stage, scheduler, tally)
        else:
            replace_consumer(stage, consumers, tally)

    stage.customers.leave.set()
    stage.wait_for_orders(posting)
    runner.drain(stage)
    runner.replay_until_none_is_dead(stage, tally)
    runner.finish(stage, tally)


def replace_scheduler(stage: Stage, scheduler: Child, tally: Tally) -> Child:
    stage.display.say(f"kill -9 of {scheduler.name}")
    stage.children.kill(scheduler)
    tally.schedulers_killed += 1
    return stage.start_scheduler()


def replace_consumer(stage: Stage, consumers: list[Child], tally: Tally) -> None:
    """The one that has lived longest goes."""
    victim = consumers.pop(0)
    stage.display.say(f"kill -9 of {victim.name}")
    stage.children.kill(victim)
    tally.consumers_killed += 1
    consumers.append(stage.start_consumer())


if __name__ == "__main__":
    sys.exit(main())

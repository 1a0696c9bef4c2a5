#!/usr/bin/env python
"""The shop at work, with everything real: orders by HTTP, mails by SMTP, webhooks by HTTP, an
embedded Valkey, and queue processes of which one is killed half-way.

    python demo.py           shows it, then stays up for you to look around
    python demo.py --once    ends by itself; exit code 1 where a promise of django-redq was broken
"""

from __future__ import annotations

import argparse
import sys

from proof import queues, runner
from proof.report import Tally
from proof.stage import Stage

PAUSE = 0.05
"""Seconds between two crowds of customers."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--once", action="store_true", help="end when all is done")
    parser.add_argument("--orders", type=int, default=600, metavar="N", help="orders to post")
    options = parser.parse_args()
    return runner.run(lambda stage: play(stage, options.orders, stay=not options.once))


def play(stage: Stage, orders: int, *, stay: bool) -> None:
    from shop.factories import OrderData  # needs Django, which the stage has set up by now

    say, tally = stage.display.say, Tally()
    stage.start_scheduler()
    victim, _ = stage.start_consumer(), stage.start_consumer()

    say(f"{orders} orders come in at {stage.web_address}")
    posting = stage.let_order((OrderData() for _ in range(orders)), pause=PAUSE)
    stage.wait(
        lambda: stage.ledger.answered >= orders / 2 and queues.held_by(victim.name) >= 2,
        f"half of the orders, and {victim.name} at work",
    )
    say(f"half-way: kill -9 of {victim.name}, while it runs {queues.held_by(victim.name)} tasks")
    stage.children.kill(victim)
    tally.consumers_killed += 1
    stage.start_consumer()
    stage.wait_for_orders(posting)

    say("all orders are in; the reminders come due, the partner that is down fails all its tries")
    runner.drain(stage)
    say(f"{queues.dead()} dead letters; the partner is mended, and they are replayed")
    stage.partners["down"].mend()
    runner.replay_until_none_is_dead(stage, tally)

    runner.finish(stage, tally)
    if stay:
        runner.stay_open(stage)


if __name__ == "__main__":
    sys.exit(main())

"""How a run begins, ends, and is judged."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator

from proof import exhibits, queues, report
from proof.children import ChildDied
from proof.customers import Unanswered
from proof.display import Display
from proof.ledger import Kind, Receipt
from proof.operator import QUEUES, Operator
from proof.report import Tally
from proof.stage import BrokenPromise, Occupied, Stage

REPLAY_ROUNDS = 5
OPERATOR = ("admin", "admin")
"""Who may log in: name and password."""


def run(play: Callable[[Stage], None]) -> int:
    """Set the stage, play, strike the stage; the exit code."""
    display = Display()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # all take the way out of Ctrl-C
    try:
        with Stage(display) as stage:
            play(stage)
            if complaints := stage.children.stop():
                raise BrokenPromise("; ".join(complaints))
            display.say("all processes stopped in good order")
    except (BrokenPromise, ChildDied, Occupied, Unanswered) as error:
        display.say("")
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        display.say("stopped")
        return 130
    return 0


def drain(stage: Stage) -> None:
    """Wait until no task is left but the dead."""
    try:
        stage.wait(lambda: queues.unfinished() == 0, "the queues to drain")
    except BrokenPromise as error:
        raise BrokenPromise(f"{error}; {'; '.join(queues.leftovers())}") from None


def replay_until_none_is_dead(stage: Stage, tally: Tally) -> None:
    """Replay, and once more what the flaky partner has let die again."""
    for _ in range(REPLAY_ROUNDS):
        if not queues.dead():
            return
        tally.replayed += queues.replay_all()
        drain(stage)
    raise BrokenPromise(f"{queues.dead()} tasks are dead again after {REPLAY_ROUNDS} replays")


def finish(stage: Stage, tally: Tally) -> None:
    """Print the table.

    Raises:
        BrokenPromise: names every promise that did not hold.
    """
    ledger = stage.ledger
    account = ledger.account(_credits())
    tally.retried, tally.dead = queues.retried(), queues.died()
    counts = {"accepted": len(ledger.accepted), "refused": ledger.refused}
    stage.display.table(report.rows(account, tally, **counts))
    faults = report.broken_promises(account, queues.leftovers())
    faults += Operator(stage.web_address, *OPERATOR).complaints()
    if faults:
        raise BrokenPromise("; ".join(faults))
    stage.display.say("nothing lost, nothing sent that should not be, and the queues are empty")


def stay_open(stage: Stage) -> None:
    """Leave everything running until Ctrl-C, and something to see."""
    user, password = OPERATOR
    to_see = exhibits.put_up(stage)
    stage.display.say(
        f"\n  the admin  {stage.web_address}{QUEUES}  (user {user}, password {password})"
        f"\n             {to_see}"
        f"\n  the shop   {stage.web_address}/"
        f"\n  the logs   {stage.children.log_dir}"
        "\n\nCtrl-C stops it all."
    )
    stage.wait(lambda: False, "Ctrl-C", patience=float("inf"))


def _credits() -> Iterator[Receipt]:
    from shop.models import LoyaltyCredit  # needs Django, which the stage has set up by now

    for order in LoyaltyCredit.objects.values_list("order_id", flat=True):
        yield Kind.POINTS, str(order)

"""The processes of a soak: started, killed, frozen, replaced, and asked for their memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from django_redq.keeper import Kept
from soaking.ledger import Ledger
from soaking.settings import QUEUES

BENCHMARKS = Path(__file__).parent.parent
STOP_TIMEOUT = 60.0
CONCURRENCY = 16
_DJANGO = ("-m", "django")
COMMANDS = {
    "scheduler": (*_DJANGO, "redq_scheduler"),
    "consumer": (*_DJANGO, "redq_consume", *QUEUES, "--concurrency", str(CONCURRENCY)),
    "producer": ("-m", "soaking.producer"),
    "caretaker": ("-m", "soaking.caretaker"),
}
ACTORS = (
    "scheduler-1",
    "scheduler-0",
    "consumer-0",
    "consumer-1",
    "consumer-2",
    "caretaker-0",
    "producer-0",
    "producer-1",
)
"""In the order in which they are started; of those of number 0 the memory is judged, so nobody kills
them. The leases go to a scheduler that may be killed."""


class Died(Exception):
    """A process ended that nobody had told to; the message has the end of its log."""


@dataclass
class Actor:
    """One process, in one life after the other."""

    name: str
    kept: Kept
    life: int = 1
    is_down: bool = False
    """Killed, and not replaced yet."""

    @property
    def part(self) -> str:
        """What it is: ``consumer``."""
        return self.name.partition("-")[0]

    @property
    def who(self) -> str:
        """As the ledger has it in this life."""
        return f"{self.name}.{self.life}"

    @property
    def may_die(self) -> bool:
        return not self.name.endswith("-0")


class World:
    """All processes but Redis.

    Args:
        home: a directory for the ledger and the logs.
        environ: what the processes get beside this one's own.
    """

    def __init__(self, home: Path, ledger: Ledger, environ: dict[str, str]) -> None:
        paths = os.pathsep.join(
            [str(BENCHMARKS), str(BENCHMARKS.parent), os.environ.get("PYTHONPATH", "")]
        )
        self._home = home
        self._ledger = ledger
        self._environ = {**os.environ, **environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
        self.actors: dict[str, Actor] = {}

    def start(self) -> None:
        """All of them."""
        for name in ACTORS:
            self.actors[name] = Actor(name, self._launch(name, 1))

    def _launch(self, name: str, life: int) -> Kept:
        command = COMMANDS[name.partition("-")[0]]
        environ = {**self._environ, "SOAK_WHO": f"{name}.{life}"}
        with (self._home / f"{name}.log").open("ab") as log:
            return Kept([sys.executable, *command], output=log, env=environ)

    def check(self) -> None:
        """Raises :class:`Died` where one has ended by itself."""
        for actor in self.actors.values():
            if not actor.is_down and not actor.kept.is_running:
                log = (self._home / f"{actor.name}.log").read_text(errors="replace")
                end = "\n  ".join(log.splitlines()[-15:])
                raise Died(
                    f"{actor.who} ended with code {actor.kept.wait()}; its log ends with\n  {end}"
                )

    def kill(self, actor: Actor) -> None:
        """``kill -9``."""
        self._ledger.note("kill", actor.who)
        actor.kept.close()
        actor.is_down = True

    def replace(self, actor: Actor) -> None:
        """Its next life."""
        actor.life += 1
        actor.kept = self._launch(actor.name, actor.life)
        actor.is_down = False

    def freeze(self, actor: Actor) -> None:
        self._ledger.note("freeze", actor.who)
        actor.kept.signal(signal.SIGSTOP)

    def thaw(self, actor: Actor) -> None:
        actor.kept.signal(signal.SIGCONT)
        self._ledger.note("thaw", actor.who)

    def stop(self, part: str = "") -> list[str]:
        """Ends all of a part (all that are left) in good order; a sentence about each that did not."""
        stopping = [one for one in self.actors.values() if part in {"", one.part}]
        for actor in stopping:
            actor.kept.signal(signal.SIGTERM)
            del self.actors[actor.name]
        return [complaint for actor in stopping if (complaint := _wait_for(actor))]

    def close(self) -> None:
        """Kills what is left."""
        for actor in self.actors.values():
            actor.kept.close()


def _wait_for(actor: Actor) -> str:
    try:
        code = actor.kept.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"{actor.who} did not stop within {STOP_TIMEOUT:g} s"
    finally:
        actor.kept.close()
    return "" if code == 0 else f"{actor.who} stopped with exit code {code}"

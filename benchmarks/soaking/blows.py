"""The blows: who is hit next, by what, and when it is over."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from django_redq.devserver import DevServer
from soaking.ledger import Ledger
from soaking.settings import LEASE_TTL, PENDING_MIN_IDLE
from soaking.world import Actor, World

GAP = 1.0
"""Seconds between a kill and the start of what takes the place, at most."""
FREEZES = {"scheduler": LEASE_TTL * 2.5, "consumer": PENDING_MIN_IDLE * 2, "producer": 5.0}
"""Seconds that a frozen process stays so, at most: beyond what makes others take over."""


class Blows:
    """Has one blow follow the other at random times, on average ``peace`` seconds apart.

    Args:
        server: is killed and started again, too; None: it is not.
    """

    def __init__(
        self, world: World, server: DevServer | None, ledger: Ledger, seed: int, peace: float
    ) -> None:
        self._world = world
        self._server = server
        self._ledger = ledger
        self._dice = random.Random(seed)  # noqa: S311 - no secret
        self._peace = peace
        self._pending: list[tuple[float, Callable[[], None]]] = []
        self._hit: set[str] = set()
        self._next = time.monotonic() + self._pause()
        self.counts: Counter[str] = Counter()
        self.last = "none yet"

    def _pause(self) -> float:
        return min(self._dice.expovariate(1 / self._peace), 3 * self._peace)

    def tick(self) -> None:
        """Deals what is due, and ends what is over."""
        now = time.monotonic()
        for one in [one for one in self._pending if one[0] <= now]:
            self._pending.remove(one)
            one[1]()
        if now >= self._next:
            self._next = now + self._pause()
            self._strike()

    def end(self) -> None:
        """Ends all that is not over yet."""
        for _, finish in self._pending:
            finish()
        self._pending.clear()

    def _strike(self) -> None:
        whole = [one for one in self._world.actors.values() if one.name not in self._hit]
        kills = [(self._kill, one) for one in whole if one.may_die]
        freezes = [(self._freeze, one) for one in whole if one.part in FREEZES]
        restarts = [(self._restart, None)] * 2 if self._server is not None else []
        # Two kills for a freeze.
        choices: list[tuple[Callable[..., None], Actor | None]] = [
            *kills,
            *kills,
            *freezes,
            *restarts,
        ]
        deal, victim = self._dice.choice(choices)
        deal(victim)

    def _kill(self, actor: Actor) -> None:
        self._tell("kill -9", actor.who, actor.part)
        self._world.kill(actor)
        self._later(actor, self._dice.uniform(0, GAP), self._world.replace)

    def _freeze(self, actor: Actor) -> None:
        seconds = self._dice.uniform(0.5, FREEZES[actor.part])
        self._tell("freeze", f"{actor.who} for {seconds:.1f} s", actor.part)
        self._world.freeze(actor)
        self._later(actor, seconds, self._world.thaw)

    def _later(self, actor: Actor, seconds: float, finish: Callable[[Actor], None]) -> None:
        def done() -> None:
            finish(actor)
            self._hit.remove(actor.name)

        self._hit.add(actor.name)
        self._pending.append((time.monotonic() + seconds, done))

    def _restart(self, _actor: None) -> None:
        assert self._server is not None
        self._tell("restart", "Redis", "redis")
        self._ledger.note("restart", "redis")
        self._server.restart()
        self._ledger.note("back", "redis")

    def _tell(self, how: str, whom: str, part: str) -> None:
        self.last = f"{how} {whom}"
        self.counts[f"{how} {part}"] += 1

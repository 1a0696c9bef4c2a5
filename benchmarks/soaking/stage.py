"""A soak from its first process to its last: load, blows, drain, account."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

import django
import redis

from django_redq import Queue
from django_redq.devserver import DevServer
from soaking.account import Account
from soaking.blows import Blows
from soaking.ledger import Ledger, Reader
from soaking.memory import MIB, Memory
from soaking.report import Report
from soaking.settings import QUEUES
from soaking.world import ACTORS, Died, World

TICK = 0.1
SAY = 5.0
"""Seconds between two lines that tell how it goes."""
SAMPLE = 2.0
"""Seconds between two looks at memory."""
START_TIMEOUT = 60.0
PATIENCE = 90.0
"""Seconds without any change after which queues are said not to drain."""


class Stage:
    """Everything that is there during a soak; with it, all processes end.

    Args:
        home: a directory for the ledger and the logs.
        environ: what the processes get beside this one's own.
    """

    def __init__(self, home: Path, server: DevServer, environ: dict[str, str], seed: int) -> None:
        django.setup()
        self._server = server
        self._seed = seed
        self._ledger = Ledger.here()
        self._reader = Reader(self._ledger.path)
        self._account = Account()
        self._world = World(home, self._ledger, environ)
        self._memory = Memory(redis.Redis.from_url(server.url))
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._world.close()
        self._reader.close()

    def play(self, seconds: float, peace: float, *, restarts: bool) -> Report:
        """The whole soak."""
        server = self._server if restarts else None
        self._world.start()
        self._wait_until_all_are_up()
        print(f"{len(ACTORS)} processes are up; seed {self._seed}", flush=True)
        blows = Blows(self._world, server, self._ledger, self._seed, peace)
        began = time.monotonic()
        complaints: list[str] = []
        try:
            self._load(seconds, blows)
        except Died as error:
            complaints.append(str(error))
        took = time.monotonic() - began
        blows.end()
        complaints += self._world.stop("producer")
        complaints += self._drain()
        complaints += self._world.stop()
        self._account.take(self._reader.read())
        return Report(self._seed, took, self._account, blows, self._memory, complaints)

    def _wait_until_all_are_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not self._account.pids.keys() >= {*ACTORS}:
            self._world.check()
            if time.monotonic() > deadline:
                raise Died(f"not all processes came up within {START_TIMEOUT:g} s")
            time.sleep(TICK)
            self._account.take(self._reader.read())

    def _load(self, seconds: float, blows: Blows) -> None:
        """Has it go on for so long, or until Ctrl-C."""
        began = sampled = time.monotonic()
        self._memory.start()
        try:
            while time.monotonic() - began < seconds:
                blows.tick()
                self._tell(began, f"blows {blows.counts.total():>3}, last: {blows.last}")
                if time.monotonic() - sampled >= SAMPLE:
                    sampled = time.monotonic()
                    self._memory.take(self._account.pids)
                    self._world.check()
                time.sleep(TICK)
        except KeyboardInterrupt:
            print("the load ends now, the queues drain; once more to end at once", flush=True)

    def _tell(self, began: float, more: str) -> None:
        """Takes in what is new, and tells of it now and then."""
        now = time.monotonic()
        if now - self._said < SAY:
            return
        self._said = now
        self._account.take(self._reader.read())
        minutes, seconds = divmod(int(now - began), 60)
        counts = self._account.counts
        print(
            f"{minutes:>3}:{seconds:02}  accepted {counts['accepted']:>7,}  "
            f"done {counts['done']:>7,}  failed {counts['failed']:>6,}  "
            f"dead {counts['dead']:>6,}  cancelled {counts['cancelled']:>6,}  "
            f"{self._waiting()}  {more}",
            flush=True,
        )

    def _waiting(self) -> str:
        """What the queues say of themselves."""
        try:
            return f"now {self._held() or 'nothing'}; {self._memory.of_redis() / MIB:.1f} MiB"
        except redis.RedisError:
            return "Redis does not answer"

    def _drain(self) -> list[str]:
        """Waits until nothing is left of any task; a sentence where that does not come."""
        began = changed = time.monotonic()
        held, seen = self._held(), ""
        while held:
            if held != seen:
                seen, changed = held, time.monotonic()
            if time.monotonic() - changed > PATIENCE:
                return [f"the queues do not drain: {held}"]
            self._tell(began, "draining")
            time.sleep(TICK)
            held = self._held()
        self._memory.after = self._memory.of_redis()
        return []

    def _held(self) -> str:
        """What the queues hold, as text; '' where that is nothing."""
        parts = ("scheduled", "ready", "running", "dead")
        stats = [Queue(name).stats() for name in QUEUES]
        held = {part: sum(getattr(one, part) for one in stats) for part in parts}
        return ", ".join(f"{count} {part}" for part, count in held.items() if count)

"""The executor's one event loop, without a server."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from django_redq.consumer.executor import LoopRunner


def test_one_loop_is_started_however_many_ask_for_it_first(monkeypatch):
    made, meeting, new_event_loop = [], threading.Barrier(2), asyncio.new_event_loop

    def make():
        # Were both let in here, they would meet.
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.2)
        made.append(new_event_loop())
        return made[-1]

    runner = LoopRunner(lambda _held, _outcome: None)
    monkeypatch.setattr(runner, "_spawn", lambda _run: None)
    monkeypatch.setattr(asyncio, "new_event_loop", make)
    threads = [threading.Thread(target=runner.begin, args=[None]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runner.close()
    assert len(made) == 1
    assert made[0].is_closed()

"""Runs what was delivered: sync handlers in threads, async ones on one event loop, both bounded."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Protocol

from django_redq.consumer import database
from django_redq.consumer.deadlines import Deadlines
from django_redq.consumer.options import Options
from django_redq.consumer.run import Run, prepare, run_in_thread, run_inline, run_on_loop
from django_redq.consumer.table import Held
from django_redq.lines import get_logger
from django_redq.outcome import Keep, Outcome

logger = get_logger("django_redq.consumer")

CANCEL_TIMEOUT = 3.0
"""Seconds that cancelled async runs get to end."""

Finish = Callable[[Held, Outcome], None]


class Executor(Protocol):
    """Takes deliveries and reports how each ended."""

    def submit(self, held: Held) -> None:
        """Runs it as soon as a slot is free."""

    def take_waiting(self, queue_name: str | None = None) -> list[Held]:
        """Takes back what has not begun (of one queue)."""

    @property
    def waiting(self) -> int:
        """How many have not begun."""

    def close(self) -> None:
        """Ends its threads and cancels the async runs that are left."""


class InlineExecutor:
    """Runs each at once in the calling thread, with its database connections: for ``run_once``."""

    waiting = 0

    def __init__(self, options: Options, finish: Finish) -> None:
        self._options = options
        self._finish = finish
        self._deadlines = Deadlines()

    def submit(self, held: Held) -> None:
        run = prepare(held, self._options.queues[held.delivery.queue])
        outcome = run_inline(run, self._deadlines) if isinstance(run, Run) else run
        self._finish(held, outcome)

    def take_waiting(self, queue_name: str | None = None) -> list[Held]:
        return []

    def close(self) -> None:
        self._deadlines.close()


class ThreadedExecutor:
    """At most ``concurrency`` runs at a time over threads and event loop together."""

    def __init__(self, options: Options, finish: Finish) -> None:
        self._options = options
        self._report = finish
        self._lock = threading.Lock()
        self._waiting: deque[Held] = deque()
        self._running = 0
        self._threads = ThreadRunner(self._finish)
        self._loop = LoopRunner(self._finish)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, held: Held) -> None:
        with self._lock:
            if self._running >= self._options.concurrency:
                self._waiting.append(held)
                return
            self._running += 1
        self._begin(held)

    def take_waiting(self, queue_name: str | None = None) -> list[Held]:
        with self._lock:
            taken = [held for held in self._waiting if queue_name in (None, held.delivery.queue)]
            for held in taken:
                self._waiting.remove(held)
            return taken

    def close(self) -> None:
        self._threads.close()
        self._loop.close()

    def _begin(self, held: Held | None) -> None:
        while held is not None:
            run = prepare(held, self._options.queues[held.delivery.queue])
            if isinstance(run, Run):
                (self._loop if run.handler.is_async else self._threads).begin(run)
                return
            self._report(held, run)
            held = self._next()

    def _finish(self, held: Held, outcome: Outcome) -> None:
        self._report(held, outcome)
        self._begin(self._next())

    def _next(self) -> Held | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


class ThreadRunner:
    """Threads of the consumer's own, as many as run at once at the most."""

    def __init__(self, finish: Finish) -> None:
        self._finish = finish
        self._runs: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._deadlines = Deadlines()

    def begin(self, run: Run) -> None:
        """Runs it in a thread that is idle, or in a new one."""
        if not self._idle.acquire(blocking=False):
            name = f"redq-handler-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._runs.put(run)

    def close(self) -> None:
        """Ends the idle threads; one that still runs a handler ends with the process."""
        for _ in self._threads:
            self._runs.put(None)
        self._deadlines.close()

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            outcome = run_in_thread(run, self._deadlines)
            self._idle.release()
            self._finish(run.held, outcome)
        database.close_connections()


class LoopRunner:
    """One event loop in one thread, started with the first async handler."""

    def __init__(self, finish: Finish) -> None:
        self._finish = finish
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closing = False
        self._runs: dict[asyncio.Task[None], Held] = {}

    def begin(self, run: Run) -> None:
        """Runs it on the loop, in a fresh context: not in that of the run that made room for it."""
        with self._starting:
            loop = self._loop or self._start()
        loop.call_soon_threadsafe(self._spawn, run, context=Context())

    def close(self) -> None:
        """Cancels every run on the loop and ends it."""
        self._closing = True
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(CANCEL_TIMEOUT + 1)

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._serve, args=(loop,), name="redq-event-loop", daemon=True
        )
        self._thread.start()
        return loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._closing:
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - SystemExit of a task a handler spawned
                logger.warning(
                    "a stray asyncio task raised %s; the loop goes on", type(error).__name__
                )
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _spawn(self, run: Run) -> None:
        task = asyncio.ensure_future(self._run(run))
        self._runs[task] = run.held
        task.add_done_callback(self._runs.pop)

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for held in self._runs.values():
            held.given_up = True
        # What handlers have spawned and left behind, too.
        tasks = asyncio.all_tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            ending = asyncio.ensure_future(asyncio.wait(tasks, timeout=CANCEL_TIMEOUT))
            ending.add_done_callback(lambda _: loop.stop())
        else:
            loop.stop()

    async def _run(self, run: Run) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(task.cancel)

        run.held.cancel = cancel
        if run.held.given_up:
            outcome: Outcome = Keep("it was lost before it began")
        else:
            outcome = await run_on_loop(run)
        run.held.cancel = None
        self._finish(run.held, outcome)

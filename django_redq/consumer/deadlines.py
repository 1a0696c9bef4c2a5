"""Timeouts of sync handlers: an exception raised into the thread that runs one.

It strikes between two bytecodes, so a handler that waits inside one C call (a query, a sleep, a socket
without its own timeout) is interrupted only when that call returns. Nothing in Python can do more to a
thread; an async handler is cancelled at its next await.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import threading
import time

from django_redq.errors import HandlerTimeout

ARRIVAL = 1000
"""Rounds of a loop, each of which looks for a pending exception; the first one does."""


class Deadline:
    """One run of a handler in the thread that made this object."""

    def __init__(self, message: str) -> None:
        self.message = message
        self._thread_id = threading.get_ident()
        self._lock = threading.Lock()
        self._armed = True
        self._struck = False

    def strike(self) -> None:
        """Raises :class:`HandlerTimeout` into the thread, unless the run is over."""
        with self._lock:
            if self._armed:
                self._struck = True
                _raise_in_thread(self._thread_id, HandlerTimeout)

    def disarm(self) -> None:
        """The run is over, nothing is raised any more.

        Raises:
            HandlerTimeout: it was struck, and the exception had not arrived yet.
        """
        with self._lock:
            self._armed = False
            struck, self._struck = self._struck, False
        if struck:
            # It arrives in here, where it is waited for, unless the run has had it already.
            for _ in range(ARRIVAL):
                pass


def _raise_in_thread(thread_id: int, kind: type[BaseException]) -> None:
    # https://docs.python.org/3/c-api/threads.html: PyThreadState_SetAsyncExc. Its NULL, which would
    # take an exception back, leaves every thread of CPython 3.11 checking for one from then on, and
    # spinning for good where it is traced (a debugger, coverage).
    value = ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), value)


class Deadlines:
    """A thread, started with the first deadline, that strikes each when its time has come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Deadline]] = []
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, deadline: Deadline, seconds: float) -> None:
        """Has the deadline strike ``seconds`` from now."""
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._count), deadline)
            heapq.heappush(self._heap, entry)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="redq-deadlines", daemon=True
                )
                self._thread.start()
            elif self._heap[0] is entry:
                self._changed.notify()

    def close(self) -> None:
        """Ends the thread; deadlines still waiting never strike."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                pause = self._heap[0][0] - time.monotonic() if self._heap else None
                if pause is None or pause > 0:
                    self._changed.wait(pause)
                else:
                    heapq.heappop(self._heap)[2].strike()

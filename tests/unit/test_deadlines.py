"""Time-outs of sync handlers, at the level of threads."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from django_redq.consumer.deadlines import Deadline, Deadlines
from django_redq.errors import HandlerTimeout
from tests.harness import PATIENCE, ROOT

# CPython 3.11 spins in every traced thread while an exception waits for a thread that is in C.
untraced = pytest.mark.no_cover


def spin_until_struck():
    # Each round looks for a pending exception.
    deadline = threading.Event()
    while not deadline.wait(0.001):
        pass


@untraced
def test_a_deadline_strikes_the_thread_that_made_it():
    deadlines, deadline = Deadlines(), Deadline("too long")
    deadlines.add(deadline, 0.01)
    with pytest.raises(HandlerTimeout):
        spin_until_struck()
    deadline.disarm()
    deadlines.close()


def test_a_disarmed_deadline_does_not_strike():
    deadline = Deadline("too long")
    deadline.disarm()
    deadline.strike()
    deadline.disarm()  # would raise what was pending


@untraced
def test_what_has_not_arrived_yet_arrives_in_disarm():
    armed, struck = threading.Event(), threading.Event()
    found = []

    def run():
        mine = Deadline("too long")
        found.append(mine)
        armed.set()
        try:
            try:
                struck.wait()
            finally:
                mine.disarm()
        except HandlerTimeout:
            mine.disarm()
            found.append("timed out")

    thread = threading.Thread(target=run)
    thread.start()
    armed.wait()
    found[0].strike()
    struck.set()
    thread.join(PATIENCE)
    assert found[1:] == ["timed out"]


def test_the_nearest_of_several_strikes_first():
    deadlines, struck = Deadlines(), []
    done = threading.Event()

    class Noted(Deadline):
        def strike(self):
            struck.append(self.message)
            if len(struck) == 3:
                done.set()

    for message, seconds in (("c", 0.06), ("a", 0.02), ("b", 0.04)):
        deadlines.add(Noted(message), seconds)
    assert done.wait(PATIENCE)
    assert struck == ["a", "b", "c"]
    deadlines.close()


TRACED = """
import sys, threading
from django_redq.consumer.deadlines import Deadline

def trace(frame, event, argument):
    return trace

threading.settrace(trace)
deadline = Deadline("too long")
deadline.disarm()
other = threading.Thread(target=lambda: sum(map(abs, range(1000))))
other.start()
other.join()
print("went on")
"""


def test_threads_that_are_traced_go_on_after_a_run_that_was_in_time():
    """CPython 3.11 spins for ever in traced threads once an exception was taken back."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == "went on\n", done.stderr

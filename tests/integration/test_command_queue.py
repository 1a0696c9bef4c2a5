"""``manage.py redq_queue``."""

from __future__ import annotations

from django_redq import Queue
from tests.harness import Redq


def test_it_pauses_and_resumes(redq: Redq) -> None:
    shown = redq.manage("redq_queue", "pause", "email", "webhook")
    assert (shown.returncode, shown.stdout) == (0, "email: paused\nwebhook: paused\n")
    assert [Queue(name).stats().paused for name in ("default", "email")] == [False, True]

    shown = redq.manage("redq_queue", "pause", "email")
    assert (shown.returncode, shown.stdout) == (0, "email: was paused already\n")

    shown = redq.manage("redq_queue", "resume", "email")
    assert (shown.returncode, shown.stdout) == (0, "email: resumed\n")
    assert not Queue("email").stats().paused

    shown = redq.manage("redq_queue", "resume", "email")
    assert (shown.returncode, shown.stdout) == (0, "email: was not paused\n")


def test_no_queue_is_paused_where_one_of_them_is_unknown(redq: Redq) -> None:
    shown = redq.manage("redq_queue", "pause", "email", "nope")

    assert shown.returncode == 1
    assert redq.keys() == []

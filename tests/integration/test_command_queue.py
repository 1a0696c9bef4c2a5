"""``manage.py redq_queue``."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redq import Queue, Task, TaskState, get_task, handler
from tests.engine import Engine
from tests.harness import Redq, until


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    """The command in this process; the lines of both its outputs."""
    call_command("redq_queue", *arguments)
    shown = capsys.readouterr()
    return shown.out.splitlines(), shown.err.splitlines()


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


# --- tasks


def test_list_shows_the_soonest_first_page_by_page(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.configure(SHARDS=3)
    ids = [engine.enqueue(1, delay=3600 + number, kind="k") for number in range(5)]
    listed = ("list", "default", "--state", "scheduled")

    lines, more = run(capsys, *listed, "--count", "3")
    assert [line.split()[2] for line in lines] == ids[:3]
    assert lines[0].endswith("  kind k")
    assert more[0].startswith("more: --after ")
    lines, more = run(capsys, *listed, "--after", more[0].split()[-1])
    assert [line.split()[2] for line in lines] == ids[3:]
    assert more == []
    [document], _ = run(capsys, *listed, "--json")
    page = json.loads(document)
    assert [task["task_id"] for task in page["tasks"]] == ids
    assert page["cursor"] is None


def test_list_shows_what_is_ready_and_what_runs(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [engine.enqueue(1) for _ in range(2)]
    engine.deliver(to="someone", limit=1)

    running, _ = run(capsys, "list", "default", "--state", "running")
    ready, _ = run(capsys, "list", "default", "--state", "ready")

    assert [line.split()[2:] for line in running] == [
        [ids[0], "attempts", "1,", "run", "by", "someone"]
    ]
    assert [line.split()[2:] for line in ready] == [[ids[1]]]


def test_list_needs_a_state_that_tasks_have(engine: Engine) -> None:
    for state in ("dead", "gone"):
        with pytest.raises(CommandError, match="invalid choice"):
            call_command("redq_queue", "list", "default", "--state", state)
    with pytest.raises(CommandError, match="--state"):
        call_command("redq_queue", "list", "default")
    with pytest.raises(CommandError, match="after: "):
        call_command("redq_queue", "list", "default", "--state", "ready", "--after", "x")


def test_what_redis_holds_cannot_act_on_the_terminal(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\u202e"
    engine.client.xadd(engine.key("stream"), {"id": evil})
    engine.client.hset(engine.key("payload"), evil, '{"at":1,"kind":"' + evil + '"}')
    engine.deliver(to=evil, limit=1)
    engine.client.zadd(engine.key("delay"), {evil: 5})
    for state in ("scheduled", "ready", "running"):
        lines, _ = run(capsys, "list", "default", "--state", state)
        assert "\x1b" not in "".join(lines)
        assert "\u202e" not in "".join(lines)
    lines, _ = run(capsys, "consumers", "default")
    assert "\x1b" not in "".join(lines)


def test_run_now_and_cancel_tell_of_each(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [engine.enqueue(1, delay=3600) for _ in range(3)]

    assert run(capsys, "run-now", "default", ids[0]) == ([f"{ids[0]} is ready now"], [])
    assert get_task("default", ids[0]).state is TaskState.READY
    lines, _ = run(capsys, "cancel", "default", ids[0], ids[1])
    assert lines == [f"{ids[0]} cancelled", f"{ids[1]} cancelled"]
    assert get_task("default", ids[0]) is get_task("default", ids[1]) is None
    with pytest.raises(CommandError, match=r"1 of 2 task\(s\) left as they were"):
        call_command("redq_queue", "cancel", "default", ids[1], ids[2])
    shown = capsys.readouterr()
    assert shown.out == f"{ids[2]} cancelled\n"
    assert shown.err == f"{ids[1]} is neither scheduled nor ready\n"
    with pytest.raises(CommandError, match=r"1 of 1"):
        call_command("redq_queue", "run-now", "default", ids[1])
    with pytest.raises(CommandError, match="task_id"):
        call_command("redq_queue", "cancel", "default", "a b")


# --- consumers


def test_consumers_are_shown_with_what_they_run(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    go_on, begun = threading.Event(), threading.Event()

    @handler("default", kind="slow")
    def work(task: Task[Any]) -> None:
        begun.set()
        assert go_on.wait(60)

    assert run(capsys, "consumers", "default")[0][1].split() == ["none"]
    task_id = engine.enqueue(1, kind="slow")
    consumer = engine.start()
    assert begun.wait(60)
    consumer._heart.wake()
    until(lambda: any(one.tasks for one in Queue("default").stats().consumers))

    (head, row, running), _ = run(capsys, "consumers", "default")

    assert head.split()[:3] == ["consumer", "running", "host"]
    assert row.split()[:2] == [consumer.name, "1"]
    assert running.startswith(f"{consumer.name} runs {task_id}  kind slow  since 20")
    [document], _ = run(capsys, "consumers", "default", "--json")
    assert json.loads(document)[0]["tasks"][0]["task_id"] == task_id
    go_on.set()

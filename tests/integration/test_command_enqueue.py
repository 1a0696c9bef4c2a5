"""``manage.py redq_enqueue``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_redq import TaskState, get_task
from tests.harness import Redq


def test_it_enqueues_and_says_the_id(redq: Redq) -> None:
    shown = redq.manage("redq_enqueue", "email", '{"to": ["ada", 1.0, null]}')

    assert shown.returncode == 0
    assert shown.stderr == ""
    task_id, *rest = shown.stdout.split()
    assert rest == ["enqueued", "to", "email"]
    info = get_task("email", task_id)
    assert info.state is TaskState.READY
    assert info.task.payload == {"to": ["ada", 1.0, None]}


def test_every_option_reaches_the_task(redq: Redq) -> None:
    options = (
        *("--kind", "welcome", "--task-id", "mine", "--delay", "1h", "--max-attempts", "7"),
        *("--idempotency-key", "k", "--metadata", "a=b=c", "--metadata", "d="),
    )

    shown = redq.manage("redq_enqueue", "email", "1", *options, "--json")

    assert json.loads(shown.stdout) == {
        "task_id": "mine",
        "queue": "email",
        "shard": get_task("email", "mine").shard,
        "duplicate": False,
    }
    info = get_task("email", "mine")
    task = info.task
    assert (task.kind, task.max_attempts, task.idempotency_key) == ("welcome", 7, "k")
    assert task.metadata == {"a": "b=c", "d": ""}
    assert info.state is TaskState.SCHEDULED
    assert round((task.run_at - task.enqueued_at).total_seconds()) == 3600


@pytest.mark.parametrize("text", ["2100-06-01T12:00:00", "2100-06-01 14:00:00+02:00"])
def test_run_at_is_in_the_time_zone_of_the_settings_unless_it_says_one(
    redq: Redq, text: str
) -> None:
    redq.manage("redq_enqueue", "email", "1", "--task-id", "t", "--run-at", text)

    assert get_task("email", "t").run_at == datetime(2100, 6, 1, 12, tzinfo=UTC)


def test_the_payload_may_come_from_standard_input(redq: Redq) -> None:
    redq.manage("redq_enqueue", "email", "-", "--task-id", "t", stdin='{"a":\n1}\n')

    assert get_task("email", "t").task.payload == {"a": 1}


def test_a_duplicate_changes_nothing_and_is_no_error(redq: Redq) -> None:
    redq.manage("redq_enqueue", "email", "1", "--task-id", "t")

    shown = redq.manage("redq_enqueue", "email", "2", "--task-id", "t")

    assert shown.returncode == 0
    assert shown.stdout == "t is in email already, and stays as it is\n"
    assert get_task("email", "t").task.payload == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{",), "JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        (("ada",), "JSON: Expecting value: line 1 column 1"),
        (("[" * 100_000,), "JSON: "),
        (("NaN",), "payload: "),
        (("9" * 5000,), "JSON: "),
        (('"' + "x" * 300_000 + '"',), "payload: the task takes 300,"),
        (("1", "--kind", "a b"), "kind: "),
        (("1", "--task-id", "a b"), "task_id: "),
    ],
)
def test_what_cannot_be_sent_is_told_in_one_line(
    redq: Redq, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An argument has a bound on some systems; standard input has none.
    payload, *options = arguments
    monkeypatch.setattr(sys, "stdin", StringIO(payload))

    with pytest.raises(CommandError) as raised:
        call_command("redq_enqueue", "email", "-", *options)

    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert redq.keys() == []

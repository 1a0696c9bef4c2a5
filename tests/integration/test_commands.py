"""What holds for every command: it teaches, and it tells of an error in one line."""

from __future__ import annotations

import re
import subprocess

import pytest
from django.core.management import CommandError, call_command

from tests.harness import Redq

NOWHERE = "redis://:s3cret@127.0.0.1:1/0"
COMMANDS: dict[str, tuple[str, ...]] = {
    "redq_consume": ("default",),
    "redq_dlq": ("list", "default"),
    "redq_enqueue": ("default", "{}"),
    "redq_queue": ("pause", "default"),
    "redq_scheduler": ("--once",),
    "redq_stats": (),
}
ONE_SHOT = {name: arguments for name, arguments in COMMANDS.items() if name != "redq_consume"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples(redq: Redq, name: str) -> None:
    shown = redq.manage(name, "--help")

    assert shown.returncode == 0
    # As it is written: not wrapped into one paragraph.
    assert shown.stdout.count(f"\n  manage.py {name} ") >= 3


def complaint(shown: subprocess.CompletedProcess[str]) -> str:
    """The one line that tells of the error."""
    assert shown.returncode == 1
    assert shown.stdout == ""
    assert "Traceback" not in shown.stderr
    *before, last = shown.stderr.splitlines()
    assert not any(line.startswith("CommandError") for line in before)
    return last


@pytest.mark.parametrize("name", ONE_SHOT)
def test_a_redis_that_is_not_there_is_told_in_one_line(redq: Redq, name: str) -> None:
    line = complaint(redq.manage(name, *ONE_SHOT[name], REDQ_TEST_URL=NOWHERE))

    assert line.startswith("CommandError: Redis at redis://127.0.0.1:1/0: ConnectionError: ")
    assert "s3cret" not in line


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_queue_is_told_with_the_known_ones(redq: Redq, name: str) -> None:
    arguments = [one.replace("default", "defualt") for one in COMMANDS[name]]
    if "defualt" not in arguments:
        arguments.append("defualt")

    assert complaint(redq.manage(name, *arguments)) == (
        "CommandError: 'defualt' is not a queue of REDQ['QUEUES']; known: default, email, webhook"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_settings_that_disagree_with_redis_are_told_in_one_line(redq: Redq, name: str) -> None:
    layout = {"layout": 1, "shards": 5, "group": "default"}
    redq.client.hset(redq.key("default", 0, "meta"), mapping=layout)

    line = complaint(redq.manage(name, *COMMANDS[name]))

    assert line.startswith("CommandError: queue 'default': its SHARDS is '1' here and '5' in Redis")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("redq_consume", (), "the following arguments are required: QUEUE"),
        ("redq_consume", ("default", "--concurrency", "0"), "a whole number from 1, not '0'"),
        ("redq_consume", ("default", "--burst", "--reload"), "not allowed with"),
        ("redq_scheduler", ("--tick", "soon"), "like 30m, 12h or 7d, not 'soon'"),
        ("redq_stats", ("--watch", "--check"), "not allowed with"),
        ("redq_enqueue", ("default",), "the following arguments are required: JSON"),
        ("redq_enqueue", ("default", "1", "--run-at", "noon"), "like 2030-12-31T23:59:00"),
        ("redq_enqueue", ("default", "1", "--metadata", "x"), "must be NAME=TEXT, not 'x'"),
        ("redq_queue", ("stop", "default"), "invalid choice"),
        ("redq_dlq", (), "the following arguments are required: ACTION"),
        ("redq_dlq", ("list", "default", "--reason", "old"), "invalid choice"),
    ],
)
def test_wrong_usage_is_told(redq: Redq, name: str, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(CommandError, match=re.escape(words)):
        call_command(name, *arguments)


def test_wrong_usage_shows_the_usage(redq: Redq) -> None:
    shown = redq.manage("redq_queue", "stop", "default")

    assert shown.returncode == 2
    assert shown.stderr.startswith("usage: ")

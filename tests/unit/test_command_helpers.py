"""What the commands share: arguments, logs, texts, JSON."""

from __future__ import annotations

import io
import json
import logging
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.core.management import CommandError
from django.core.management.base import OutputWrapper

from django_redq import Failure, InvalidArgument, Reason, TaskState
from django_redq.management.command import (
    RedqCommand,
    log_to_stderr,
    moment,
    positive,
    seconds,
    told,
)
from django_redq.management.output import Progress, as_json, duration, one_line, printable, table

# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1.5", 1.5), ("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)],
)
def test_a_duration_may_have_a_unit(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1w", "m", "inf", "nan", "1e9", "1.5.5", "٣", "1m30s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="30m"):
        seconds(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "", "two", "²", "٣"])
def test_what_is_no_number_from_one_is_refused(text: str) -> None:
    assert positive("17") == 17
    with pytest.raises(ArgumentTypeError):
        positive(text)


def test_a_moment_without_offset_is_in_the_time_zone_of_the_settings(settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    noon = datetime(2030, 1, 1, 12)  # noqa: DTZ001

    assert moment("2030-01-01T12:00") == noon.replace(tzinfo=timezone(timedelta(hours=9)))
    assert moment("2030-01-01T12:00Z") == noon.replace(tzinfo=UTC)
    with pytest.raises(ArgumentTypeError):
        moment("tomorrow")


# --- errors ----------------------------------------------------------------------------------


def test_what_an_operator_can_mend_is_told_without_traceback() -> None:
    with pytest.raises(CommandError, match=r"^delay: must be a number$"), told():
        raise InvalidArgument("delay", "must be a number")


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), told():
        raise ZeroDivisionError


def test_ctrl_c_ends_a_command_silently() -> None:
    with pytest.raises(SystemExit) as raised, told():
        raise KeyboardInterrupt
    assert raised.value.code == 130


# --- logs ------------------------------------------------------------------------------------


@pytest.fixture
def ours() -> Iterator[logging.Logger]:
    """Our logger; put back afterwards."""
    logger = logging.getLogger("django_redq")
    before = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:], logger.level = before
    logger.setLevel(before[1])


def forget_root_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a project without LOGGING; pytest adds its own just before the test."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


@pytest.mark.parametrize(
    ("verbosity", "levels"),
    [(0, "WARNING"), (1, "INFO WARNING"), (2, "DEBUG INFO WARNING"), (3, "DEBUG INFO WARNING")],
)
def test_logs_go_to_stderr_as_verbose_as_asked(
    ours: logging.Logger, monkeypatch: pytest.MonkeyPatch, verbosity: int, levels: str
) -> None:
    forget_root_handlers(monkeypatch)
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())

    log_to_stderr(verbosity)
    log_to_stderr(verbosity)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("django_redq.consumer").log(level, "said")

    lines = shown.getvalue().splitlines()
    assert [line.split()[2] for line in lines] == levels.split()
    assert all(line.endswith("django_redq.consumer: said") for line in lines)


@pytest.mark.parametrize("name", ["", "django_redq"])
def test_a_project_that_has_a_place_for_our_logs_keeps_it(
    ours: logging.Logger, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    forget_root_handlers(monkeypatch)
    logger = logging.getLogger(name or None)
    handler = logging.NullHandler()
    logger.addHandler(handler)

    log_to_stderr(3)

    assert logger.handlers == [handler]
    assert ours.level == logging.NOTSET


# --- output ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.99, "10.0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (86_400, "1 d"),
        (442_800, "5 d 3 h"),
    ],
)
def test_durations_for_people(value: float | None, shown: str) -> None:
    assert duration(value) == shown


def test_a_table_stands_in_columns() -> None:
    assert table(("queue", "ready"), [("email", 5), ("a", 12345)]) == [
        "queue  ready",
        "email      5",
        "a      12345",
    ]


def test_texts_from_redis_cannot_act_on_a_terminal() -> None:
    assert printable("a\tb\nç\x1b[31m\r\x7f\x9b") == "a\tb\nç\ufffd[31m\ufffd\ufffd\ufffd"
    assert one_line("a \n\t b\x07", 10) == "a b\ufffd"
    assert one_line("x" * 11, 10) == "x" * 9 + "…"


def test_what_a_command_prints_cannot_either() -> None:
    out = io.StringIO()
    command = RedqCommand(stdout=out, stderr=out)
    command.stdout.write("a\x1b[2J\ud800")
    command.stderr.write("b\r", ending="\r")
    assert out.getvalue() == "a\ufffd[2J\ufffd\nb\ufffd\r"


def test_a_terminal_that_lacks_a_letter_shows_its_number() -> None:
    raw = io.BytesIO()
    command = RedqCommand(stdout=io.TextIOWrapper(raw, "ascii", write_through=True))
    command.stdout.write("Zo\xeb \u2603")
    assert raw.getvalue() == b"Zo\\xeb \\u2603\n"


def test_values_become_json() -> None:
    failure = Failure("ValueError", "\ud800", "", 1, 5)
    value = {
        "failure": failure,
        "at": datetime(2030, 1, 1, tzinfo=UTC),
        "states": (TaskState.DEAD, Reason.REJECTED),
    }

    assert json.loads(as_json(value)) == {
        "failure": {
            "exception_type": "ValueError",
            "error": "\ud800",
            "traceback": "",
            "attempt": 1,
            "at": 5,
        },
        "at": "2030-01-01T00:00:00+00:00",
        "states": ["dead", "rejected"],
    }
    assert as_json("ç").isascii()
    assert as_json("ç", readable=True) == '"ç"'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_stays_on_one_line_of_a_terminal() -> None:
    out = Terminal()
    progress = Progress(OutputWrapper(out), "removed")
    for done in (500, 1000, 1500):
        progress(done)
    progress.close()

    assert out.getvalue() == "500 removed\r1,000 removed\r1,500 removed\r\n"


def test_progress_is_a_line_now_and_then_elsewhere() -> None:
    out = io.StringIO()
    progress = Progress(OutputWrapper(out), "removed")
    for done in range(500, 25_000, 500):
        progress(done)
    progress.close()

    assert out.getvalue() == "10,000 removed\n20,000 removed\n"

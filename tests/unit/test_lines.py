"""Log lines stay lines, whatever is in them."""

from __future__ import annotations

import ast
import io
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import django_redq
from django_redq.lines import LIMIT, get_logger, one_line

PACKAGE = Path(django_redq.__file__).parent
HOSTILE = (
    "a\n2026-12-01 00:00:00 ERROR forged: line\r\x1b[2J\x00\x85\u2028\u2029\ud800\udfff\u202e\ufeff"
)


class Unreadable:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.fixture
def written():
    """A logger of ours, and the bytes that a handler on a UTF-8 stream made of it."""
    raw = io.BytesIO()
    handler = logging.StreamHandler(io.TextIOWrapper(raw, "utf-8", write_through=True))
    logger = get_logger("django_redq.test_lines")
    logger.logger.addHandler(handler)
    logger.logger.propagate = False
    yield logger, raw
    logger.logger.removeHandler(handler)


@pytest.mark.parametrize(
    "value",
    [HOSTILE, HOSTILE * 100_000, Exception(HOSTILE), Unreadable(), [HOSTILE], None, b"\xff"],
)
def test_any_argument_is_one_short_printable_line(written, value, capsys):
    logger, raw = written
    logger.error("%s and %d of %r", value, 3, "name")
    line = raw.getvalue().decode()
    assert line.endswith(" and 3 of 'name'\n")
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    assert len(line) < LIMIT + 50
    assert capsys.readouterr().err == ""  # logging tells there what it could not format


def test_a_traceback_is_set_in_so_that_no_line_of_it_can_be_taken_for_one_of_ours(written):
    logger, raw = written
    try:
        raise ValueError(HOSTILE * 1000) from KeyError(HOSTILE)
    except ValueError:
        logger.exception("failed: %s", HOSTILE)
    first, *others = raw.getvalue().decode().rstrip("\n").split("\n")
    assert first.startswith("failed: a 2026")
    assert others
    assert all(line.startswith("    ") and line.isprintable() for line in others)
    assert len(raw.getvalue()) < 16 * 1024


def test_a_record_knows_where_it_was_made_and_what_was_raised(caplog):
    error = ValueError("a")
    try:
        raise error
    except ValueError:
        get_logger("django_redq.test_lines").exception("failed")
    [record] = caplog.records
    assert record.filename == Path(__file__).name
    assert record.funcName == test_a_record_knows_where_it_was_made_and_what_was_raised.__name__
    assert record.exc_info[1] is error
    get_logger("django_redq.test_lines").debug("%s", Unreadable())


@given(st.text())
def test_one_line_is_printable_and_keeps_what_is(text):
    shown = one_line(text, 20)
    assert shown.isprintable()
    assert len(shown) <= 21
    assert not text.isprintable() or len(text) > 20 or shown == text


def test_nobody_logs_past_it():
    """Each module's logger is made by get_logger; %r of a call is for text."""
    for path in PACKAGE.rglob("*.py"):
        if path.name in {"lines.py", "command.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("logging", "getLogger"), path

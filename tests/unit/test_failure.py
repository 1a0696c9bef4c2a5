"""Exceptions as kept: readable, bounded, and never the cause of another failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redq.codec import decode_failures, encode_failures
from django_redq.consumer.failure import (
    KEPT_ERROR,
    KEPT_FAILURES,
    appended,
    describe,
    in_words,
)

BOUND = 16 * 1024


def caught(error):
    """What is kept of the error once it was raised."""
    try:
        raise error
    except BaseException as raised:
        return describe(raised, 3)


def size(failure):
    """Bytes of all its text."""
    return sum(
        len(text.encode()) for text in (failure.exception_type, failure.error, failure.traceback)
    )


class Unreadable(Exception):
    """One that cannot be told."""

    def __str__(self):
        raise RuntimeError("not today")


class Rude(Exception):
    """One whose text ends the process where nobody takes care."""

    def __str__(self):
        raise SystemExit(3)


class NoText(Exception):
    """One whose text is none."""

    def __str__(self):
        return self.args


class Clever(str):
    """Text with methods of its own, as lazy and marked-up text has."""

    __slots__ = ()

    def __getitem__(self, key):
        raise RuntimeError("not today")

    encode = __iter__ = __getitem__


class WithClever(Exception):
    """One that is told in such text."""

    def __str__(self):
        return Clever("no luck")


class Masked(type):
    """A class that does not say where it comes from."""

    @property
    def __module__(cls):
        raise RuntimeError("not today")


def test_text_of_another_class_is_taken_as_text():
    assert caught(WithClever()).error == "no luck"


def test_a_class_that_hides_its_module_is_named_all_the_same():
    hidden = Masked("Hidden", (Exception,), {})
    assert describe(hidden(), 1).exception_type == "Hidden"


def test_type_message_and_traceback_are_kept():
    kept = caught(ValueError("no luck"))
    assert kept.exception_type == "ValueError"
    assert kept.error == "no luck"
    assert kept.traceback.startswith("Traceback (most recent call last)")
    assert kept.traceback.rstrip().endswith("ValueError: no luck")
    assert kept.attempt == 3
    assert kept.at > 1_600_000_000_000


def test_a_class_of_its_own_is_named_with_its_module():
    assert caught(Unreadable()).exception_type == f"{__name__}.Unreadable"


@pytest.mark.parametrize("error", [Unreadable(), Rude(), NoText()])
def test_a_message_that_cannot_be_read_is_said_to_be_so(error):
    kept = caught(error)
    assert "could not be read" in kept.error
    assert size(kept) <= BOUND


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "é" * 100_000,
        "😀" * 100_000,
        "\udcff" * 100_000,
        "a\udc80é" * 50_000,
        "line\n" * 50_000,
        "\x00" * 100_000,
    ],
    ids=["ascii", "two bytes", "four bytes", "surrogates", "mixed", "lines", "nul"],
)
def test_at_most_16_kib_are_kept(text):
    kept = caught(ValueError(text))
    assert size(kept) <= BOUND
    assert decode_failures(encode_failures([kept])) == (kept,)


def test_the_beginning_of_the_message_and_the_end_of_the_traceback_are_kept():
    kept = caught(ValueError("first " + "x" * 100_000 + " last"))
    assert kept.error.startswith("first ")
    assert kept.traceback.rstrip().endswith(" last")


@given(st.text(st.characters(exclude_categories=())))
def test_any_message_can_be_kept_and_read_back(text):
    kept = caught(ValueError(text))
    kept.error.encode()
    assert size(kept) <= BOUND
    assert decode_failures(encode_failures([kept])) == (kept,)


def test_a_deep_recursion_is_kept():
    def deeper():
        deeper()

    try:
        deeper()
    except RecursionError as error:
        kept = describe(error, 1)
    assert kept.exception_type == "RecursionError"
    assert size(kept) <= BOUND


def test_a_class_with_a_long_name_is_cut():
    kept = caught(type("E" * 5_000, (Exception,), {})())
    assert len(kept.exception_type) <= 256


def test_causes_and_groups_are_told():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ExceptionGroup("outer", [ValueError("one")]) from inner
    except ExceptionGroup as error:
        kept = describe(error, 1)
    assert "inner" in kept.traceback
    assert "ValueError: one" in kept.traceback


def test_a_failure_in_words_has_no_traceback_and_is_bounded():
    kept = in_words("some.Error", "w" * 100_000, 2)
    assert (kept.exception_type, kept.traceback, kept.attempt) == ("some.Error", "", 2)
    assert size(kept) <= BOUND


def test_of_earlier_failures_the_last_few_are_kept_cut_short():
    failures = []
    for attempt in range(1, 25):
        failures = appended(failures, describe(ValueError("m" * 2_000), attempt))
    assert [one.attempt for one in failures] == list(range(25 - KEPT_FAILURES, 25))
    assert all(len(one.error) == KEPT_ERROR and not one.traceback for one in failures[:-1])
    assert len(failures[-1].error) == 2_000

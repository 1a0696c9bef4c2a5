"""The text that a task's changing part is kept as, which the scripts read, too."""

from __future__ import annotations

import pytest

from django_redq.broker.delivery import Delivery
from django_redq.broker.state import NEW, State, decode_state


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (NEW, b"0 0 0 - "),
        (State(1, lost=True, allowed=3), b"1 1 3 - "),
        (
            State(12, False, 20, b"5-1", b'[{"error": "a b  c"}]'),
            b'12 0 20 5-1 [{"error": "a b  c"}]',
        ),
    ],
)
def test_a_state_is_kept_as_one_line_and_comes_back(state: State, text: bytes) -> None:
    assert state.encode() == text
    assert decode_state(text) == state


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        b"",
        b"rubbish",
        b"1 0 3 -",
        b"x 0 3 - []",
        b"1 0 -3 - []",
        b"1  0 3 - []",
        b"\xff" * 20,
    ],
)
def test_what_is_missing_or_garbled_counts_as_new(garbage: bytes | None) -> None:
    assert decode_state(garbage) == NEW


@pytest.mark.parametrize(
    ("state", "count", "attempt", "is_last"),
    [
        (NEW, 1, 1, False),
        (State(0, lost=True, allowed=3), 2, 2, False),
        (State(0, lost=True, allowed=3), 3, 3, True),
        (State(2, lost=True, allowed=3), 1, 3, True),
        (State(2, lost=False, allowed=3), 1, 3, False),
        (State(3, lost=True, allowed=3), 1, 4, True),
    ],
)
def test_an_attempt_is_what_was_spent_and_the_deliveries_of_the_entry(
    state: State, count: int, attempt: int, is_last: bool
) -> None:
    delivery = Delivery("email", 0, "t", "2-1", count, None, state)

    assert (delivery.attempt, delivery.is_last_chance) == (attempt, is_last)
    assert delivery.place == ("email", 0, "2-1")

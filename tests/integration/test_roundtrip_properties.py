"""What a handler gets is what was sent, wherever the task has been in between.

Each example goes through every place that a payload can lie in: delayed, delivered to a consumer that
vanishes, taken over, retried after a delay, dead, replayed, and run to its end.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import InvalidArgument, Reject
from django_redq.handlers import handler
from tests.engine import Engine
from tests.unit.test_codec import Box, Line, Order, Size, json_values, orders, same

through = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
RUNS = 3
"""The first one is lost with its worker, the second fails, the third is rejected."""


class Journey:
    """One queue, whose handler notes what it gets and does what it is told."""

    def __init__(self, engine: Engine, payload_type: Any | None) -> None:
        self.engine = engine
        self.seen: list[tuple[int, Any]] = []
        self.fate: Exception | None = None
        # Its attempts must be there for the second run to fail, and not to run alone.
        engine.configure(MAX_ATTEMPTS=9, RETRY={"POLICY": "fixed", "INTERVAL": 60})

        @handler("default", payload=payload_type)
        def work(task):
            self.seen.append((task.attempt, task.payload))
            if self.fate is not None:
                raise self.fate

    def take(self, payload: Any) -> tuple[list[Any], Any]:
        """What each run got, and what the dead letter showed."""
        engine, self.seen = self.engine, []
        task_id = engine.enqueue(payload, delay=3600)
        assert engine.promote() == 1
        engine.abandon()
        consumer = engine.consumer()
        self.fate = ValueError("again, please")
        assert consumer.recover_once() == 1
        assert engine.promote() == 1
        self.fate = Reject("no more")
        assert consumer.run_once() == 1
        dead = DeadLetterQueue("default")
        letter = dead.get(task_id)
        assert letter.task is not None
        assert dead.replay(task_id, delay=3600).replayed
        assert engine.promote() == 1
        self.fate = None
        assert consumer.run_once() == 1
        engine.assert_drained()
        assert [attempt for attempt, _ in self.seen] == [2, 3, 1]
        return [payload for _, payload in self.seen], letter.task.payload


@through
@given(json_values)
@example({"": [], "a": {}, "b": [1.0, -0.0, 1e300, 10**400, True, None, "\x00\u2028\U0001f600"]})
@example([])
@example(None)
def test_json_comes_back_equal_in_value_and_type(engine, payload):
    seen, in_the_letter = Journey(engine, None).take(payload)
    for back in [*seen, in_the_letter]:
        assert same(back, payload)


@through
@given(orders)
def test_an_annotated_payload_comes_back_equal(engine, order):
    seen, _ = Journey(engine, Order).take(order)
    assert seen == [order] * RUNS
    assert all(type(back) is Order for back in seen)


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (datetime(2026, 12, 1, 4, 6, tzinfo=UTC), "2026-12-01T04:06:00+00:00"),
        (date(2026, 12, 1), "2026-12-01"),
        (time(4, 6), "04:06:00"),
        (timedelta(hours=1, seconds=1), "PT3601S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Colour.RED, "red"),
        ((1, (2,)), [1, [2]]),
        (
            Line("a", Decimal(2), tags=("x",)),
            {"sku": "a", "price": "2", "box": None, "ring": None, "tags": ["x"]},
        ),
        (Box(3), {"type": "box", "boxWidth": 3}),
        (Size.SMALL, "s"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_annotation_the_tabled_form_arrives(engine, sent, arrives):
    seen, in_the_letter = Journey(engine, None).take(sent)
    assert [*seen, in_the_letter] == [arrives] * (RUNS + 1)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.uuids()
    | st.datetimes()
    | st.complex_numbers()
    | st.sampled_from([object(), int, {1}, Size]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner),
    max_leaves=10,
)


@through
@given(anything)
def test_whatever_is_sent_arrives_or_is_refused_at_the_call(engine, payload):
    journey = Journey(engine, None)
    try:
        seen, in_the_letter = journey.take(payload)
    except InvalidArgument as refusal:
        assert refusal.field.startswith("payload")  # noqa: PT017 - either way is right
        assert journey.seen == []
        assert engine.leftovers() == {}
    else:
        assert all(same(back, in_the_letter) for back in seen)

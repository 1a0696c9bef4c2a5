"""Whatever a payload is made of: the same after delay, retry, recovery, death and replay.

Each example is a whole life on a real server, of several payloads at once. At every station the
handler notes what it got.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from django.utils.dateparse import parse_duration
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_redq.dead_letters import DeadLetterQueue
from django_redq.errors import InvalidArgument, Reject
from django_redq.handlers import handler
from django_redq.producer import Producer
from django_redq.task import TaskSpec

thorough = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = (
    st.none() | st.booleans() | st.integers() | st.integers(-(10**60), 10**60) | numbers | text
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


class Life:
    """Takes payloads through everything that can happen to a task."""

    def __init__(self, engine, type_=None):
        self.engine = engine
        self.seen: dict[str, list[Any]] = {}
        engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 100}, MAX_ATTEMPTS=9)

        @handler("default", payload=type_)
        def work(task):
            self.seen[task.id].append(task.payload)
            stage = len(self.seen[task.id])
            if stage == 1:
                raise ValueError("to be retried")
            if stage == 2:
                raise Reject("to be dead")

    def live(self, payloads):
        """What the handler got of each payload, at each of its three runs."""
        engine, dead = self.engine, DeadLetterQueue("default")
        specs = [TaskSpec(payload=one, delay=100) for one in payloads]
        results = Producer("default").enqueue_many(specs, mode="immediate")
        self.seen = {one.task_id: [] for one in results}
        consumer = engine.consumer(concurrency=50, read_count=50)
        engine.promote()  # after the delay
        assert consumer.run_once() == len(payloads)
        engine.promote()  # after the retry
        engine.abandon()
        assert consumer.recover_once() == len(payloads)  # after the loss of a worker
        shown = [dead.get(one.task_id).task.payload for one in results]
        dead.replay_batch()
        assert consumer.run_once() == len(payloads)  # after death and replay
        consumer.stop()
        engine.assert_drained()
        lives = list(self.seen.values())
        assert [len(life) for life in lives] == [3] * len(payloads)
        return lives, shown


def same(left, right):
    """Equal, and of the same types all the way down; -0.0 is not 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return left == right


# --- JSON's own types --------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [None, Any], ids=["plain", "Any"])
def test_json_is_the_same_in_value_and_type(engine, type_):
    life = Life(engine, type_)

    @thorough
    @given(st.lists(json_values, min_size=1, max_size=6))
    def check(payloads):
        lives, shown = life.live(payloads)
        for payload, got, in_letter in zip(payloads, lives, shown, strict=True):
            assert all(same(one, payload) for one in (*got, in_letter))

    check()


# --- annotated ---------------------------------------------------------------------------------


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Line:
    sku: str
    price: Decimal
    amounts: dict[str, int] = field(default_factory=dict)


@dataclass
class Order:
    id: UUID
    placed: datetime
    day: date
    at: time
    within: timedelta
    size: Size
    lines: list[Line]
    pair: tuple[int, float]
    note: str | None = None


lines = st.builds(
    Line,
    sku=text,
    price=st.decimals(allow_nan=False, allow_infinity=False),
    amounts=st.dictionaries(text, st.integers(), max_size=3),
)
orders = st.builds(
    Order,
    id=st.uuids(),
    placed=st.datetimes(timezones=st.none() | st.just(UTC)),
    day=st.dates(),
    at=st.times(),
    within=st.timedeltas(),
    size=st.sampled_from(Size),
    lines=st.lists(lines, max_size=2),
    pair=st.tuples(st.integers(), numbers),
    note=st.none() | text,
)


def test_an_annotated_payload_is_the_same_in_value_and_type(engine):
    life = Life(engine, Order)

    @thorough
    @given(st.lists(orders, min_size=1, max_size=4))
    def check(payloads):
        lives, _ = life.live(payloads)
        for payload, got in zip(payloads, lives, strict=True):
            assert got == [payload] * 3
            assert {type(one) for one in got} == {Order}
            assert all(type(line.price) is Decimal for line in got[0].lines)

    check()


# --- not annotated -----------------------------------------------------------------------------

TABLE = {
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    Decimal: str,
    UUID: str,
    Size: lambda value: value.value,
}


class Refused(Exception):
    """The call should refuse it."""


def in_json(value):
    """The form in which a handler without an annotation gets it, as the docs table it."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Refused
        return {key: in_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_json(one) for one in value]
    if isinstance(value, Line):
        return {name: in_json(getattr(value, name)) for name in ("sku", "price", "amounts")}
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise Refused
    if isinstance(value, (bytes, set, frozenset, complex, range, type)):
        raise Refused
    return TABLE.get(type(value), lambda plain: plain)(value)


convertible = (
    st.datetimes(timezones=st.none() | st.just(UTC))
    | st.dates()
    | st.times()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
    | st.sampled_from(Size)
    | lines
)
refusable = (
    st.binary(max_size=3)
    | st.frozensets(st.integers(), max_size=2)
    | st.sampled_from([math.nan, math.inf, -math.inf, 1j, range(2), int, "\ud800", "a\udfff"])
    | st.dictionaries(st.integers(), st.none(), min_size=1, max_size=1)
)


def mixed(leaves):
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(text, inner, max_size=3)
        ),
        max_leaves=8,
    )


def test_anything_else_arrives_in_its_tabled_form(engine):
    life = Life(engine)

    @thorough
    @given(st.lists(mixed(scalars | convertible), min_size=1, max_size=6))
    def check(payloads):
        lives, shown = life.live(payloads)
        for payload, got, in_letter in zip(payloads, lives, shown, strict=True):
            assert all(same(one, in_json(payload)) for one in (*got, in_letter))

    check()


def test_a_timedelta_arrives_as_a_duration_that_django_reads(engine):
    life = Life(engine)

    @thorough
    @given(st.lists(st.timedeltas(min_value=timedelta(0)), min_size=1, max_size=6))
    def check(payloads):
        lives, _ = life.live(payloads)
        assert [[parse_duration(one) for one in got] for got in lives] == [
            [payload] * 3 for payload in payloads
        ]

    check()


def test_or_the_call_refuses_it_and_nothing_is_sent(engine):
    life = Life(engine)

    @thorough
    @given(st.lists(mixed(scalars | convertible | refusable), min_size=1, max_size=4))
    def check(payloads):
        try:
            wanted = [in_json(one) for one in payloads]
        except Refused:
            with pytest.raises(InvalidArgument) as raised:
                life.live(payloads)
            assert raised.value.field.startswith("tasks[")
            assert engine.leftovers() == {}
            return
        lives, _ = life.live(payloads)
        assert all(same(got[0], one) for got, one in zip(lives, wanted, strict=True))

    check()

"""Payloads and records: what comes back equal, what comes back as text, and what is refused."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.db import models
from django.http import QueryDict
from django.utils.functional import SimpleLazyObject, lazy
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_redq.codec import (
    Record,
    build_task,
    decode_failures,
    decode_payload,
    decode_record,
    encode_body,
    encode_failures,
    find_undecodable,
)
from django_redq.codec.payloads import to_json
from django_redq.codec.plain import MAX_DEPTH, to_plain
from django_redq.errors import InvalidArgument, InvalidPayload, PayloadTooLarge
from django_redq.outcome import Failure

ROOM = 10**6

text = st.text(st.characters(exclude_categories=("Cs",)))
whole = st.integers() | st.integers(-(10**400), 10**400)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | whole | numbers | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=30,
)


def stored(body: bytes) -> bytes:
    """The record as the enqueue script completes it."""
    return b'{"at":1700000000000,' + body


def there_and_back(payload: Any, type_: Any | None = None) -> Any:
    record = decode_record(stored(encode_body(payload=payload, limit=ROOM)))
    return decode_payload(record.payload, type_)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down; -0.0 is not 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def refused(payload: Any) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        encode_body(payload=payload, limit=ROOM)
    return caught.value.field, caught.value.reason


def nested(levels: int, innermost: Any = None) -> list[Any]:
    value: Any = [] if innermost is None else innermost
    for _ in range(levels - (innermost is None)):
        value = [value]
    return value


# --- JSON's own types ------------------------------------------------------------------------


@given(json_values)
def test_json_comes_back_equal_in_value_and_type(payload):
    assert same(there_and_back(payload), payload)


@given(json_values)
def test_the_walk_and_the_short_cut_write_the_same(payload):
    assert msgspec.json.encode(to_plain(payload, "payload")) == to_json(payload)


@given(json_values)
def test_pythons_own_json_reads_what_is_stored(payload):
    assert same(json.loads(to_json(payload)), payload)


@pytest.mark.parametrize(
    "payload",
    [
        [],
        {},
        "",
        {"": {}},
        0,
        1.0,
        -0.0,
        True,
        [1, True, 1.0],
        2**53 + 1,
        2**64,
        [1 - 10**4299, 10**4300 - 1],
        5e-324,
        1.7976931348623157e308,
        1e16,
        "\x00\u2028 \U0001f600",
    ],
)
def test_corner_of_json_comes_back_equal_in_value_and_type(payload):
    assert same(there_and_back(payload), payload)


def test_deepest_nesting_allowed_comes_back():
    payload = nested(MAX_DEPTH)

    assert there_and_back(payload) == payload


def test_many_containers_are_not_deep():
    payload = {"lines": [{"sku": [], "n": {"a": 1}} for _ in range(MAX_DEPTH)]}

    assert same(there_and_back(payload), payload)


# --- what counts as one of them --------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    CORNERS = (1, 2)
    SINCE = date(2024, 2, 29)


class Size(models.TextChoices):
    SMALL = "s", "small"


class Weight(models.IntegerChoices):
    LIGHT = 1, "light"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Text(str):
    __slots__ = ()

    def __str__(self):
        return "overridden"


class Whole(int):
    def __int__(self):
        return 0


class Number(float):
    def __float__(self):
        return 0.0


class Items(list):
    def __iter__(self):
        return iter(())


class Table(dict):
    def items(self):
        return ()


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is meant


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ((1, (2, ())), [1, [2, []]]),
        (Point(1, 2), [1, 2]),
        (mark_safe("<b>"), "<b>"),
        ({mark_safe("k"): mark_safe("v")}, {"k": "v"}),
        (Text("kept"), "kept"),
        (Whole(7), 7),
        (Number(0.5), 0.5),
        (Items([1]), [1]),
        (Items([Decimal(1)]), ["1"]),
        (Table(a=Table(b=1)), {"a": {"b": 1}}),
        (Table(a=Decimal(1)), {"a": "1"}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (defaultdict(int, a=1), {"a": 1}),
        (QueryDict("a=1&a=2"), {"a": ["1", "2"]}),
        (Colour.RED, "red"),
        (Colour.CORNERS, [1, 2]),
        (Colour.SINCE, "2024-02-29"),
        (Size.SMALL, "s"),
        ({Size.SMALL: Weight.LIGHT}, {"s": 1}),
        (Right.READ | Right.WRITE, 3),
        ({"a": gettext_lazy("Monday")}, {"a": "Monday"}),
        ({lazy(lambda: "key", str)(): 1}, {"key": 1}),
        (SimpleLazyObject(lambda: {"a": SimpleLazyObject(lambda: "b")}), {"a": "b"}),
        (SimpleLazyObject(lambda: Colour.RED), "red"),
    ],
)
def test_subclasses_enums_and_lazies_are_sent_as_what_they_stand_for(payload, expected):
    assert same(there_and_back(payload), expected)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (datetime(2024, 2, 29, 13, 5, 7, tzinfo=UTC), "2024-02-29T13:05:07+00:00"),
        (
            datetime(2024, 2, 29, 13, 5, 7, 120),  # noqa: DTZ001 - naive is meant
            "2024-02-29T13:05:07.000120",
        ),
        (datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")), "2024-07-01T00:00:00+02:00"),
        (datetime(1880, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), "1879-12-31T23:06:32+00:00"),
        (date(2024, 2, 29), "2024-02-29"),
        (time(13, 5), "13:05:00"),
        (time(13, 5, tzinfo=ZoneInfo("Europe/Berlin")), "13:05:00"),
        (timedelta(days=1, seconds=30), "P1DT30S"),
        (timedelta(microseconds=-1), "-PT0.000001S"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_other_types_are_plain_text_without_an_annotation(payload, expected):
    assert there_and_back(payload) == expected


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
        date(2024, 2, 29),
        time(1, 2),
        timedelta(days=-1, microseconds=3),
        Decimal("0.10"),
        UUID(int=7),
    ],
)
def test_subclass_that_overrides_everything_is_sent_as_its_base(value):
    kind = type(value)
    liar = type("Liar", (kind,), {"__str__": lambda _: "no", "isoformat": lambda _: "no"})
    if isinstance(value, datetime):
        copy = liar.fromtimestamp(value.timestamp(), UTC)
    elif isinstance(value, time):
        copy = liar(value.hour, value.minute)
    elif isinstance(value, date):
        copy = liar(value.year, value.month, value.day)
    elif isinstance(value, timedelta):
        copy = liar(value.days, value.seconds, value.microseconds)
    else:
        copy = liar(str(value))

    assert there_and_back([copy], list[kind]) == [value]


# --- typed payloads --------------------------------------------------------------------------


class Box(msgspec.Struct, tag="box", rename="camel", omit_defaults=True, frozen=True):
    box_width: int
    box_depth: int | msgspec.UnsetType = msgspec.UNSET


class Ring(msgspec.Struct, tag="ring", array_like=True, frozen=True):
    radius: float
    label: str = ""


@dataclass
class Line:
    sku: str
    price: Decimal
    box: Box | None = None
    ring: Ring | None = None
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class Order:
    id: UUID
    placed: datetime
    day: date
    at: time
    within: timedelta
    colour: Size
    lines: list[Line] = field(default_factory=list)
    note: str | None = None


class OrderDict(TypedDict):
    id: UUID
    total: Decimal


fixed_offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
zones = st.none() | st.just(UTC) | fixed_offsets
boxes = st.builds(Box, box_width=st.integers(), box_depth=st.integers() | st.just(msgspec.UNSET))
rings = st.builds(Ring, radius=numbers, label=text)
lines = st.builds(
    Line,
    sku=text,
    price=st.decimals(allow_nan=False, allow_infinity=False),
    box=st.none() | boxes,
    ring=st.none() | rings,
    tags=st.lists(text).map(tuple),
)
orders = st.builds(
    Order,
    id=st.uuids(),
    placed=st.datetimes(timezones=zones),
    day=st.dates(),
    at=st.times(timezones=zones),
    within=st.timedeltas(),
    colour=st.sampled_from(Size),
    lines=st.lists(lines, max_size=3),
    note=st.none() | text,
)


@given(orders)
def test_annotated_payload_comes_back_equal(order):
    assert there_and_back(order, Order) == order


def instant(value: datetime) -> timedelta:
    """Time since the year 1 in UTC; a difference, as it may lie before."""
    offset = value.utcoffset()
    assert offset is not None
    return value.replace(tzinfo=None) - datetime.min - offset  # noqa: DTZ901 - naive is meant


@given(st.datetimes(timezones=st.timezones()))
def test_any_datetime_is_the_same_instant_afterwards_or_is_refused(value):
    try:
        back = there_and_back(value, datetime)
    except InvalidArgument as error:
        assert "years 1 to 9999" in error.reason  # noqa: PT017 - either way is right
    else:
        assert instant(back) == instant(value)


@given(st.dictionaries(text, json_values, max_size=4))
def test_untyped_part_of_a_typed_payload_comes_back_equal_in_value_and_type(payload):
    assert same(there_and_back(payload, dict[str, Any]), payload)


@pytest.mark.parametrize("type_", [None, Any])
def test_without_a_type_the_payload_is_plain_json(type_):
    assert there_and_back(Line("a", Decimal(1)), type_) == {
        "sku": "a",
        "price": "1",
        "box": None,
        "ring": None,
        "tags": [],
    }


def test_typed_dict_and_literals_are_decoded():
    payload = {"id": UUID(int=1), "total": Decimal("2.50")}

    assert there_and_back(payload, OrderDict) == payload
    assert there_and_back("a", Literal["a", "b"]) == "a"


def test_dataclass_field_never_set_is_left_out():
    half = make_dataclass("Half", [("a", int), ("b", int, field(init=False))])(a=1)

    assert there_and_back(half) == {"a": 1}


def test_unset_field_of_a_struct_is_left_out():
    assert there_and_back(Box(1)) == {"type": "box", "boxWidth": 1}


# --- refusals --------------------------------------------------------------------------------

cyclic: dict[str, Any] = {"a": [1]}
cyclic["a"].append({"back": cyclic})

self_made = make_dataclass("Loop", ["me"])(me=None)
self_made.me = self_made


@pytest.mark.parametrize(
    ("payload", "field", "reason"),
    [
        ({"order": {"lines": [1, 2, 3, {"price": b"x"}]}}, "payload.order.lines[3].price", "bytes"),
        (bytearray(b"x"), "payload", "bytes"),
        ([memoryview(b"x")], "payload[0]", "bytes"),
        ({"a": {1, 2}}, "payload.a", "set"),
        ({"a": frozenset()}, "payload.a", "set"),
        ({"a": math.nan}, "payload.a", "nan"),
        ([math.inf], "payload[0]", "inf"),
        ({"a": [-math.inf]}, "payload.a[0]", "-inf"),
        ([Number("nan")], "payload[0]", "nan"),
        ([Decimal("NaN")], "payload[0]", "NaN"),
        ([Decimal("sNaN")], "payload[0]", "sNaN"),
        ([Decimal("-Infinity")], "payload[0]", "-Infinity"),
        ([10**4300], "payload[0]", "4,300 characters"),
        ({"a": {10**4300: 1}}, "payload.a", "key an int of type int"),
        ({"n": [-(10**4299)]}, "payload.n[0]", "4,300 characters"),
        ("a\ud800", "payload", r"'\ud800' at index 1"),
        ({"a": {"b": "\ud83d\ude00"}}, "payload.a.b", "lone surrogate"),
        ({"a": {"\udfff": 1}}, "payload.a", "lone surrogate"),
        ({"a": {1: 2}}, "payload.a", "key 1 of type int"),
        ({True: 2}, "payload", "key True of type bool"),
        ({None: 2}, "payload", "key None"),
        ({"a": {(1, 2): 2}}, "payload.a", "key (1, 2) of type tuple"),
        ({Colour.RED: 2}, "payload", "Colour"),
        ({"a": {"x": 1, b"y": 2}}, "payload.a", "key b'y'"),
        ({"unit price": {"per-item": {1}}}, "payload['unit price']['per-item']", "set"),
        ({"a" * 50: {1}}, "payload." + "a" * 39 + "…", "set"),
        (cyclic, "payload.a[1].back", "cycle: the same dict holds it, 3 level(s) up"),
        (self_made, "payload.me", "cycle"),
        ({"a": User(pk=1)}, "payload.a", "send its pk"),
        ({"user": SimpleLazyObject(lambda: User(pk=1))}, "payload.user", "send its pk"),
        ({"users": User.objects.all()}, "payload.users", "values_list('pk'"),
        ({"users": User.objects}, "payload.users", "queryset"),
        ({"user": AnonymousUser()}, "payload.user", "AnonymousUser"),
        ([iter([])], "payload[0]", "list(…)"),
        (range(3), "payload", "list(…)"),
        (deque(), "payload", "list(…)"),
        ({}.keys(), "payload", "list(…)"),
        (UserDict(a=1), "payload", "dict(…)"),
        (object(), "payload", "of type object"),
        ({"f": len}, "payload.f", "builtin_function_or_method"),
        ({"f": date}, "payload.f", "of type type"),
        ({"f": 1j}, "payload.f", "complex"),
        ({"f": lazy(lambda: 3, int)()}, "payload.f", "lazy"),
        (time(1, tzinfo=timezone(timedelta(seconds=61))), "payload", "whole minutes"),
        (datetime.max.replace(tzinfo=timezone(timedelta(seconds=-61))), "payload", "years 1 to 99"),
        (Line("a", Decimal(1), ring=Ring(math.nan)), "payload.ring[1]", "nan"),
        (Line("a", Decimal(1), Box({1})), "payload.box.boxWidth", "set"),
        (enum.Enum("Odd", {"A": {1}}).A, "payload", "set"),
        (msgspec.Raw(b"1"), "payload", "msgspec.Raw"),
    ],
)
def test_refusal_names_the_path_and_the_reason(payload, field, reason):
    where, why = refused(payload)

    assert where == field
    assert reason in why


def test_coroutine_that_nobody_awaited_is_told():
    async def answer() -> int:
        return 1

    pending = answer()
    try:
        assert refused([pending]) == ("payload[0]", "has not been awaited")
    finally:
        pending.close()


@pytest.mark.parametrize("innermost", [None, b"x", {"k": 1}], ids=["plain", "bytes", "dict"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_too_deep_is_told_and_is_no_recursion_error(levels, innermost):
    where, why = refused(nested(levels, innermost))

    assert where.startswith("payload[0][0]")
    assert len(where) < 200
    if (levels, innermost) != (MAX_DEPTH + 1, b"x"):
        assert f"deeper than {MAX_DEPTH} levels" in why


def test_deep_dicts_are_refused_where_they_become_too_deep():
    value: Any = 1
    for _ in range(MAX_DEPTH + 1):
        value = {"a": value}

    assert "deeper" in refused(value)[1]


def test_too_deep_beside_many_others_is_found():
    assert "deeper" in refused([[{}] * MAX_DEPTH, nested(MAX_DEPTH)])[1]


def test_shared_value_is_no_cycle():
    shared = {"a": [1, Decimal(1)]}

    assert there_and_back([shared, shared]) == [{"a": [1, "1"]}] * 2


def test_key_that_is_there_twice_is_refused():
    class Other(str):
        __slots__ = ()

        def __eq__(self, other):
            return self is other

        def __hash__(self):
            return 1

    assert "twice" in refused({Other("a"): 1, "a": 2})[1]


def test_equality_of_a_foreign_class_cannot_smuggle_anything_in():
    class Yes(msgspec.Struct, eq=False):
        a: float

        def __eq__(self, other):
            raise RuntimeError("whatever")

        __hash__ = None

    assert refused(Yes(math.nan)) == ("payload.a", "is nan, which JSON has no number for")


def test_stricter_limit_of_digits_is_told(monkeypatch):
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert "cannot be written as JSON here" in refused(10**1000)[1]
    finally:
        sys.set_int_max_str_digits(before)


# --- the record ------------------------------------------------------------------------------


def test_record_without_extras_holds_the_payload_alone():
    assert encode_body(payload={"a": 1}, limit=ROOM) == b'"payload":{"a":1}}'


def test_record_carries_what_was_given():
    body = encode_body(
        payload=[1],
        kind="welcome",
        max_attempts=7,
        idempotency_key="ordér",
        metadata={"trace": "abc", "": ""},
        nonce="n0",
        limit=ROOM,
    )

    assert decode_record(b'{"at":5,"due":9,' + body) == Record(
        at=5,
        due=9,
        kind="welcome",
        max=7,
        key="ordér",
        meta={"trace": "abc", "": ""},
        payload=b"[1]",
    )


def test_nonce_is_written():
    assert b'"nonce":"n0"' in encode_body(payload=1, nonce="n0", limit=ROOM)


def test_limit_counts_the_bytes_that_are_sent():
    body = encode_body(payload="é", metadata={"k": "v"}, limit=ROOM)

    assert encode_body(payload="é", metadata={"k": "v"}, limit=len(body)) == body
    with pytest.raises(PayloadTooLarge) as caught:
        encode_body(payload="é", metadata={"k": "v"}, limit=len(body) - 1)
    assert (caught.value.size, caught.value.limit) == (len(body), len(body) - 1)


@pytest.mark.parametrize(
    ("argument", "value", "field", "reason"),
    [
        ("idempotency_key", 3, "idempotency_key", "must be text"),
        ("idempotency_key", None, "idempotency_key", "must be text"),
        ("idempotency_key", "\ud800", "idempotency_key", "surrogate"),
        ("metadata", [("a", "b")], "metadata", "dict of text to text"),
        ("metadata", "a", "metadata", "dict of text to text"),
        ("metadata", {"a": 1}, "metadata.a", "must be text"),
        ("metadata", {"a b": None}, "metadata['a b']", "must be text"),
        ("metadata", {"a": "\ud800"}, "metadata.a", "surrogate"),
        ("metadata", {1: "a"}, "metadata: the key 1", "must be text"),
        ("metadata", {"\ud800": "a"}, r"metadata: the key '\ud800'", "surrogate"),
    ],
)
def test_extras_that_are_no_text_are_refused(argument, value, field, reason):
    with pytest.raises(InvalidArgument) as caught:
        encode_body(payload=1, limit=ROOM, **{argument: value})

    assert caught.value.field == field
    assert reason in caught.value.reason


def test_metadata_may_be_any_mapping_and_is_copied_as_plain_text():
    class Trace(Mapping):
        def __getitem__(self, key):
            return mark_safe("v")

        def __iter__(self):
            return iter([mark_safe("k")])

        def __len__(self):
            return 1

    assert b'"meta":{"k":"v"}' in encode_body(payload=1, metadata=Trace(), limit=ROOM)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"at":1}',
        b'{"payload":1}',
        b'{"at":1,"payload":tru}',
        b'{"at":"1","payload":1}',
        b'{"at":-1,"payload":1}',
        b'{"at":99999999999999999999,"payload":1}',
        b'{"at":1,"due":253402300800000,"payload":1}',
        b'{"at":1,"max":0,"payload":1}',
        b'{"at":1,"kind":null,"payload":1}',
        b'{"at":1,"meta":{"a":1},"payload":1}',
        b'{"at":1,"payload":1',
        b'{"at":1,"payload":1} x',
        b'{"at":1,"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_garbage_is_no_record(raw):
    with pytest.raises(InvalidPayload, match="what Redis holds is no task"):
        decode_record(raw)


def test_record_of_a_later_version_is_read():
    assert decode_record(b'{"at":1,"priority":9,"payload":null}').payload == b"null"


def test_task_is_built_from_its_record():
    record = decode_record(stored(encode_body(payload=[1], kind="k", limit=ROOM)))
    failure = Failure("E", "e", "", 1, 5)

    task = build_task(
        record,
        task_id="t",
        queue="q",
        payload=[1],
        attempt=2,
        max_attempts=3,
        due=1_700_000_060_250,
        last_error=failure,
    )

    assert task.enqueued_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert task.run_at == datetime(2023, 11, 14, 22, 14, 20, 250_000, tzinfo=UTC)
    assert (task.kind, task.attempt, task.max_attempts) == ("k", 2, 3)
    assert task.last_error is failure


@pytest.mark.parametrize(("due", "expected"), [(b"", 1), (b'"due":2000,', 2)])
def test_task_is_due_when_its_record_says(due, expected):
    record = decode_record(b'{"at":1000,' + due + b'"max":9,"payload":1}')

    task = build_task(record, task_id="t", queue="q", payload=1, attempt=1, max_attempts=3)

    assert task.run_at.timestamp() == expected
    assert task.max_attempts == 9


# --- what does not decode --------------------------------------------------------------------


class Guarded(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n == 1:
            raise ValueError("n must not be 1")
        if self.n == 2:
            raise ValidationError(["not two", "never"])


@pytest.mark.parametrize(
    ("raw", "type_", "words"),
    [
        (b"[1", None, "no JSON that can be read"),
        (b"", None, "no JSON that can be read"),
        (b"NaN", None, "no JSON that can be read"),
        (b'"\xff"', None, "no JSON that can be read"),
        (b'"\\ud800"', None, "no JSON that can be read"),
        (b"[" * 100_000, None, "no JSON that can be read"),
        (b"1" * 5000, None, "out of range"),
        (b'{"sku":1,"price":"1"}', Line, "does not fit Line: Expected `str`, got `int`"),
        (b'{"sku":"a","price":"1","tags":["a",1]}', Line, "at `payload.tags[1]`"),
        (b'{"sku":"a"}', Line, "missing required field `price`"),
        (b'"blue"', Size, "does not fit Size"),
        (b"-1", Annotated[int, msgspec.Meta(ge=0)], "Expected `int` >= 0"),
        (b'{"n":1}', Guarded, "n must not be 1"),
        (b'{"n":2}', Guarded, "does not fit Guarded: not two; never"),
        (b"{", Line, "no JSON that can be read"),
    ],
)
def test_what_does_not_decode_is_told_in_words(raw, type_, words):
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(raw, type_)

    assert words in str(caught.value)


class Plain:
    pass


@dataclass
class Tree:
    value: int
    children: list[Tree]


@dataclass
class Hidden:
    deep: dict[str, list[Plain | None]]


@dataclass
class Torn:
    of: Missing  # noqa: F821 - that is the point


@pytest.mark.parametrize("type_", [None, Any, int, object, Order, OrderDict, Tree, list[Tree]])
def test_type_that_can_be_decoded_has_no_fault(type_):
    assert find_undecodable(type_) is None


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (Plain, "Plain is no type"),
        (Hidden, "Plain is no type"),
        (User, "User is no type"),
        (list[Hidden] | None, "Plain is no type"),
        (Colour, "Colour"),
        (Torn, "Missing"),
    ],
)
def test_type_that_never_decodes_is_told(type_, words):
    assert words in find_undecodable(type_)


# --- failures --------------------------------------------------------------------------------

failures = st.builds(
    Failure,
    exception_type=text,
    error=text,
    traceback=text,
    attempt=st.integers(1, 10**6),
    at=st.integers(0, 2**53),
)


@given(st.lists(failures, max_size=4))
def test_failures_come_back_equal(kept):
    assert decode_failures(encode_failures(kept)) == tuple(kept)


def test_failure_that_quotes_a_lone_surrogate_is_kept():
    kept = [Failure("OSError", "no file caf\udce9", "tb \udce9", 1, 5)]

    assert decode_failures(encode_failures(kept)) == (
        Failure("OSError", "no file caf?", "tb ?", 1, 5),
    )


@pytest.mark.parametrize(
    "raw", [b"", b"x", b"{}", b"[1]", b'[{"error":"e"}]', b"\xff", b"[" * 10**5]
)
def test_failures_that_are_garbage_are_none(raw):
    assert decode_failures(raw) == ()

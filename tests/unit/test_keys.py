"""Names in Redis are a promise: processes of different versions must agree on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redq.broker.keys import (
    SUSPECTS_CONSUMER,
    ShardKeys,
    due_channel,
    shard_keys,
    shard_of,
    wake_channel,
)
from django_redq.task import is_name


@pytest.mark.parametrize(
    ("task_id", "shards", "shard"),
    [
        # The check value of CRC-32 is 0xCBF43926, as every table of it says.
        ("123456789", 2**32, 0xCBF43926),
        ("123456789", 1, 0),
        ("123456789", 4, 2),
        ("123456789", 16, 6),
        ("123456789", 1024, 294),
        ("a", 16, 3),
        ("é\U0001f600", 16, 6),
    ],
)
def test_shard_of_is_crc_32_of_the_utf_8_text(task_id: str, shards: int, shard: int) -> None:
    assert shard_of(task_id, shards) == shard


def test_every_key_of_a_shard_has_its_name_and_one_hash_tag() -> None:
    keys = shard_keys("redq", "email", 3)

    assert {name: getattr(keys, name) for name in keys.__slots__} == {
        "delay": "redq:{email:3}:delay",
        "payload": "redq:{email:3}:payload",
        "state": "redq:{email:3}:state",
        "entry": "redq:{email:3}:entry",
        "stream": "redq:{email:3}:stream",
        "dlq": "redq:{email:3}:dlq",
        "lease": "redq:{email:3}:lease",
        "meta": "redq:{email:3}:meta",
        "done": "redq:{email:3}:done",
        "kept": "redq:{email:3}:kept",
        "meter": "redq:{email:3}:meter",
        "groups": "redq:{email:3}:groups",
        "bulk": "redq:{email:3}:bulk",
        "consumers": "redq:{email:3}:consumers",
    }


def test_channels_have_their_names() -> None:
    assert wake_channel("redq", "email") == "redq:wake:email"
    assert due_channel("redq", "email") == "redq:wake:email:due"


def test_no_consumer_can_be_called_as_the_suspects_consumer_is() -> None:
    assert not is_name(SUSPECTS_CONSUMER)


NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,7}\Z").filter(is_name)
Place = tuple[str, str, int]
PLACES = st.tuples(NAMES, NAMES, st.integers(0, 1023))


def every_name(namespace: str, queue: str, shard: int) -> set[str]:
    keys = shard_keys(namespace, queue, shard)
    channels = {wake_channel(namespace, queue), due_channel(namespace, queue)}
    return {getattr(keys, name) for name in keys.__slots__} | channels


@given(PLACES, PLACES)
def test_no_two_places_share_a_key_or_a_channel(one: Place, other: Place) -> None:
    names = every_name(*one)
    assert len(names) == len(ShardKeys.__slots__) + 2
    if one[:2] != other[:2]:
        assert names.isdisjoint(every_name(*other))
    elif one != other:
        assert len(names & every_name(*other)) == 2  # the channels
    for name in ShardKeys.__slots__:
        key = getattr(shard_keys(*one), name)
        # What Redis takes for the hash tag: from the first brace to the next closing one.
        assert key[key.index("{") + 1 : key.index("}")] == f"{one[1]}:{one[2]}"
        # A rule of an ACL for the namespace covers it, and no other namespace's.
        assert key.startswith(f"{one[0]}:")


@pytest.mark.parametrize(
    "name", ["a{b}", "a:b", "a*", "a?", "[ab]", "..", "/a", "a b", "a\n", "", "é", "a" * 129, "{a"]
)
def test_a_name_that_would_reach_beyond_is_none(name: str) -> None:
    assert not is_name(name)

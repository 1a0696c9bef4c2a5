"""Names in Redis are a promise: processes of different versions must agree on them."""

from __future__ import annotations

import pytest

from django_redq.broker.keys import (
    SUSPECTS_CONSUMER,
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

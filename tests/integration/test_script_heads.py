"""lua/heads.lua: when the first task of each shard is due."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Heads
from tests.harness import Redq
from tests.integration.worlds import NOW, Here, Scheduled

pytestmark = pytest.mark.every_server


def test_heads_tells_the_first_due_time_of_each_shard_in_order(here: Here, redq: Redq) -> None:
    here.seed(Scheduled("b", 20), Scheduled("a", 10.5))
    redq.client.zadd(redq.key("email", 2, "delay"), {"c": 253_402_300_799_999})
    shards = [calls.Shard(redq.namespace, "email", number, "default") for number in (2, 0, 1)]
    before = here.world()

    assert here.run(calls.heads(shards, str(NOW))) == Heads(
        [253_402_300_799_999.0, 10.5, None], NOW
    )

    assert here.changes(before) == []
    assert here.heard() == []


def test_heads_tells_redis_own_time(here: Here) -> None:
    earliest = here.clock()

    assert earliest <= here.run(calls.heads([here.shard], "")).now <= here.clock()

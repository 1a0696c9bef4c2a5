"""What a wire tells and remembers; nothing is sent."""

from __future__ import annotations

import pytest
import redis

from django_redq.broker import cluster
from django_redq.broker.cluster import ClusterWire
from django_redq.broker.wire import Watchers


def test_one_who_fails_when_told_keeps_nobody_else_from_hearing(caplog):
    told, watchers = [], Watchers()

    def fail():
        raise KeyError("of ours")

    watchers.watch(fail)
    end = watchers.watch(lambda: told.append("second"))
    watchers.tell()
    end()
    watchers.tell()
    assert told == ["second"]
    assert caplog.text.count("KeyError: 'of ours'") == 2


def test_a_start_that_failed_is_tried_again_after_a_while_only(monkeypatch):
    tries = []

    def make():
        tries.append("try")
        raise redis.exceptions.RedisClusterException("Redis Cluster cannot be connected")

    wire = ClusterWire(make, redis.Redis)
    for _ in range(3):
        with pytest.raises((redis.ConnectionError, redis.exceptions.RedisClusterException)):
            wire.exchange([("GET", "key")])
    assert len(tries) == 1
    monkeypatch.setattr(cluster, "FAILED_START", 0.0)
    with pytest.raises(redis.exceptions.RedisClusterException):
        wire.exchange([("GET", "key")])
    assert len(tries) == 2

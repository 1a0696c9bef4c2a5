"""The cache backend of the alias that leads to the queues."""

from __future__ import annotations

import asyncio

import pytest
from django.core.cache import caches

from django_redq.errors import ClearRefused
from tests.harness import Redq


def test_clear_is_refused_and_nothing_is_gone(redq: Redq) -> None:
    redq.client.set(redq.key("email", 0, "lease"), "me")
    with pytest.raises(ClearRefused, match="would delete every task"):
        caches["redq"].clear()
    with pytest.raises(ClearRefused):
        asyncio.run(caches["redq"].aclear())
    assert redq.world() == {"{email:0}:lease": b"me"}


def test_it_is_refused_before_redis_is_asked() -> None:
    # Without the fixture the settings lead to a port where nobody listens.
    with pytest.raises(ClearRefused):
        caches["redq"].clear()


def test_else_it_is_the_cache_of_django_redis(redq: Redq) -> None:
    cache = caches["redq"]
    cache.set(redq.namespace, {"a": 1}, timeout=60)
    assert cache.get(redq.namespace) == {"a": 1}
    assert cache.delete(redq.namespace)
    assert cache.get(redq.namespace) is None

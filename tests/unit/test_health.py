"""What is said of a server by what it says of itself."""

from __future__ import annotations

import pytest

from django_redq.broker.health import _evicting, _old


@pytest.mark.parametrize(
    ("server", "old"),
    [
        ({"redis_version": "6.2.0"}, False),
        ({"redis_version": "7.0.15"}, False),
        ({"redis_version": "10.0.0"}, False),
        ({"redis_version": "6.0.16"}, True),
        ({"redis_version": "5.0.7"}, True),
        # Valkey calls itself Redis 7.2.4 for the sake of old clients.
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, False),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.0"}, True),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, False),
        ({"redis_version": "unstable"}, False),
        ({"redis_version": 7.2}, False),
        ({}, False),
    ],
)
def test_an_old_server_is_told(server: dict[str, object], old: bool) -> None:
    assert bool(_old(server)) is old


def test_what_it_is_and_has_to_be_are_named() -> None:
    [told] = _old({"redis_version": "5.0.7"})
    assert told == "the server is Redis 5.0.7; it has to be Redis 6.2 or Valkey 7.2, or later"


def test_eviction_is_told_unless_the_server_says_nothing() -> None:
    assert _evicting({}) == []
    assert _evicting({"maxmemory_policy": "noeviction"}) == []
    [told] = _evicting({"maxmemory_policy": "volatile-ttl"})
    assert "volatile-ttl" in told

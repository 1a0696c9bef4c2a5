"""lua/lease_release.lua: a lease is given up, so that a standby takes over at once."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from tests.integration.worlds import Here

pytestmark = pytest.mark.every_server


def test_lease_release_frees_the_shard_and_tells_the_others(here: Here) -> None:
    here.seed()
    before = here.world()

    assert here.run(calls.release_lease(here.shard, "someone-3")) is True

    assert here.changes(before) == ["- lease someone-3"]
    assert here.heard() == [("due", "0")]


def test_lease_release_leaves_another_instances_lease(here: Here) -> None:
    here.seed()
    before = here.world()

    assert here.run(calls.release_lease(here.shard, "me-1")) is False

    assert here.changes(before) == []
    assert here.heard() == []


def test_lease_release_sent_twice_does_not_hit_the_next_owner(here: Here) -> None:
    here.seed()
    here.run(calls.release_lease(here.shard, "someone-3"))
    here.client.set(here.keys.lease, "standby-4", px=10_000)
    before = here.world()

    assert here.run(calls.release_lease(here.shard, "someone-3")) is False

    assert here.changes(before) == []


def test_lease_release_of_a_lapsed_lease_does_nothing(here: Here) -> None:
    assert here.run(calls.release_lease(here.shard, "someone-3")) is False

    assert here.world() == set()
    assert here.heard() == []

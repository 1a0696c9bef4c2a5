"""lua/promote.lua: who holds a shard's lease moves what is due to the stream."""

from __future__ import annotations

import pytest
import redis

from django_redq.broker import calls
from django_redq.broker.calls import Call, Promotion
from tests.integration.worlds import FAR, NEXT, NOW, Here, Scheduled

pytestmark = pytest.mark.every_server

INSTANCE = "host-1"
TTL = 10_000


def promote(
    here: Here, *, instance: str = INSTANCE, limit: int = 100, now: str = str(NOW)
) -> Call[Promotion]:
    return calls.promote(here.shard, instance, TTL, limit, now)


def held(moved: int, next_due: float | None = FAR, now: float = NOW) -> Promotion:
    return Promotion(True, moved, None, next_due, now)


def lease(here: Here, owner: str | None = INSTANCE, px: int | None = TTL) -> None:
    here.client.delete(here.keys.lease)
    if owner is not None:
        here.client.set(here.keys.lease, owner, px=px)


def test_promote_moves_what_is_due_in_its_order(here: Here) -> None:
    here.seed(Scheduled("b", NOW), Scheduled("a", NOW - 1), Scheduled("c", NOW + 1))
    lease(here)
    before = here.world()

    assert here.run(promote(here)) == held(2, next_due=NOW + 1)

    assert here.world() == before - {f"delay a {NOW - 1}", f"delay b {NOW}"} | {
        f"stream {NEXT[0]} id=a",
        f"stream {NEXT[1]} id=b",
        f"entry a {NEXT[0]}",
        f"entry b {NEXT[1]}",
    }
    assert here.heard() == [("wake", "0")]


def test_promote_tells_nobody_where_nothing_is_due(here: Here) -> None:
    here.seed()
    lease(here)
    before = here.world()

    assert here.run(promote(here)) == held(0)

    assert here.changes(before) == []
    assert here.heard() == []


def test_promote_of_an_empty_shard_knows_no_next_one(here: Here) -> None:
    assert here.run(promote(here)) == held(0, next_due=None)

    assert here.world() == {f"lease {INSTANCE}"}


def test_promote_moves_no_more_than_its_limit(here: Here) -> None:
    here.seed(Scheduled("a", 1), Scheduled("b", 2), Scheduled("c", 3))
    lease(here)

    assert here.run(promote(here, limit=2)) == held(2, next_due=3)
    assert here.run(promote(here, limit=2)) == held(1)

    assert [fields[b"id"] for _, fields in here.client.xrange(here.keys.stream, "4-0")] == [
        b"a",
        b"b",
        b"c",
    ]


def test_promote_moves_as_many_as_a_setting_may_ask_for(here: Here) -> None:
    here.client.zadd(here.keys.delay, {f"t{number}": 1 for number in range(5001)})

    assert here.run(promote(here, limit=5000)) == held(5000, next_due=1)

    assert here.client.xlen(here.keys.stream) == 5000


def test_promote_sent_twice_moves_the_rest(here: Here) -> None:
    here.seed(Scheduled("a", NOW))
    lease(here)
    here.run(promote(here))
    before = here.world()
    assert here.heard() == [("wake", "0")]

    assert here.run(promote(here)) == held(0)

    assert here.changes(before) == []
    assert here.heard() == []


def test_promote_goes_by_redis_own_clock(here: Here) -> None:
    earliest = here.clock()
    here.seed(Scheduled("past", earliest), Scheduled("future", earliest + 3_600_000))
    lease(here)

    promotion = here.run(promote(here, now=""))

    assert (promotion.moved, promotion.next_due) == (1, earliest + 3_600_000)
    assert earliest <= promotion.now <= here.clock()


def test_promote_takes_a_free_lease(here: Here) -> None:
    here.seed(Scheduled("a", NOW))
    lease(here, owner=None)

    assert here.run(promote(here)) == held(1)

    assert here.client.get(here.keys.lease).decode() == INSTANCE
    assert 0 < here.client.pttl(here.keys.lease) <= TTL


def test_promote_changes_nothing_while_another_instance_holds_the_lease(here: Here) -> None:
    here.seed(Scheduled("a", NOW))
    before = here.world()

    promotion = here.run(promote(here))

    assert (promotion.held, promotion.moved, promotion.next_due) == (False, 0, None)
    assert promotion.lapses_in is not None
    assert 0 < promotion.lapses_in <= 600_000
    assert here.changes(before) == []
    assert here.heard() == []


def test_promote_refuses_a_lapsed_lease(here: Here) -> None:
    here.seed(Scheduled("a", NOW))
    lease(here)
    here.run(promote(here, limit=0))
    here.client.delete(here.keys.lease)
    here.run(promote(here, instance="standby-2", limit=0))
    before = here.world()

    assert here.run(promote(here)).held is False

    assert here.changes(before) == []


def test_promote_renews_its_lease_once_a_third_of_it_is_gone(here: Here) -> None:
    lease(here, px=TTL * 2 // 3 - 1)

    here.run(promote(here))

    assert here.client.pttl(here.keys.lease) > TTL * 2 // 3


def test_promote_leaves_a_young_lease_as_it_is(here: Here) -> None:
    lease(here, px=2 * TTL)

    here.run(promote(here))

    assert here.client.pttl(here.keys.lease) > TTL


@pytest.mark.parametrize("owner", [INSTANCE, "somebody"])
def test_promote_ends_a_lease_without_an_end(here: Here, owner: str) -> None:
    lease(here, owner, px=None)

    assert here.run(promote(here)).held is True

    assert here.client.get(here.keys.lease).decode() == INSTANCE
    assert 0 < here.client.pttl(here.keys.lease) <= TTL


def test_promote_moves_a_task_without_a_payload_for_the_fetch_to_find(here: Here) -> None:
    here.client.zadd(here.keys.delay, {"t": 1})

    assert here.run(promote(here)).moved == 1

    entry_id = here.client.hget(here.keys.entry, "t").decode()
    assert here.world() == {
        f"lease {INSTANCE}",
        f"entry t {entry_id}",
        f"stream {entry_id} id=t",
    }


def test_promote_bears_scores_that_are_no_times(here: Here) -> None:
    here.client.zadd(here.keys.delay, {"never": "inf", "long ago": "-inf", "half": 5.5})

    assert here.run(promote(here)) == held(2, next_due=float("inf"))

    assert here.client.zrange(here.keys.delay, 0, -1) == [b"never"]


def test_promote_after_everything_was_wiped_takes_the_lease_anew(here: Here) -> None:
    here.seed(Scheduled("a", NOW))
    lease(here)
    here.wipe()

    assert here.run(promote(here)) == held(0, next_due=None)

    assert here.world() == {f"lease {INSTANCE}"}


@pytest.mark.parametrize("name", ["delay", "stream"])
def test_promote_keeps_what_it_cannot_move(here: Here, name: str) -> None:
    here.seed(Scheduled("a", NOW))
    lease(here)
    here.client.set(here.redq.key("email", 0, name), "somebody's own")
    before = here.world()

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        here.run(promote(here))

    assert here.changes(before) == []

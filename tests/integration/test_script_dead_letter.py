"""lua/dead_letter.lua: a task that gets no further attempt is kept among the dead letters."""

from __future__ import annotations

import pytest

from django_redq.broker import calls, operator_calls
from django_redq.broker.calls import Call, Letter, Settled
from django_redq.broker.state import State
from tests.integration.worlds import (
    GROUP,
    ME,
    NEXT_DEAD,
    NOW,
    OTHER,
    Blow,
    Here,
    Ready,
    Running,
    not_mine,
    record,
    tampered,
)

pytestmark = pytest.mark.every_server

LETTER = Letter("exhausted", "welcome", "no such host", "OSError", "line 1\nline 2", 3, "order-7")
FAILED = State(3, lost=False, allowed=3, came_from=b"2-1", failures=b"[1]")
OF_ENTRY = {"entry t 2-1", "pending 2-1 me-1 1", "stream 2-1 id=t"}


def bury(
    here: Here, owner: str = ME, *, now: str = str(NOW), **more: int
) -> Call[tuple[Settled, str]]:
    mine = here.mine("t", "2-1")
    return calls.dead_letter(here.shard, owner, mine, FAILED, LETTER, now, **more)


def letter(reason: str = "exhausted", consumer: str = ME) -> str:
    return (
        f"dlq {NEXT_DEAD[0]} id=t reason={reason} kind=welcome error=no such host type=OSError "
        f"traceback=line 1\nline 2 attempts=3 at={NOW} entry=2-1 consumer={consumer} "
        "key=order-7 grouped=1"
    )


COUNTED = f"groups welcome OSError 1 {NOW} {NOW}"


def test_dead_letter_keeps_the_task_and_tells_why_it_died(here: Here) -> None:
    here.seed(Running("t", "2-1", state="2 0 3 1-9 []"))
    before = here.world()

    assert here.run(bury(here)) == (Settled.DONE, NEXT_DEAD[0])

    assert here.world() == before - OF_ENTRY - {"state t 2 0 3 1-9 []"} | {
        letter(),
        f"entry t dlq {NEXT_DEAD[0]}",
        "state t 3 0 3 2-1 [1]",
        "meta dead 1",
        COUNTED,
    }
    assert here.heard() == []


def test_dead_letter_takes_the_time_of_death_from_redis_own_clock(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    earliest = here.clock()

    here.run(bury(here, now=""))

    fields = here.client.xrange(here.keys.dlq)[-1][1]
    assert earliest <= int(fields[b"at"]) <= here.clock()


@not_mine
def test_dead_letter_changes_nothing_of_a_task_that_is_not_mine_any_more(
    here: Here, blow: Blow
) -> None:
    here.seed(Running("t", "2-1", state="2 0 3 1-9 []"))
    blow(here)
    before = here.world()

    assert here.run(bury(here)) == (Settled.STALE, "")

    assert here.changes(before) == []


@tampered
def test_dead_letter_keeps_the_task_whatever_was_taken_from_it(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1"))
    blow(here)
    before = here.world()

    assert here.run(bury(here)) == (Settled.DONE, NEXT_DEAD[0])

    assert here.world() == before - OF_ENTRY | {
        letter(),
        f"entry t dlq {NEXT_DEAD[0]}",
        "state t 3 0 3 2-1 [1]",
        "meta dead 1",
        COUNTED,
    }


def test_dead_letter_sent_twice_finds_its_own_work_done(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(bury(here))
    before = here.world()

    assert here.run(bury(here)) == (Settled.BEFORE, NEXT_DEAD[0])

    assert here.changes(before) == []


def test_dead_letter_sent_twice_after_a_replay_is_stale(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(bury(here))
    here.run(operator_calls.replay(here.shard, [("t", NEXT_DEAD[0])], "", str(NOW)))
    before = here.world()

    assert here.run(bury(here)) == (Settled.STALE, "")

    assert here.changes(before) == []


def test_dead_letter_sent_twice_is_not_taken_for_a_later_death(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(bury(here))
    here.client.xadd(here.keys.dlq, {"id": "t", "entry": "2-7"}, id=NEXT_DEAD[1])
    here.client.hset(here.keys.entry, "t", f"dlq {NEXT_DEAD[1]}")
    before = here.world()

    assert here.run(bury(here)) == (Settled.STALE, "")

    assert here.changes(before) == []


@pytest.mark.parametrize("place", ["dlq rubbish", "dlq 9-9", "dlq", ""])
def test_dead_letter_bears_a_garbled_place(here: Here, place: str) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hset(here.keys.entry, "t", place)
    before = here.world()

    assert here.run(bury(here)) == (Settled.STALE, "")

    assert here.changes(before) == []


def test_dead_letter_after_everything_was_wiped_brings_nothing_back(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.wipe()

    assert here.run(bury(here)) == (Settled.BEFORE, "")

    assert here.world() == set()


def test_dead_letter_without_a_payload_is_a_tombstone(here: Here) -> None:
    here.seed(Running("t", "2-1", state="2 0 3 1-9 []"))
    here.client.hdel(here.keys.payload, "t")
    before = here.world()

    assert here.run(bury(here)) == (Settled.DONE, NEXT_DEAD[0])

    assert here.world() == before - OF_ENTRY - {"state t 2 0 3 1-9 []"} | {
        letter("missing_payload"),
        "meta dead 1",
        COUNTED,
        "meta tombstones 1",
    }


def test_a_tombstone_sent_twice_is_written_once(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hdel(here.keys.payload, "t")
    here.run(bury(here))
    before = here.world()

    assert here.run(bury(here)) == (Settled.BEFORE, "")

    assert here.changes(before) == []


def test_dead_letter_buries_what_a_vanished_owner_held(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=30_000))
    before = here.world()

    assert here.run(bury(here, OTHER, min_idle_ms=30_000))[0] is Settled.DONE

    assert here.world() == before - OF_ENTRY - {f"pending 2-1 {OTHER} 1"} | {
        letter(consumer=OTHER),
        f"entry t dlq {NEXT_DEAD[0]}",
        "state t 3 0 3 2-1 [1]",
        "meta dead 1",
        COUNTED,
    }


def test_dead_letter_spares_an_owner_that_has_renewed_meanwhile(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=60_000))
    here.client.xclaim(here.keys.stream, GROUP, OTHER, 0, ["2-1"], idle=0, justid=True)
    before = here.world()

    assert here.run(bury(here, OTHER, min_idle_ms=30_000)) == (Settled.STALE, "")

    assert here.changes(before) == []


def test_burying_what_a_vanished_owner_held_twice_writes_one_letter(here: Here) -> None:
    here.seed(Running("t", "2-1", owner=OTHER, idle=60_000))
    here.run(bury(here, OTHER, min_idle_ms=30_000))
    before = here.world()

    assert here.run(bury(here, OTHER, min_idle_ms=30_000)) == (Settled.BEFORE, NEXT_DEAD[0])

    assert here.changes(before) == []


def test_dead_letter_leaves_a_new_task_of_the_same_id_alone(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    before = here.world()

    assert here.run(bury(here)) == (Settled.STALE, "")

    assert here.changes(before) == []
    assert f"payload t {record('t')}" in here.world()

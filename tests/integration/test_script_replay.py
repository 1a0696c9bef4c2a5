"""lua/replay.lua: a dead letter goes back into the queue, its attempts and errors reset."""

from __future__ import annotations

import pytest

from django_redq.broker import operator_calls
from django_redq.broker.operator_calls import Replayed
from tests.integration.worlds import NEXT, NOW, Dead, Here, Ready, Scheduled, record

pytestmark = pytest.mark.every_server

STATE = "3 1 3 1-9 [7]"
LETTER = {"dlq 4-2 id=t reason=exhausted entry=1-9", "entry t dlq 4-2", f"state t {STATE}"}
GONE = Replayed(None)


def replay(
    here: Here, *letters: tuple[str, str], when: str = "", now: str = str(NOW)
) -> list[Replayed]:
    return here.run(operator_calls.replay(here.shard, letters or [("t", "4-2")], when, now))


@pytest.mark.parametrize("dead_id", ["4-2", ""])
def test_replay_makes_the_task_ready_as_if_it_were_new(here: Here, dead_id: str) -> None:
    here.seed(Dead("t", "4-2", state=STATE))
    before = here.world()

    assert replay(here, ("t", dead_id)) == [Replayed(NOW)]

    assert here.world() == before - LETTER | {
        f"stream {NEXT[0]} id=t",
        f"entry t {NEXT[0]}",
        "state t 0 0 0 4-2 ",
    }
    assert here.heard() == [("wake", "0")]


@pytest.mark.parametrize("when", ["+500", str(NOW + 500)])
def test_replay_schedules_the_task_for_later(here: Here, when: str) -> None:
    here.seed(Dead("t", "4-2", state=STATE))
    before = here.world()

    assert replay(here, when=when) == [Replayed(NOW + 500)]

    assert here.world() == before - LETTER | {f"delay t {NOW + 500}", "state t 0 0 0 4-2 "}
    assert here.heard() == [("due", f"0 {NOW + 500}")]


def test_replay_tells_no_scheduler_of_what_is_not_the_first_one_due(here: Here) -> None:
    here.seed(Dead("t", "4-2"), Scheduled("sooner", NOW + 1))

    replay(here, when="+500")

    assert here.heard() == []


def test_replay_goes_by_redis_own_clock(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    earliest = here.clock() + 500

    [done] = replay(here, when="+500", now="")

    assert done.due is not None
    assert earliest <= done.due <= here.clock() + 500
    assert here.client.zscore(here.keys.delay, "t") == done.due


@pytest.mark.parametrize("dead_id", ["4-2", ""])
def test_replay_sent_twice_replays_once(here: Here, dead_id: str) -> None:
    here.seed(Dead("t", "4-2"))
    replay(here, ("t", dead_id))
    before = here.world()
    here.heard()

    assert replay(here, ("t", dead_id)) == [GONE]

    assert here.changes(before) == []
    assert here.heard() == []


def test_replay_of_one_death_does_not_hit_a_later_one(here: Here) -> None:
    here.seed(Dead("t", "4-3", state=STATE))
    before = here.world()

    assert replay(here, ("t", "4-2")) == [GONE]

    assert here.changes(before) == []


@pytest.mark.parametrize("dead_id", ["4-2", ""])
def test_replay_leaves_a_live_task_alone(here: Here, dead_id: str) -> None:
    here.seed(Ready("t", "3-2"))
    before = here.world()

    assert replay(here, ("t", dead_id)) == [GONE]

    assert here.changes(before) == []


@pytest.mark.parametrize("place", ["rubbish", "", "dlq rubbish"])
def test_replay_bears_a_garbled_place(here: Here, place: str) -> None:
    here.seed(Dead("t", "4-2"))
    here.client.hset(here.keys.entry, "t", place)
    before = here.world()

    assert replay(here) == [GONE]

    assert here.changes(before) == []


def test_replay_says_that_the_payload_is_missing_and_keeps_the_letter(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    here.client.hdel(here.keys.payload, "t")
    before = here.world()

    assert replay(here) == [Replayed(None, missing=True)]

    assert here.changes(before) == []


def test_replay_of_a_letter_that_was_deleted_in_redis_brings_the_task_back(here: Here) -> None:
    here.seed(Dead("t", "4-2", state=STATE))
    here.client.xdel(here.keys.dlq, "4-2")

    assert replay(here) == [Replayed(NOW)]

    assert {f"stream {NEXT[0]} id=t", f"entry t {NEXT[0]}", f"payload t {record('t')}"} <= (
        here.world()
    )


def test_replay_answers_for_each_letter_of_a_batch(here: Here) -> None:
    here.seed(Dead("t", "4-2", state=STATE), Dead("u", "4-3", state=None))
    here.client.hdel(here.keys.payload, "u")
    before = here.world()

    answers = replay(here, ("v", ""), ("u", "4-3"), ("t", "4-2"), ("dead", "4-1"), ("t", "4-2"))

    assert answers == [GONE, Replayed(None, missing=True), Replayed(NOW), Replayed(NOW), GONE]
    gone = {"dlq 4-1 id=dead reason=exhausted entry=1-9", "entry dead dlq 4-1"} | LETTER
    assert here.world() == before - gone - {"state dead 3 0 3 1-9 []"} | {
        f"stream {NEXT[0]} id=t",
        f"stream {NEXT[1]} id=dead",
        f"entry t {NEXT[0]}",
        f"entry dead {NEXT[1]}",
        "state t 0 0 0 4-2 ",
        "state dead 0 0 0 4-1 ",
    }
    assert here.heard() == [("wake", "0")]


def test_replay_after_everything_was_wiped_brings_nothing_back(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    here.wipe()

    assert replay(here) == [GONE]

    assert here.world() == set()

"""lua/repair.lua: what lost its place in Redis gets one again."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Repair
from tests.integration.worlds import (
    GROUP,
    NEXT,
    NEXT_DEAD,
    NOW,
    Dead,
    Here,
    Ready,
    Running,
    Scheduled,
    record,
)

pytestmark = pytest.mark.every_server

GRACE = 30_000
NOTHING = Repair("0", 0)


def repair(here: Here, cursor: str = "0", now: str = str(NOW)) -> Repair:
    return here.run(calls.repair(here.shard, cursor, now, grace_ms=GRACE))


def test_repair_finds_nothing_to_do_where_everything_has_its_place(here: Here) -> None:
    here.seed(Scheduled("t"), Ready("u", "3-2"), Running("v", "2-1"), Dead("w", "4-2"))
    before = here.world()

    assert repair(here) == NOTHING

    assert here.changes(before) == []
    assert here.heard() == []


def test_repair_of_nothing_finds_nothing(here: Here) -> None:
    assert repair(here) == NOTHING

    assert here.world() == set()


def test_repair_does_not_look_at_a_balanced_shard(here: Here) -> None:
    """Two faults that hide each other's; the sizes agree, so nothing is scanned."""
    here.seed()
    here.client.xadd(here.keys.dlq, {"id": "x", "reason": "missing_payload"}, id="9000000000000-0")
    here.client.hset(here.keys.meta, "tombstones", 1)
    here.client.hset(here.keys.payload, "lost", record("lost"))
    here.client.zadd(here.keys.delay, {"payload-less": 5})
    before = here.world()

    assert repair(here) == NOTHING

    assert here.changes(before) == []


def test_repair_puts_back_a_payload_without_a_place(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.payload, "t", record("t"))
    before = here.world()

    assert repair(here) == Repair("0", 1)

    assert here.world() == before | {f"stream {NEXT[0]} id=t", f"entry t {NEXT[0]}"}
    assert here.heard() == [("wake", "0")]


def test_repair_sent_twice_puts_back_once(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.payload, "t", record("t"))
    repair(here)
    before = here.world()
    here.heard()

    assert repair(here) == NOTHING

    assert here.changes(before) == []
    assert here.heard() == []


def test_repair_keeps_the_attempts_of_what_it_puts_back(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.payload, "t", record("t"))
    here.client.hset(here.keys.state, "t", "1 1 3 - []")

    repair(here)

    assert "state t 1 1 3 - []" in here.world()


def test_repair_puts_back_what_was_scheduled_when_the_delays_were_dropped(here: Here) -> None:
    here.seed(Scheduled("t"))
    here.client.delete(here.keys.delay)
    before = here.world()

    assert repair(here) == Repair("0", 2)

    fresh = {line for line in here.world() - before if line.startswith("entry ")}
    assert {line.split()[1] for line in fresh} == {"t", "later"}
    assert before <= here.world()


def test_repair_gives_the_holder_of_a_vanished_entry_time_to_say_so(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    before = here.world()

    assert repair(here) == NOTHING

    assert here.world() == before - {"entry t 2-1"} | {f"entry t 2-1 {NOW + GRACE}"}
    assert here.heard() == []


@pytest.mark.parametrize("passed", [0, GRACE - 1])
def test_repair_waits_while_the_mark_stands(here: Here, passed: int) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    here.client.hset(here.keys.entry, "t", f"2-1 {NOW + GRACE}")
    before = here.world()

    assert repair(here, now=str(NOW + passed)) == NOTHING

    assert here.changes(before) == []


def test_repair_puts_the_task_back_once_the_mark_has_lapsed(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    here.client.hset(here.keys.entry, "t", f"2-1 {NOW + GRACE}")
    before = here.world()

    assert repair(here, now=str(NOW + GRACE)) == Repair("0", 1)

    assert here.world() == before - {f"entry t 2-1 {NOW + GRACE}"} | {
        f"entry t {NEXT[0]}",
        f"stream {NEXT[0]} id=t",
    }
    assert here.heard() == [("wake", "0")]


def test_a_holder_that_renews_keeps_the_task_from_being_put_back(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    repair(here)
    late = NOW + GRACE - 1
    here.run(calls.renew(here.shard, "me-1", [here.mine("t", "2-1")], str(late), hold_ms=GRACE))

    assert repair(here, now=str(NOW + GRACE)) == NOTHING

    assert f"entry t 2-1 {late + GRACE}" in here.world()


def test_repair_marks_a_handed_back_task_whose_entry_vanished(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.hset(here.keys.entry, "t", "3-2 after 2-1")
    here.client.xdel(here.keys.stream, "3-2")

    assert repair(here) == NOTHING

    assert f"entry t 3-2 {NOW + GRACE}" in here.world()


def test_repair_after_the_stream_was_dropped_brings_every_task_back(here: Here) -> None:
    here.seed(Running("t", "2-1"), Ready("u", "3-2"))
    here.client.delete(here.keys.stream)
    places = {"t", "u", "theirs", "parked", "ready"}

    assert repair(here) == NOTHING
    assert repair(here, now=str(NOW + GRACE)) == Repair("0", len(places))

    back = {fields[b"id"].decode(): at for at, fields in here.client.xrange(here.keys.stream)}
    assert set(back) == places
    assert all(here.client.hget(here.keys.entry, name) == at for name, at in back.items())
    assert repair(here, now=str(NOW + GRACE)) == NOTHING


def test_repair_puts_a_vanished_dead_letter_back(here: Here) -> None:
    here.seed(Dead("t", "4-2", state="2 0 3 1-9 [7]"))
    here.client.xdel(here.keys.dlq, "4-2")
    before = here.world()

    assert repair(here) == Repair("0", 1)

    letter = (
        f"dlq {NEXT_DEAD[0]} id=t reason=exhausted kind= error=its dead letter had vanished from "
        f"Redis and was put back type= traceback= attempts=2 at={NOW} entry= consumer= "
        "key= grouped=1"
    )
    assert here.world() == before - {"entry t dlq 4-2"} | {
        f"entry t dlq {NEXT_DEAD[0]}",
        f"groups   1 {NOW} {NOW}",
        letter,
    }


def test_repair_after_all_dead_letters_were_dropped_keeps_their_tasks_dead(here: Here) -> None:
    here.seed()
    here.client.delete(here.keys.dlq)

    assert repair(here) == Repair("0", 1)

    [(entry_id, fields)] = here.client.xrange(here.keys.dlq)
    assert fields[b"id"] == b"dead"
    assert here.client.hget(here.keys.entry, "dead") == b"dlq " + entry_id
    assert repair(here) == NOTHING


@pytest.mark.parametrize("place", ["rubbish", "", "dlq rubbish", "dlq ", "0x1-1"])
def test_repair_gives_a_garbled_place_up_and_puts_the_task_back(here: Here, place: str) -> None:
    here.seed()
    here.client.hset(here.keys.payload, "t", record("t"))
    here.client.hset(here.keys.entry, "t", place)
    before = here.world()

    assert repair(here) == Repair("0", 1)

    assert here.world() == before - {f"entry t {place}"} | {
        f"entry t {NEXT[0]}",
        f"stream {NEXT[0]} id=t",
    }


def test_repair_is_not_stopped_by_garbled_counters(here: Here) -> None:
    here.seed()
    here.client.hset(here.keys.meta, "tombstones", "rubbish")

    assert repair(here) == NOTHING


def test_repair_knows_that_tombstones_have_no_task(here: Here) -> None:
    here.seed()
    here.client.xadd(here.keys.dlq, {"id": "x", "reason": "missing_payload"}, id="9000000000000-0")
    here.client.hset(here.keys.meta, "tombstones", 1)
    here.client.hset(here.keys.payload, "t", record("t"))
    here.client.zadd(here.keys.delay, {"t": 5})
    before = here.world()

    assert repair(here) == NOTHING

    assert here.changes(before) == []


def test_repair_goes_through_a_big_shard_in_steps(here: Here) -> None:
    lost = {f"lost-{number}": record(str(number)) for number in range(1000)}
    here.client.hset(here.keys.payload, mapping=lost)

    steps, step = [], repair(here)
    while step.cursor != "0":
        steps.append(step)
        step = repair(here, step.cursor)

    assert len(steps) > 10
    assert sum(one.put_back for one in [*steps, step]) == 1000
    assert here.client.xlen(here.keys.stream) == 1000
    assert repair(here) == NOTHING


def test_repair_goes_on_where_it_is_told_to_though_the_shard_is_balanced_by_now(
    here: Here,
) -> None:
    here.seed()
    before = here.world()

    assert repair(here, "1").cursor == "0"

    assert here.changes(before) == []


def looks(here: Here, now: int = NOW) -> int:
    """How many pages a walk takes, to its end."""

    def pages() -> int:
        return int(here.client.info("commandstats").get("cmdstat_hscan", {"calls": 0})["calls"])

    before, step = pages(), repair(here, now=str(now))
    while step.cursor != "0":
        step = repair(here, step.cursor, str(now))
    return pages() - before


def test_repair_looks_once_at_what_stays_odd(here: Here) -> None:
    here.seed(*(Scheduled(f"t{number}") for number in range(1000)))
    here.client.xadd(here.keys.dlq, {"a": "stranger's"})

    assert looks(here) > 10
    assert looks(here) == 0

    here.client.hset(here.keys.payload, "lost", record("lost"))
    assert looks(here) > 10
    assert here.client.hexists(here.keys.entry, "lost")
    # By as much as before.
    assert looks(here, NOW + 599_999) == 0
    assert looks(here, NOW + 600_000) > 10


def test_repair_that_waits_for_a_holder_has_not_looked_in_vain(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    for now in (NOW, NOW + GRACE - 1):
        assert repair(here, now=str(now)) == NOTHING

    assert repair(here, now=str(NOW + GRACE)) == Repair("0", 1)


def test_repair_counts_the_grace_from_redis_own_clock(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xdel(here.keys.stream, "2-1")
    earliest = here.clock() + GRACE

    repair(here, now="")

    until = int(here.client.hget(here.keys.entry, "t").split()[1])
    assert earliest <= until <= here.clock() + GRACE


def test_repair_leaves_a_task_whose_group_was_destroyed(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.xgroup_destroy(here.keys.stream, GROUP)
    before = here.world()

    assert repair(here) == NOTHING

    assert here.changes(before) == []

"""lua/bulk_step.lua: a shard's part of a bulk goes on, and what it did and how far it got agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from django_redq.broker import bulk_calls
from django_redq.broker.bulk_calls import MAX_EFFORT, BulkStep, StoredPart
from tests.integration.worlds import NEXT, NOW, Dead, Here, Scheduled, record

pytestmark = pytest.mark.every_server

HOLDER = "someone-3"
"""Who has the lease of a seeded shard."""
STATE = "3 1 3 1-9 [7]"
A_STEP = MAX_EFFORT // 4
"""Letters that one step replays or discards."""
REPLAY = BulkStep(
    bulk_id="b1", first="-", till=100, action="replay", start=0, spread=0, phase=0.0, asked=()
)
DISCARD = replace(REPLAY, action="discard")


def step(here: Here, work: BulkStep = REPLAY, instance: str = HOLDER, **changed: Any) -> str:
    return here.run(bulk_calls.step(here.shard, instance, replace(work, **changed), str(NOW)))


def part(here: Here) -> StoredPart:
    return here.run(bulk_calls.read(here.shard)).parts["b1"]


def done(looked_at: int, changed: int, gone: int = 0, missing: int = 0) -> StoredPart:
    return StoredPart("done", looked_at, changed, gone, missing, NOW, NOW)


def hold(here: Here) -> None:
    here.client.set(here.keys.lease, HOLDER)


def bury(here: Here, *entry_ids: str, **fields: str) -> None:
    """Letters of tasks that are called after them, without the rest of the world."""
    hold(here)
    for entry_id in entry_ids:
        here.client.xadd(here.keys.dlq, {"id": f"t{entry_id}", **fields}, entry_id)
        here.client.hset(here.keys.payload, f"t{entry_id}", record(entry_id))
        here.client.hset(here.keys.entry, f"t{entry_id}", f"dlq {entry_id}")


def litter(here: Here, entry_id: str, fields: dict[Any, Any]) -> None:
    here.client.xadd(here.keys.dlq, fields, entry_id)


def left(here: Here) -> list[str]:
    return [entry.decode() for entry, _ in here.client.xrange(here.keys.dlq)]


# --- what it does to a letter


def test_step_replays_as_replay_does_and_writes_how_far_it_got(here: Here) -> None:
    here.seed(Dead("t", "5-1", state=STATE))
    before = here.world()

    assert step(here, till=5) == "done"

    assert here.world() == before - {
        "dlq 4-1 id=dead reason=exhausted entry=1-9",
        "dlq 5-1 id=t reason=exhausted entry=1-9",
        "entry dead dlq 4-1",
        "entry t dlq 5-1",
        "state dead 3 0 3 1-9 []",
        f"state t {STATE}",
    } | {
        f"stream {NEXT[0]} id=dead",
        f"stream {NEXT[1]} id=t",
        f"entry dead {NEXT[0]}",
        f"entry t {NEXT[1]}",
        "state dead 0 0 0 4-1 ",
        "state t 0 0 0 5-1 ",
        f"bulk b1 part done 5-1 5-1 2 2 0 0 {NOW} {NOW}",
    }
    assert here.heard() == [("wake", "0")]


def test_step_discards_as_discard_does(here: Here) -> None:
    here.seed(Dead("t", "5-1", state=STATE))
    before = here.world()

    assert step(here, DISCARD, till=5) == "done"

    assert here.world() == before - {
        "dlq 4-1 id=dead reason=exhausted entry=1-9",
        "dlq 5-1 id=t reason=exhausted entry=1-9",
        "entry dead dlq 4-1",
        "entry t dlq 5-1",
        "state dead 3 0 3 1-9 []",
        f"state t {STATE}",
        f"payload dead {record('dead')}",
        f"payload t {record('t')}",
    } | {f"bulk b1 part done 5-1 5-1 2 2 0 0 {NOW} {NOW}"}
    assert here.heard() == []


def test_step_tells_why_what_cannot_be_replayed_stays(here: Here) -> None:
    bury(here, "1-0", "2-0", "5-0")
    here.client.hdel(here.keys.payload, "t2-0")
    litter(here, "6-0", {"id": "gone", "reason": "missing_payload"})
    litter(here, "7-0", {"foo": "bar"})
    litter(here, "8-0", {"id": "t5-0", "reason": "exhausted"})

    assert step(here) == "done"

    assert left(here) == ["2-0", "6-0", "7-0", "8-0"]
    assert part(here) == done(6, changed=2, gone=2, missing=2)


def test_step_discards_tombstones_and_what_others_wrote_and_touches_no_live_task(
    here: Here,
) -> None:
    here.seed(Scheduled("alive"), neighbours=False)
    hold(here)
    before = here.world()
    here.client.hset(here.keys.meta, "tombstones", 1)
    litter(here, "6-0", {"id": "alive", "reason": "missing_payload"})
    litter(here, "7-0", {b"\xff": b"\xff"})

    assert step(here, DISCARD) == "done"

    assert here.changes(before) == [
        f"+ bulk b1 part done 7-0 7-0 2 2 0 0 {NOW} {NOW}",
        "+ meta tombstones 0",
    ]


# --- which letters


def test_step_means_what_is_asked_for_only(here: Here) -> None:
    bury(here, "1-0", "3-0", kind="a", at="50")
    bury(here, "4-0", kind="b", at="50")
    bury(here, "5-0", kind="a", at="51")

    assert step(here, asked=("kind", "a", "until", "50")) == "done"

    assert left(here) == ["4-0", "5-0"]
    assert part(here) == done(4, changed=2)


def test_step_leaves_what_died_after_the_beginning(here: Here) -> None:
    bury(here, "99-0", "100-0", "100-7", "101-0")

    assert step(here, DISCARD) == "done"

    assert left(here) == ["101-0"]


def test_step_begins_where_it_is_told(here: Here) -> None:
    bury(here, "1-0", "2-0", "2-1", "3-0")

    assert step(here, DISCARD, first="2") == "done"

    assert left(here) == ["1-0"]
    assert part(here) == done(3, changed=3)


def test_step_leaves_what_fell_back_since_the_first_step(here: Here) -> None:
    bury(here, *(f"1-{number}" for number in range(A_STEP)))
    assert step(here, DISCARD) == "going"
    # Of a Redis whose clock is behind that of the first shard's.
    bury(here, "50-0")

    assert step(here, DISCARD) == "done"

    assert left(here) == ["50-0"]


def test_step_finds_nothing_where_nothing_is(here: Here) -> None:
    hold(here)
    before = here.world()

    assert step(here) == "done"

    assert here.changes(before) == [f"+ bulk b1 part done - 0-0 0 0 0 0 {NOW} {NOW}"]


# --- when they are due


def dues(here: Here) -> list[float]:
    return [due for _, due in here.client.zrange(here.keys.delay, 0, -1, withscores=True)]


def test_step_replays_for_later_and_tells_the_schedulers_of_the_first(here: Here) -> None:
    bury(here, "1-0", "2-0")

    assert step(here, start=NOW + 500) == "done"

    assert dues(here) == [NOW + 500, NOW + 500]
    assert here.heard() == [("due", f"0 {NOW + 500}")]


@pytest.mark.parametrize("number", [7, 50, A_STEP])
def test_step_spreads_evenly_however_many_there_are(here: Here, number: int) -> None:
    bury(here, *(f"1-{one}" for one in range(number)))
    start, spread = NOW + 1000, 600_000

    step(here, start=start, spread=spread, phase=0.25)

    found = dues(here)
    assert len(found) == number
    assert start <= found[0]
    assert found[-1] < start + spread
    # Of the golden ratio the gaps are of three lengths at most, the longest under twice the mean.
    gaps = [after - one for one, after in pairwise(found)]
    assert max(gaps) < 2.2 * spread / number
    assert min(gaps) > 0.3 * spread / number
    assert here.heard() == [("due", f"0 {found[0]:.0f}")]


def test_step_goes_on_with_the_sequence_where_the_last_one_ended(here: Here) -> None:
    bury(here, *(f"1-{one}" for one in range(A_STEP + 20)))

    states = [step(here, start=NOW + 1000, spread=600_000) for _ in range(2)]

    assert states == ["going", "done"]
    assert len(set(dues(here))) == A_STEP + 20


def test_step_runs_at_once_what_would_have_been_due_by_now(here: Here) -> None:
    bury(here, "1-0", "2-0")

    step(here, start=NOW - 500, spread=1000, phase=0.4)

    # 0.4 of a second after the start, and 0.4 + 0.618.
    assert dues(here) == []
    assert here.heard() == [("wake", "0")]


# --- step by step


def test_step_is_bounded_and_goes_on_where_the_last_one_ended(here: Here) -> None:
    bury(here, *(f"1-{number}" for number in range(2 * A_STEP + 1)))

    assert step(here) == "going"
    assert part(here) == StoredPart("going", A_STEP, A_STEP, 0, 0, NOW, 0)
    assert step(here) == "going"
    assert step(here) == "done"

    assert part(here) == done(2 * A_STEP + 1, changed=2 * A_STEP + 1)
    assert here.client.xlen(here.keys.stream) == 2 * A_STEP + 1


def test_step_looks_at_more_letters_where_none_is_asked_for(here: Here) -> None:
    bury(here, *(f"1-{number}" for number in range(MAX_EFFORT + 1)))

    assert step(here, asked=("kind", "x")) == "going"
    assert part(here) == StoredPart("going", MAX_EFFORT, 0, 0, 0, NOW, 0)
    assert step(here, asked=("kind", "x")) == "done"
    assert part(here) == done(MAX_EFFORT + 1, changed=0)


def test_step_looks_at_few_letters_where_they_are_large(here: Here) -> None:
    bury(here, "1-0", "2-0", "3-0", traceback="x" * 600_000)

    assert step(here) == "going"
    assert part(here).looked_at == 2


@pytest.mark.parametrize("state", ["done", "stopped"])
def test_step_does_nothing_more_where_its_part_is_over(here: Here, state: str) -> None:
    bury(here, "1-0")
    here.client.hset(here.keys.bulk, "b1 part", f"{state} - - 0 0 0 0 {NOW} {NOW}")
    before = here.world()

    assert step(here) == state

    assert here.changes(before) == []


@pytest.mark.parametrize("holder", [None, "somebody-else"])
def test_step_does_nothing_without_the_lease(here: Here, holder: str | None) -> None:
    bury(here, "1-0")
    here.client.delete(here.keys.lease)
    if holder is not None:
        here.client.set(here.keys.lease, holder)
    before = here.world()

    assert step(here) == ""

    assert here.changes(before) == []


@pytest.mark.parametrize("garbled", ["rubbish", "going 1-0 9-9 1 1 1 x 1 1", ""])
def test_step_begins_anew_where_its_part_is_garbled(here: Here, garbled: str) -> None:
    bury(here, "1-0", "2-0")
    here.client.hset(here.keys.bulk, "b1 part", garbled)

    assert step(here) == "done"

    assert part(here) == done(2, changed=2)


@pytest.mark.parametrize("work", [REPLAY, DISCARD])
def test_step_sent_twice_does_each_letter_once(here: Here, work: BulkStep) -> None:
    bury(here, *(f"1-{number}" for number in range(A_STEP + 5)))

    states: Sequence[str] = [step(here, work) for _ in range(4)]

    assert states == ["going", "done", "done", "done"]
    assert part(here) == done(A_STEP + 5, changed=A_STEP + 5)

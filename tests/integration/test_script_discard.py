"""lua/discard.lua: dead letters are removed for good, with the tasks that they are about."""

from __future__ import annotations

import pytest

from django_redq.broker import operator_calls
from tests.integration.worlds import Dead, Here, Ready, Scheduled, record

pytestmark = pytest.mark.every_server

TASK = {
    "dlq 4-2 id=t reason=exhausted entry=1-9",
    "entry t dlq 4-2",
    "state t 3 0 3 1-9 []",
    f"payload t {record('t')}",
}
TOMBSTONE = {"dlq 9000000000000-0 id=t reason=missing_payload", "meta tombstones 1"}


def discard(here: Here, *letters: tuple[str, str]) -> list[bool]:
    return here.run(operator_calls.discard(here.shard, letters))


def bury_nobody(here: Here) -> None:
    """A tombstone that names "t"."""
    letter = {"id": "t", "reason": "missing_payload"}
    here.client.xadd(here.keys.dlq, letter, id="9000000000000-0")
    here.client.hset(here.keys.meta, "tombstones", 1)


@pytest.mark.parametrize("letter", [("t", "4-2"), ("t", ""), ("", "4-2")])
def test_discard_removes_the_letter_and_its_task(here: Here, letter: tuple[str, str]) -> None:
    here.seed(Dead("t", "4-2"))
    before = here.world()

    assert discard(here, letter) == [True]

    assert here.world() == before - TASK
    assert here.heard() == []


@pytest.mark.parametrize("letter", [("t", "4-2"), ("t", ""), ("", "4-2"), ("", "")])
def test_discard_sent_twice_finds_nothing(here: Here, letter: tuple[str, str]) -> None:
    here.seed(Dead("t", "4-2"))
    discard(here, ("t", "4-2"))
    before = here.world()

    assert discard(here, letter) == [False]

    assert here.changes(before) == []


def test_discard_of_one_death_does_not_hit_a_later_one(here: Here) -> None:
    here.seed(Dead("t", "4-3"))
    before = here.world()

    assert discard(here, ("t", "4-2")) == [False]

    assert here.changes(before) == []


def test_discard_of_another_tasks_letter_does_nothing(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    before = here.world()

    assert discard(here, ("u", "4-2")) == [False]

    assert here.changes(before) == []


@pytest.mark.parametrize("seed", [Ready("t", "3-2"), Scheduled("t")])
def test_discard_leaves_a_live_task_alone(here: Here, seed: Ready | Scheduled) -> None:
    here.seed(seed)
    before = here.world()

    assert discard(here, ("t", ""), ("t", "4-2")) == [False, False]

    assert here.changes(before) == []


@pytest.mark.parametrize("task_id", ["", "t"])
@pytest.mark.parametrize("seed", [Ready("t", "3-2"), Dead("t", "4-2"), Scheduled("later")])
def test_discard_of_a_tombstone_leaves_a_task_of_the_same_id(
    here: Here, seed: Ready | Dead | Scheduled, task_id: str
) -> None:
    here.seed(seed)
    bury_nobody(here)
    before = here.world()

    assert discard(here, (task_id, "9000000000000-0")) == [True]

    assert here.world() == before - TOMBSTONE | {"meta tombstones 0"}


def test_discard_of_a_tombstone_sent_twice_counts_it_once(here: Here) -> None:
    here.seed()
    bury_nobody(here)
    discard(here, ("", "9000000000000-0"))
    before = here.world()

    assert discard(here, ("", "9000000000000-0")) == [False]

    assert here.changes(before) == []


def test_discard_of_a_foreign_letter_leaves_the_count_of_tombstones(here: Here) -> None:
    here.seed()
    here.client.xadd(here.keys.dlq, {"colour": "red"}, id="9000000000000-0")
    before = here.world()

    assert discard(here, ("", "9000000000000-0")) == [True]

    assert here.changes(before) == ["- dlq 9000000000000-0 colour=red"]


@pytest.mark.parametrize("place", ["rubbish", "", "dlq rubbish"])
def test_discard_with_a_garbled_place_takes_the_letter_alone(here: Here, place: str) -> None:
    here.seed(Dead("t", "4-2"))
    here.client.hset(here.keys.entry, "t", place)
    before = here.world()

    assert discard(here, ("t", ""), ("t", "4-2")) == [False, True]

    assert here.changes(before) == ["- dlq 4-2 id=t reason=exhausted entry=1-9"]


def test_discard_answers_for_each_letter_of_a_batch(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    bury_nobody(here)
    before = here.world()

    answers = discard(here, ("u", ""), ("t", "4-2"), ("", "9000000000000-0"), ("t", ""))

    assert answers == [False, True, True, False]
    assert here.world() == before - TASK - TOMBSTONE | {"meta tombstones 0"}


def test_discard_after_everything_was_wiped_finds_nothing(here: Here) -> None:
    assert discard(here, ("t", ""), ("", "4-2")) == [False, False]

    assert here.world() == set()

"""Counts of dead letters by kind and exception type: each script that adds or takes one away keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from django_redq.broker import bulk_calls, calls, operator_calls
from django_redq.broker.bulk_calls import BulkStep
from django_redq.broker.calls import Letter
from django_redq.broker.state import State
from django_redq.dead_letters.groups import dead_groups
from tests.integration.worlds import GROUP, ME, NOW, Here

pytestmark = pytest.mark.every_server

FAILED = State(3, lost=False, allowed=3, came_from=b"2-1", failures=b"[]")
MOST = 100
"""Groups that a shard counts."""


def bury(
    here: Here, number: int = 1, kind: str = "a", error: str = "OSError", now: int = NOW
) -> str:
    """A running task dies; the letter's entry ID."""
    letter = Letter("exhausted", kind, "", error, "", 3)
    task_id = f"t{number}"
    here.client.hset(here.keys.payload, task_id, "{}")
    entry_id = here.client.xadd(here.keys.stream, {"id": task_id}).decode()
    here.client.hset(here.keys.entry, task_id, entry_id)
    here.hand_over(entry_id, ME)
    mine = here.mine(task_id, entry_id)
    settled, dead_id = here.run(calls.dead_letter(here.shard, ME, mine, FAILED, letter, str(now)))
    assert settled
    return dead_id


def groups(here: Here) -> dict[str, str]:
    found = here.client.hgetall(here.keys.groups)
    return {name.decode(): value.decode() for name, value in found.items()}


def grouped(here: Here) -> list[str]:
    return [fields[b"grouped"].decode() for _, fields in here.client.xrange(here.keys.dlq)]


@pytest.fixture(autouse=True)
def group(here: Here) -> None:
    here.client.xgroup_create(here.keys.stream, GROUP, "0", mkstream=True)


def test_deaths_are_counted_with_the_first_and_the_last(here: Here) -> None:
    bury(here, 1)
    bury(here, 2, now=NOW + 5)
    bury(here, 3, kind="b", now=NOW + 6)
    bury(here, 4, kind="", error="")

    assert groups(here) == {
        "a OSError": f"2 {NOW} {NOW + 5}",
        "b OSError": f"1 {NOW + 6} {NOW + 6}",
        " ": f"1 {NOW} {NOW}",
    }


def test_beyond_the_most_groups_letters_are_counted_together(here: Here) -> None:
    for number in range(MOST + 2):
        bury(here, number, error=f"E{number}")
    bury(here, MOST + 2, error="E0")

    found = groups(here)
    assert len(found) == MOST + 1
    assert found["*"] == f"2 {NOW} {NOW}"
    assert found["a E0"] == f"2 {NOW} {NOW}"
    assert grouped(here)[-3:] == ["0", "0", "1"]


def take_away(here: Here, how: str, *dead_ids: str) -> None:
    """All letters, oldest first, are replayed or discarded."""
    letters = [(f"t{number}", dead_id) for number, dead_id in enumerate(dead_ids)]
    if how == "replay":
        here.run(operator_calls.replay(here.shard, letters, "", str(NOW)))
    elif how == "edit":
        for letter in letters:
            here.run(operator_calls.replay_edited(here.shard, letter, b"{}", "", str(NOW)))
    elif how == "discard":
        here.run(operator_calls.discard(here.shard, letters))
    else:
        here.client.set(here.keys.lease, "me")
        work = BulkStep("b1", "-", 2**45, how.removeprefix("bulk "), 0, 0, 0.0, ())
        while here.run(bulk_calls.step(here.shard, "me", work, str(NOW))) == "going":
            pass


WAYS = pytest.mark.parametrize("how", ["replay", "edit", "discard", "bulk replay", "bulk discard"])


@WAYS
def test_what_leaves_is_not_counted_any_more(here: Here, how: str) -> None:
    dead = [bury(here, 0), bury(here, 1)]
    stays = bury(here, 2, kind="b")
    if how.startswith("bulk"):
        # It takes all that there is.
        here.run(operator_calls.discard(here.shard, [("t2", stays)]))
        bury(here, 3, kind="c")

    take_away(here, how, *dead)

    assert groups(here) == ({} if how.startswith("bulk") else {"b OSError": f"1 {NOW} {NOW}"})


@WAYS
def test_the_last_but_one_leaves_one(here: Here, how: str) -> None:
    dead = bury(here, 0)
    if how.startswith("bulk"):
        here.client.hset(here.keys.groups, "a OSError", f"2 {NOW} {NOW + 9}")
    else:
        bury(here, 1, now=NOW + 9)

    take_away(here, how, dead)

    assert groups(here) == {"a OSError": f"1 {NOW} {NOW + 9}"}


@WAYS
def test_letters_that_were_counted_together_leave_that_count(here: Here, how: str) -> None:
    for number in range(MOST):
        here.client.hset(here.keys.groups, f"x E{number}", f"1 {NOW} {NOW}")
    dead = [bury(here, 0), bury(here, 1)]
    # Room for a group of theirs comes too late for them.
    here.client.hdel(here.keys.groups, "x E0")
    here.client.hset(here.keys.groups, "a OSError", f"7 {NOW} {NOW}")

    take_away(here, how, *dead)

    found = groups(here)
    assert "*" not in found
    assert found["a OSError"] == f"7 {NOW} {NOW}"


@WAYS
@pytest.mark.parametrize("count", ["rubbish", "0 1 2", "-1 1 2", None])
def test_a_count_that_is_garbled_or_gone_hurts_nobody(
    here: Here, how: str, count: str | None
) -> None:
    dead = bury(here, 0)
    here.client.hdel(here.keys.groups, "a OSError")
    if count is not None:
        here.client.hset(here.keys.groups, "a OSError", count)

    take_away(here, how, dead)

    assert here.client.xlen(here.keys.dlq) == 0
    assert groups(here).get("a OSError") in {count, None}


def test_a_garbled_count_begins_anew(here: Here) -> None:
    here.client.hset(here.keys.groups, "a OSError", "rubbish")

    bury(here)

    assert groups(here) == {"a OSError": f"1 {NOW} {NOW}"}


@WAYS
def test_where_the_counts_are_no_hash_work_goes_on(here: Here, how: str) -> None:
    here.client.set(here.keys.groups, "no hash")
    dead = bury(here, 0)
    assert grouped(here) == [""]

    take_away(here, how, dead)

    assert here.client.xlen(here.keys.dlq) == 0


@WAYS
def test_letters_of_before_there_were_counts_change_none(here: Here, how: str) -> None:
    here.client.xadd(here.keys.dlq, {"id": "t0", "kind": "a", "type": "OSError"}, "5-1")
    here.client.hset(here.keys.payload, "t0", "{}")
    here.client.hset(here.keys.entry, "t0", "dlq 5-1")
    here.client.hset(here.keys.groups, "a OSError", f"3 {NOW} {NOW}")

    take_away(here, how, "5-1")

    assert groups(here) == {"a OSError": f"3 {NOW} {NOW}"}


def test_a_letter_that_is_put_back_is_counted(here: Here) -> None:
    bury(here)
    here.client.delete(here.keys.dlq)
    here.client.delete(here.keys.groups)

    assert here.run(calls.repair(here.shard, "0", str(NOW), grace_ms=1)).put_back == 1

    assert groups(here) == {" ": f"1 {NOW} {NOW}"}
    assert grouped(here) == ["1"]


def test_tombstones_are_counted_and_leave_the_count(here: Here) -> None:
    entry_id = here.client.xadd(here.keys.stream, {"id": "t"}).decode()
    here.client.hset(here.keys.entry, "t", entry_id)
    here.hand_over(entry_id, ME)
    letter = Letter("exhausted", "a", "", "OSError", "", 3)
    call = calls.dead_letter(here.shard, ME, here.mine("t", entry_id), FAILED, letter, str(NOW))
    _, dead_id = here.run(call)
    assert groups(here) == {"a OSError": f"1 {NOW} {NOW}"}

    here.run(operator_calls.discard(here.shard, [("", dead_id)]))

    assert groups(here) == {}


def test_groups_are_told_with_the_number_of_letters(here: Here) -> None:
    bury(here, 1)
    bury(here, 2, kind="b")
    before = here.world()

    letters, flat = here.run(dead_groups(here.shard))

    found: dict[Any, Any] = dict(zip(flat[::2], flat[1::2], strict=True))
    counted = f"1 {NOW} {NOW}".encode()
    assert (letters, found) == (2, {b"a OSError": counted, b"b OSError": counted})
    assert here.changes(before) == []


def test_groups_of_nothing(here: Here) -> None:
    assert here.run(dead_groups(here.shard)) == (0, [])

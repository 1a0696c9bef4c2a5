"""How many dead letters there are, by group and by filter: counted, or found within bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from django_redq import DeadLetterQueue, InvalidArgument
from django_redq.dead_letters import DeadGroup, DeadGroups, Survey
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure


@pytest.fixture
def graves(redq: Redq) -> Graveyard:
    configure(redq)
    return Graveyard(redq)


@pytest.fixture
def letters(graves: Graveyard) -> DeadLetterQueue:
    return DeadLetterQueue(QUEUE)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp((BORN + ms) / 1000, UTC)


def count(
    graves: Graveyard, shard: int, group: Any, number: int, first: int = 0, last: int = 0
) -> None:
    """What the scripts keep count of."""
    counted = f"{number} {BORN + first} {BORN + last}"
    graves.client.hset(graves.key("groups", shard), group, counted)


def bury(graves: Graveyard, shard: int, ms: int, **fields: Any) -> None:
    graves.bury(shard, f"{BORN + ms}-0", at=BORN + ms, **fields)


def break_shard(graves: Graveyard, shard: int) -> None:
    """It answers with errors."""
    for name in ("dlq", "groups"):
        graves.client.delete(graves.key(name, shard))
        graves.client.set(graves.key(name, shard), "of another type")


# --- groups


def test_groups_are_added_up_over_the_shards(graves: Graveyard, letters: DeadLetterQueue) -> None:
    for shard in (0, 1, 1, 2):
        graves.bury(shard)
    count(graves, 0, "a ValueError", 1, 5, 5)
    count(graves, 1, "a ValueError", 1, 3, 9)
    count(graves, 1, " ", 1)
    count(graves, 2, "b my.Error", 1)

    assert letters.groups() == DeadGroups(
        groups=(
            DeadGroup(QUEUE, "a", "ValueError", 2, at(3), at(9)),
            DeadGroup(QUEUE, "", "", 1, at(0), at(0)),
            DeadGroup(QUEUE, "b", "my.Error", 1, at(0), at(0)),
        ),
        others=0,
        uncounted=0,
        exact=True,
    )


def test_groups_say_what_they_do_not_tell(graves: Graveyard, letters: DeadLetterQueue) -> None:
    for _ in range(9):
        graves.bury(0)
    count(graves, 0, "a ValueError", 2)
    count(graves, 0, "*", 4)

    found = letters.groups()

    assert (found.others, found.uncounted, found.exact) == (4, 3, False)


def test_groups_bear_whatever_lies_there(graves: Graveyard, letters: DeadLetterQueue) -> None:
    graves.bury(0)
    garbled = {b"\xff \xff": b"1 1 1", b"nospace": b"1 1 1", b"a b": b"x", b"c d": b"1 2"}
    graves.client.hset(graves.key("groups", 0), mapping=garbled)
    count(graves, 0, "late x", 1, last=9 * 10**14)

    found = letters.groups()

    assert {(group.kind, group.count) for group in found.groups} == {("\ufffd", 1), ("late", 1)}
    assert max(group.last_at for group in found.groups).year == 9999


def test_groups_of_real_deaths_come_and_go(redq: Redq, engine: Engine) -> None:
    engine.configure(SHARDS=3, MAX_ATTEMPTS=1)
    letters = DeadLetterQueue("default")
    for kind in ("a", "a", "b"):
        engine.enqueue(kind=kind)
    consumer = engine.consumer()
    while consumer.run_once():
        pass

    found = letters.groups()
    assert [(group.kind, group.count) for group in found.groups] == [("a", 2), ("b", 1)]
    assert {group.exception_type for group in found.groups} == {
        letter.exception_type for letter in letters.list()
    }
    assert found.exact
    letters.purge()

    assert letters.groups() == DeadGroups((), 0, 0, True)
    assert engine.leftovers() == {}


def test_a_shard_that_does_not_answer_is_left_out_where_that_will_do(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    graves.bury(0)
    count(graves, 0, "a ValueError", 1)
    break_shard(graves, 1)

    found = letters.groups(partial=True)
    assert (len(found.groups), found.exact, found.unreachable) == (1, False, (1,))
    with pytest.raises(redis.ResponseError):
        letters.groups()
    for shard in (0, 2):
        break_shard(graves, shard)
    with pytest.raises(redis.ResponseError):
        letters.groups(partial=True)


# --- surveys


def test_a_survey_of_all_looks_at_no_letter(graves: Graveyard, letters: DeadLetterQueue) -> None:
    for shard, ms in ((0, 5), (1, 3), (1, 9), (2, 4)):
        bury(graves, shard, ms)

    assert letters.survey(max_scan=1) == Survey(4, True, at(3), at(9))
    assert letters.survey(shard=1) == Survey(2, True, at(3), at(9))


def test_a_survey_of_a_group_takes_the_count(graves: Graveyard, letters: DeadLetterQueue) -> None:
    for shard in range(SHARDS):
        bury(graves, shard, 1, kind="a", type="E")
        count(graves, shard, "a E", 1, 1, 1)

    assert letters.survey(kind="a", exception_type="E", max_scan=1) == Survey(3, True, at(1), at(1))
    assert letters.survey(kind="a", exception_type="F", max_scan=1).count == 0
    # Where the counts do not tell all, it has to look.
    bury(graves, 0, 2, kind="a", type="E")
    found = letters.survey(kind="a", exception_type="E")
    assert found == Survey(4, True, at(1), at(2))


@pytest.mark.parametrize(
    ("which", "number"),
    [
        ({"kind": "a"}, 2),
        ({"kind": ""}, 1),
        ({"reason": "rejected"}, 1),
        ({"exception_type": "E"}, 1),
        ({"exception_type": ""}, 2),
        ({"text": "NO LU"}, 1),
        ({"text": "%"}, 0),
        ({"idempotency_key": "k"}, 1),
        ({"since": at(2)}, 2),
        ({"until": at(2)}, 2),
        ({"since": at(2), "until": at(2)}, 1),
        ({"kind": "a", "since": at(2)}, 1),
        ({"shard": 0}, 1),
        ({"task_id": "nobody"}, 0),
    ],
)
def test_a_survey_counts_what_filters_find(
    graves: Graveyard, letters: DeadLetterQueue, which: Any, number: int
) -> None:
    bury(graves, 0, 1, kind="a", type="E", error="No luck")
    bury(graves, 1, 2, kind="a", key="k")
    bury(graves, 2, 3, reason="rejected")

    found = letters.survey(**which)

    assert (found.count, found.exact) == (number, True)
    assert len(letters.list(**which)) == number


def test_a_survey_looks_at_so_many_letters_and_says_so(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    graves.bury_many(1000, kind="a")

    found = letters.survey(reason="exhausted", max_scan=300)

    assert not found.exact
    assert 100 <= found.count <= 400
    assert letters.survey(reason="exhausted") == Survey(1000, True, at(0), at(999))
    nothing = letters.survey(text="x", max_scan=300)
    assert (nothing.count, nothing.exact, nothing.oldest) == (0, False, None)


def test_a_survey_leaves_out_a_shard_that_does_not_answer(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    bury(graves, 0, 1, kind="a")
    break_shard(graves, 1)

    for which in ({}, {"kind": "a"}, {"kind": "a", "exception_type": ""}):
        found = letters.survey(partial=True, **which)  # type: ignore[arg-type]
        assert (found.count, found.exact, found.unreachable) == (1, False, (1,))
        with pytest.raises(redis.ResponseError):
            letters.survey(**which)  # type: ignore[arg-type]


@pytest.mark.parametrize("max_scan", [0, -1, True, 1.5])
def test_a_survey_wants_a_number(letters: DeadLetterQueue, max_scan: Any) -> None:
    with pytest.raises(InvalidArgument, match="max_scan"):
        letters.survey(max_scan=max_scan)

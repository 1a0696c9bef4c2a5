"""The letter of one task among many: found without a walk through the others."""

from __future__ import annotations

import pytest

from django_redq.dead_letters import DeadLetterQueue
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.graves import BORN, QUEUE, Graveyard, configure, ids_of


@pytest.fixture
def graves(redq: Redq, engine: Engine) -> Graveyard:
    configure(redq)
    return Graveyard(redq)


def test_an_old_letter_is_found_by_its_task_at_once(graves: Graveyard) -> None:
    wanted = graves.bury(1, f"{BORN}-0")
    for number in range(1, 300):
        graves.bury(1, f"{BORN + number}-0")
    letters = DeadLetterQueue(QUEUE)

    page = letters.list(task_id=wanted, max_scan=10)

    assert [letter.task_id for letter in page] == [wanted]
    assert (page.cursor, page.reached, page.scanned) == (None, None, 1)
    found = letters.survey(task_id=wanted, max_scan=10)
    assert (found.count, found.exact) == (1, True)


def test_the_other_filters_hold_for_it_too(graves: Graveyard) -> None:
    wanted = graves.bury(1, f"{BORN}-0", kind="welcome")
    letters = DeadLetterQueue(QUEUE)

    assert len(letters.list(task_id=wanted, kind="welcome")) == 1
    assert len(letters.list(task_id=wanted, kind="other")) == 0
    assert len(letters.list(task_id=wanted, shard=2)) == 0


def test_a_page_behind_it_is_empty(graves: Graveyard) -> None:
    wanted = graves.bury(1, f"{BORN}-0")
    letters = DeadLetterQueue(QUEUE)

    before, after = f"{BORN + 5}-0.1", f"{BORN}-0.1"

    assert len(letters.list(task_id=wanted, after=before)) == 1
    assert len(letters.list(task_id=wanted, after=after)) == 0
    assert len(letters.list(task_id=wanted, after=before, newest_first=False)) == 0


def test_a_task_without_letter_has_none(graves: Graveyard) -> None:
    graves.bury_many(20, 0)

    page = DeadLetterQueue(QUEUE).list(task_id="elsewhere")

    assert (len(page), page.scanned, page.cursor) == (0, 0, None)


def test_tombstones_are_searched_for_where_no_letter_is_its_own(graves: Graveyard) -> None:
    task_id = next(ids_of(2))
    graves.entomb(2, f"{BORN}-0", task_id=task_id)
    letters = DeadLetterQueue(QUEUE)

    [found] = letters.list(task_id=task_id)
    assert (found.entry_id, found.replayable) == (f"{BORN}-0", False)

    graves.entomb(0, f"{BORN}-0")
    graves.bury(2, f"{BORN + 1}-0", task_id=task_id)
    page = letters.list(task_id=task_id)
    assert [(one.entry_id, one.replayable) for one in page] == [(f"{BORN + 1}-0", True)]
    assert page.scanned == 1


def test_a_shard_that_is_broken_is_told_of(graves: Graveyard) -> None:
    wanted = graves.bury(1, f"{BORN}-0")
    graves.client.set(graves.key("dlq", 0), "garbage")

    page = DeadLetterQueue(QUEUE).list(task_id=wanted, partial=True)

    assert [letter.task_id for letter in page] == [wanted]
    assert page.unreachable == ((QUEUE, 0),)

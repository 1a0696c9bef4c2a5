"""lua/dead_ids.lua: pages through a shard's dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from django_redq.broker import dead_walk
from django_redq.broker.dead_walk import Filters, Walk
from tests.integration.worlds import NOW, Here

pytestmark = pytest.mark.every_server


def page(here: Here, limit: int = 10, start: str = "", **more: Any) -> tuple[str, list[str]]:
    """(cursor, entry IDs) of one call."""
    now = more.pop("now", str(NOW))
    walk = Walk(here.broker, [here.shard], now=now, **more)
    lane = walk._lanes[0]
    lane.cursor = start or lane.cursor
    cursor, rows, _looked_at = here.run(walk._page(lane, limit))
    return cursor.decode(), [entry_id.decode() for entry_id, _ in rows]


def bury(here: Here, *letters: dict[str, Any]) -> None:
    """Letters 1-1, 1-2, …"""
    for number, letter in enumerate(letters, 1):
        here.client.xadd(here.keys.dlq, letter, id=f"1-{number}")


def some(here: Here, number: int) -> None:
    bury(here, *({"id": f"t{at}", "at": str(at)} for at in range(1, number + 1)))


def test_dead_ids_go_in_the_order_of_the_deaths_or_against_it(here: Here) -> None:
    some(here, 3)
    before = here.world()

    assert page(here) == ("", ["1-1", "1-2", "1-3"])
    assert page(here, newest_first=True) == ("", ["1-3", "1-2", "1-1"])

    assert here.changes(before) == []


@pytest.mark.parametrize("newest_first", [False, True])
def test_dead_ids_follow_a_long_queue_page_by_page(here: Here, newest_first: bool) -> None:
    some(here, 5)

    pages, start = [], ""
    while True:
        start, found = page(here, 2, start, newest_first=newest_first)
        pages.append(found)
        if not start:
            break

    order = [f"1-{number}" for number in range(1, 6)]
    order = order[::-1] if newest_first else order
    assert [found for found in pages if found] == [order[:2], order[2:4], order[4:]]


def test_dead_ids_go_no_further_than_the_end_that_is_asked_for(here: Here) -> None:
    some(here, 3)

    assert page(here, till={here.shard: "1-2"})[1] == ["1-1", "1-2"]


def test_dead_ids_find_letters_by_all_fields_asked_for(here: Here) -> None:
    bury(
        here,
        {"id": "t", "kind": "a", "reason": "exhausted"},
        {"id": "u", "kind": "a", "reason": "rejected"},
        {"id": "v", "kind": "b", "reason": "exhausted"},
        {"colour": "red"},
    )

    assert page(here, filters=Filters(kind="a"))[1] == ["1-1", "1-2"]
    assert page(here, filters=Filters(kind="a", reason="rejected"))[1] == ["1-2"]
    assert page(here, filters=Filters(task_id="v"))[1] == ["1-3"]
    assert page(here, filters=Filters(task_id="nobody")) == ("", [])


def test_dead_ids_look_at_so_many_letters_a_call(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_walk, "MAX_SCAN", 2)
    some(here, 5)

    assert page(here, filters=Filters(task_id="t5")) == ("(1-2", [])
    assert page(here, start="(1-4", filters=Filters(task_id="t5")) == ("", ["1-5"])


@pytest.mark.parametrize("newest_first", [False, True])
def test_dead_ids_find_those_that_died_so_long_ago(here: Here, newest_first: bool) -> None:
    bury(
        here,
        {"id": "t", "at": str(NOW - 3000)},
        {"id": "u", "at": str(NOW - 2000)},
        {"id": "v", "at": str(NOW - 1999)},
        {"id": "w", "at": str(NOW)},
    )

    found = page(here, filters=Filters(older_than_ms=2000), newest_first=newest_first)

    assert sorted(found[1]) == ["1-1", "1-2"]


def test_dead_ids_go_by_the_entry_id_where_a_letter_tells_no_time(here: Here) -> None:
    bury(here, {"id": "t"}, {"id": "u", "at": "rubbish"})

    assert page(here, filters=Filters(older_than_ms=0))[1] == ["1-1", "1-2"]
    assert page(here, filters=Filters(older_than_ms=NOW), now=str(NOW))[1] == []
    assert page(here, filters=Filters(older_than_ms=0), now="")[1] == ["1-1", "1-2"]


def test_dead_ids_return_no_more_than_the_limit_of_those_asked_for(here: Here) -> None:
    bury(here, *({"id": f"t{number}", "kind": "ab"[number % 2]} for number in range(1, 9)))
    odd = Filters(kind="b")

    assert page(here, 2, filters=odd) == ("(1-3", ["1-1", "1-3"])
    assert page(here, 2, "(1-3", filters=odd) == ("(1-7", ["1-5", "1-7"])
    assert page(here, 2, "(1-7", filters=odd) == ("", [])


def test_dead_ids_tell_the_task_that_a_letter_names(here: Here) -> None:
    bury(here, {"id": "t"}, {"colour": "red"})

    walk = Walk(here.broker, [here.shard])

    assert [(place.entry_id, place.task_id) for place in walk.take(5)] == [
        ("1-1", "t"),
        ("1-2", ""),
    ]


def test_dead_ids_of_nothing(here: Here) -> None:
    assert page(here) == ("", [])


@pytest.mark.parametrize("newest_first", [False, True])
def test_dead_ids_look_at_few_letters_where_they_are_large(here: Here, newest_first: bool) -> None:
    bury(here, *({"id": f"t{at}", "error": "x" * 600_000} for at in range(1, 6)))

    cursor, found = page(here, filters=Filters(text="nothing"), newest_first=newest_first)

    assert (cursor, found) == ("(1-4" if newest_first else "(1-2", [])


def test_dead_ids_search_the_beginning_of_an_error(here: Here) -> None:
    bury(
        here,
        {"id": "t", "error": "x" * 65_530 + "NEEDLE"},
        {"id": "u", "error": "x" * 65_535 + "needle"},
    )

    assert page(here, filters=Filters(text="Needle"))[1] == ["1-1"]

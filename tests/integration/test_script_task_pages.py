"""lua/scheduled_page, ready_page, running_page: a shard's tasks by state, page by page, in bounded bytes."""

from __future__ import annotations

from typing import Any

import pytest

from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.task_pages import Row, read_page
from django_redq.task import TaskState
from tests.integration.worlds import GROUP, ME, OTHER, Garbage, Here, Ready, Running, Scheduled

pytestmark = pytest.mark.every_server

SCHEDULED, READY, RUNNING = TaskState.SCHEDULED, TaskState.READY, TaskState.RUNNING


def pages(here: Here, state: TaskState, count: int) -> list[Row]:
    """Page after page, to the end."""
    rows: list[Row] = []
    after = None
    while True:
        page = read_page(here.broker, [here.shard], state, after, count, partial=False)
        assert len(page.rows) <= count
        rows += page.rows
        after = page.cursor
        if after is None:
            return rows


def ids(rows: Any) -> list[str]:
    return [row.task_id for row in rows]


# --- scheduled


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_scheduled_tasks_come_by_due_time_then_id(here: Here, count: int) -> None:
    tasks = [(500, "b"), (500, "a"), (300, "z"), (500, "B"), (900, "m"), (500, "ä"), (500, "aa")]
    here.seed(*(Scheduled(task_id, due) for due, task_id in tasks), neighbours=False)
    before = here.world()

    found = pages(here, SCHEDULED, count)

    assert ids(found) == ["z", "B", "a", "aa", "b", "ä", "m"]
    assert [row.due for row in found] == [300, 500, 500, 500, 500, 500, 900]
    assert here.changes(before) == []


def test_thousands_that_are_due_at_one_time_are_paged_through(here: Here) -> None:
    here.client.zadd(here.keys.delay, {f"t{number}": 1000 for number in range(3000)})

    found = pages(here, SCHEDULED, 700)

    assert ids(found) == sorted(f"t{number}" for number in range(3000))


def test_a_page_goes_on_behind_a_task_that_is_gone(here: Here) -> None:
    here.seed(*(Scheduled(one, 500) for one in "abcd"), neighbours=False)
    page = read_page(here.broker, [here.shard], SCHEDULED, None, 2, partial=False)
    here.client.zrem(here.keys.delay, "b")

    rest = read_page(here.broker, [here.shard], SCHEDULED, page.cursor, 2, partial=False)

    assert ids(rest.rows) == ["c", "d"]


@pytest.mark.parametrize("score", ["inf", "-5", "1.5", "-inf", "1e300"])
def test_a_time_that_no_scheduler_wrote_can_be_paged_over(here: Here, score: str) -> None:
    for name in "abc":
        here.client.zadd(here.keys.delay, {name: score})

    assert ids(pages(here, SCHEDULED, 1)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "after",
    ["", "x", "5", "5:", ":a", "nan:a", "0x5:a", "5 :a", "1_0:a", "9" * 400 + ":a", "5-1.0"],
)
def test_what_is_no_cursor_of_scheduled_tasks_is_told(here: Here, after: str) -> None:
    with pytest.raises(ValueError, match="no cursor"):
        read_page(here.broker, [here.shard], SCHEDULED, after, 2, partial=False)


def test_ids_that_are_no_text_can_be_paged_over(here: Here) -> None:
    for name in (b"\xff", b"\xff\xfe", b"%zz:1", b"z"):
        here.client.zadd(here.keys.delay, {name: 5})

    assert ids(pages(here, SCHEDULED, 1)) == ["%zz:1", "z", "", ""]


# --- ready


@pytest.mark.parametrize("count", [1, 2, 100])
def test_ready_tasks_come_in_order_with_parked_suspects(here: Here, count: int) -> None:
    here.seed(
        Running("parked", "1-2", owner=SUSPECTS_CONSUMER),
        Running("theirs", "1-3", owner=OTHER),
        Running("parked-too", "2-1", owner=SUSPECTS_CONSUMER),
        Ready("first", "3-1"),
        Ready("second", "3-2"),
        neighbours=False,
    )
    before = here.world()

    assert ids(pages(here, READY, count)) == ["parked", "parked-too", "first", "second"]
    assert here.changes(before) == []


def test_ready_tasks_without_a_group_are_all(here: Here) -> None:
    for number in range(5):
        here.client.xadd(here.keys.stream, {"id": f"t{number}"}, f"1-{number + 1}")

    assert ids(pages(here, READY, 2)) == [f"t{number}" for number in range(5)]


def test_an_entry_that_names_no_task_is_shown_as_that(here: Here) -> None:
    here.seed(Garbage("3-1", (("colour", "red"),)), Ready("t", "3-2"), neighbours=False)

    assert ids(pages(here, READY, 1)) == ["", "t"]


def test_a_parked_suspect_whose_entry_is_gone_is_nobodys_task(here: Here) -> None:
    here.seed(Running("parked", "1-2", owner=SUSPECTS_CONSUMER), neighbours=False)
    here.client.xdel(here.keys.stream, "1-2")

    assert pages(here, READY, 5) == []


# --- running


@pytest.mark.parametrize("count", [1, 2, 100])
def test_running_tasks_come_in_order_with_who_holds_them(here: Here, count: int) -> None:
    here.seed(
        Running("a", "1-1", owner=OTHER, count=2, idle=5000, state="1 0 3 1-9 []"),
        Running("parked", "1-2", owner=SUSPECTS_CONSUMER),
        Running("b", "2-1"),
        Ready("ready", "3-1"),
        neighbours=False,
    )
    before = here.world()

    found = pages(here, RUNNING, count)

    assert [(row.task_id, row.consumer, row.attempts) for row in found] == [
        ("a", OTHER, 3),
        ("b", ME, 1),
    ]
    assert found[0].idle is not None
    assert found[0].idle >= 5000
    assert here.changes(before) == []


@pytest.mark.parametrize("count", [1, 3, 100])
def test_rows_that_are_nobodys_task_are_passed_over(here: Here, count: int) -> None:
    here.seed(*(Running(f"t{n}", f"1-{n}") for n in range(1, 9)), neighbours=False)
    for number in (1, 2, 3, 5, 6, 7):
        here.client.xdel(here.keys.stream, f"1-{number}")

    assert ids(pages(here, RUNNING, count)) == ["t4", "t8"]


def test_nothing_runs_where_there_is_no_group(here: Here) -> None:
    here.client.xadd(here.keys.stream, {"id": "t"})

    assert pages(here, RUNNING, 5) == []


@pytest.mark.parametrize("state", [READY, RUNNING])
@pytest.mark.parametrize(
    "after", ["", "x", "5", "5-1", "5-1.", "5-1.x", "x-1.0", "5-1.99999", "1:a"]
)
def test_what_is_no_cursor_of_entries_is_told(here: Here, state: TaskState, after: str) -> None:
    with pytest.raises(ValueError, match="no cursor"):
        read_page(here.broker, [here.shard], state, after, 2, partial=False)


@pytest.mark.parametrize("state", [READY, RUNNING])
@pytest.mark.parametrize(
    "after", ["0-0.0", "0-0.9", "0-5.0", "9223372036854775807-9223372036854775807.0"]
)
def test_a_cursor_at_either_end_is_taken(here: Here, state: TaskState, after: str) -> None:
    here.seed()

    read_page(here.broker, [here.shard], state, after, 2, partial=False)


# --- what is shown


@pytest.mark.parametrize(
    ("record", "at", "kind"),
    [
        ('{"at":5,"due":7,"kind":"greet","payload":{}}', 5, "greet"),
        ('{"at":5,"kind":"greet","payload":{}}', 5, "greet"),
        ('{"at":5,"payload":{"kind":"no"}}', 5, ""),
        ('{"at":5,"due":7,"payload":{}}', 5, ""),
        ("rubbish", None, ""),
        ("", None, ""),
        ('{"at":' + "9" * 50 + "}", None, ""),
    ],
)
def test_a_row_tells_what_the_head_of_a_record_tells(
    here: Here, record: str, at: int | None, kind: str
) -> None:
    here.seed(Scheduled("t", 500, state="2 0 3 1-1 []"), neighbours=False)
    here.client.hset(here.keys.payload, "t", record)

    [row] = pages(here, SCHEDULED, 5)

    assert (row.at, row.kind, row.attempts) == (at, kind, 2)


@pytest.mark.parametrize("state", ["", "rubbish", "9" * 100 + " 0 3 - []", "-1 0"])
def test_a_garbled_state_counts_as_what_can_be_read(here: Here, state: str) -> None:
    here.seed(Ready("t", "3-1", state=state), neighbours=False)

    assert ids(pages(here, READY, 5)) == ["t"]


def test_large_payloads_are_not_transferred(here: Here) -> None:
    here.seed(
        *(Scheduled(f"s{n}", 500) for n in range(50)),
        *(Ready(f"r{n}", f"3-{n + 1}") for n in range(50)),
        *(Running(f"x{n}", f"2-{n + 1}") for n in range(50)),
        neighbours=False,
    )
    big = '{"at":5,"kind":"k","payload":"' + "x" * 262_144 + '"}'
    for name in here.client.hkeys(here.keys.payload):
        here.client.hset(here.keys.payload, name, big)
    before = int(here.client.info("stats")["total_net_output_bytes"])

    for state in (SCHEDULED, READY, RUNNING):
        assert {row.kind for row in pages(here, state, 50)} == {"k"}

    assert int(here.client.info("stats")["total_net_output_bytes"]) - before < 150_000


def test_the_group_is_that_of_the_settings(here: Here) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)

    assert here.client.xinfo_groups(here.keys.stream)[0]["name"] == GROUP.encode()
    assert len(pages(here, RUNNING, 5)) == 1


def test_running_tasks_behind_many_parked_ones_are_found(here: Here) -> None:
    parked = [Running(f"p{n}", f"2-{n}", owner=SUSPECTS_CONSUMER) for n in range(1, 251)]
    here.seed(*parked, Running("t", "2-900", owner=ME), neighbours=False)

    assert ids(pages(here, RUNNING, 1)) == ["t"]


def test_megabytes_that_somebody_took_for_an_id_are_not_transferred(here: Here) -> None:
    huge = "x" * 2_000_000
    here.client.zadd(here.keys.delay, {huge: 500, huge + "y": 500, "a": 400, "z": 600})
    here.seed(Garbage("3-5", (("id", huge),)), neighbours=False)
    here.client.delete(here.keys.entry)

    for state in (SCHEDULED, READY):
        before = here.client.info("stats")["total_net_output_bytes"]
        found = pages(here, state, 1)
        read = here.client.info("stats")["total_net_output_bytes"] - before
        assert read < 100_000
        assert all(len(row.task_id) < 2000 for row in found)
    assert [ids(pages(here, SCHEDULED, 1))[at] for at in (0, -1)] == ["a", "z"]

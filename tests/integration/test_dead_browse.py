"""Pages of dead letters over several queues, cut short, and within bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from django_redq import DeadLetterQueue, InvalidArgument, UnknownQueue
from django_redq.dead_letters import DeadLetter, DeadLetterPage, browse
from tests.harness import Redq
from tests.integration.graves import BORN

QUEUES = {"email": 2, "sms": 3, "push": 1}
SHARDS = [(queue, shard) for queue, shards in QUEUES.items() for shard in range(shards)]


@pytest.fixture(autouse=True)
def queues(redq: Redq) -> None:
    redq.configure(queues={name: {"SHARDS": shards} for name, shards in QUEUES.items()})


def bury(redq: Redq, queue: str, shard: int, entry_id: str, **fields: Any) -> None:
    """A letter whose task is not there: the pages show it all the same."""
    redq.client.xadd(redq.key(queue, shard, "dlq"), {"id": f"t{entry_id}", **fields}, entry_id)


def bury_everywhere(redq: Redq, rounds: int) -> list[str]:
    """Letters in turn over all shards of all queues; their IDs in the order of deaths."""
    ids = []
    for number in range(rounds):
        for at, (queue, shard) in enumerate(SHARDS):
            ids.append(f"{number + 1}-{at + 1}")
            bury(redq, queue, shard, ids[-1])
    return ids


def entries(page: DeadLetterPage) -> list[str]:
    return [letter.entry_id for letter in page]


def all_of(count: int, **options: Any) -> list[DeadLetter]:
    """Page after page."""
    found: list[DeadLetter] = []
    after = None
    while True:
        page = browse(after=after, count=count, **options)
        assert len(page) <= count
        found += page
        after = page.cursor
        if after is None:
            return found


# --- several queues


@pytest.mark.parametrize("count", [1, 4, 7, 100])
@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_meet_the_letters_of_all_queues_in_the_order_of_deaths(
    redq: Redq, count: int, newest_first: bool
) -> None:
    ids = bury_everywhere(redq, 4)

    found = all_of(count, newest_first=newest_first)

    assert [letter.entry_id for letter in found] == (ids[::-1] if newest_first else ids)
    assert {letter.queue for letter in found} == set(QUEUES)
    assert [
        (letter.queue, letter.shard) for letter in all_of(100, newest_first=False)[:6]
    ] == SHARDS


@pytest.mark.parametrize("newest_first", [True, False])
def test_letters_of_one_entry_id_are_met_once_each(redq: Redq, newest_first: bool) -> None:
    for queue, shard in SHARDS:
        bury(redq, queue, shard, "5-1")

    found = [(letter.queue, letter.shard) for letter in all_of(1, newest_first=newest_first)]

    assert found == (SHARDS[::-1] if newest_first else SHARDS)


def test_some_queues_are_looked_at_where_some_are_named(redq: Redq) -> None:
    bury_everywhere(redq, 1)

    assert {letter.queue for letter in browse(["email", "push"])} == {"email", "push"}
    assert len(browse(["sms"], shard=1)) == 1
    assert len(DeadLetterQueue("sms").list()) == 3


def test_filters_hold_over_all_queues(redq: Redq) -> None:
    for queue, shard in SHARDS:
        bury(redq, queue, shard, "1-1", kind="a", error="No LUCK today")
        bury(redq, queue, shard, "1-2", kind="b")

    assert len(all_of(4, kind="a")) == len(all_of(4, text="luck t")) == len(SHARDS)


def test_what_makes_no_sense_is_told() -> None:
    with pytest.raises(UnknownQueue):
        browse(["nobody"])
    with pytest.raises(InvalidArgument, match="shard: is of one queue"):
        browse(shard=1)
    with pytest.raises(InvalidArgument, match="shard"):
        browse(["email"], shard=2)
    with pytest.raises(InvalidArgument, match="after"):
        browse(after="rubbish")


def test_a_cursor_of_any_page_is_taken(redq: Redq) -> None:
    bury_everywhere(redq, 2)

    for after in ("9-9.99", "0-0.0", "1-1.5"):
        browse(after=after)


# --- brief


def test_a_brief_page_shows_what_a_list_needs(redq: Redq) -> None:
    record = '{"at":1,"payload":null,"key":"k"}'
    long = "ä" * 500
    bury(redq, "push", 0, "1-1", error=long, traceback=long, key="k", kind=long, consumer="c-1")
    redq.client.hset(redq.key("push", 0, "payload"), "t1-1", record)
    redq.client.hset(redq.key("push", 0, "entry"), "t1-1", "dlq 1-1")

    [letter] = browse(brief=True)

    assert (letter.task_id, letter.replayable, letter.idempotency_key) == ("t1-1", True, "k")
    assert letter.error == letter.kind == "ä" * 150
    assert (letter.traceback, letter.task, letter.failures) == ("", None, ())
    [whole] = browse()
    assert whole.error == long
    assert whole.task is not None


def test_a_brief_page_transfers_little_whatever_lies_there(redq: Redq) -> None:
    huge = "x" * 5_000_000
    bury(redq, "push", 0, "1-1", error=huge)
    redq.client.xadd(redq.key("push", 0, "dlq"), {f"f{n}": "x" for n in range(1000)}, "1-2")
    bury(redq, "push", 0, "1-3", **{"y" * 100_000: huge})
    before = int(redq.client.info("stats")["total_net_output_bytes"])

    page = browse(brief=True)

    assert len(page) == 3
    assert int(redq.client.info("stats")["total_net_output_bytes"]) - before < 50_000


@pytest.mark.parametrize("place", [None, "dlq 9-9", "1-1"])
def test_a_brief_letter_without_a_task_cannot_be_replayed(redq: Redq, place: str | None) -> None:
    bury(redq, "push", 0, "1-1")
    if place is not None:
        redq.client.hset(redq.key("push", 0, "entry"), "t1-1", place)
        redq.client.hset(redq.key("push", 0, "payload"), "t1-1", "{}")

    assert [letter.replayable for letter in browse(brief=True)] == [False]


# --- bounded


def test_a_search_ends_where_so_many_were_looked_at_and_goes_on_from_there(redq: Redq) -> None:
    for number in range(1000):
        bury(redq, "push", 0, f"{BORN + number}-0", kind="ab"[number == 17])
        bury(redq, "email", 1, f"{BORN + number}-0")

    pages, after = [], None
    while not pages or after:
        pages.append(browse(kind="b", after=after, max_scan=400, count=5))
        after = pages[-1].cursor

    assert len(pages) > 3
    assert [letter.entry_id for page in pages for letter in page] == [f"{BORN + 17}-0"]
    assert all(300 <= page.scanned <= 700 for page in pages[:-1])
    reached = [page.reached for page in pages]
    assert reached[-1] is None
    times = [moment for moment in reached if moment is not None]
    assert times == sorted(times, reverse=True)
    assert all(moment > datetime.fromtimestamp(BORN / 1000, UTC) for moment in times)


def test_a_page_that_is_full_before_that_tells_of_no_end(redq: Redq) -> None:
    for number in range(100):
        bury(redq, "push", 0, f"{BORN + number}-0", kind="a")

    page = browse(kind="a", count=5, max_scan=100_000)

    assert (len(page), page.reached) == (5, None)
    assert page.cursor is not None


def test_letters_that_lie_unevenly_are_met_in_order_all_the_same(redq: Redq) -> None:
    ids = []
    for number in range(300):
        shard = ("push", 0) if number % 10 else ("sms", 2)
        ids.append(f"{BORN + number}-0")
        bury(redq, *shard, ids[-1], kind="a" if number % 3 else "b")
    wanted = [entry_id for number, entry_id in enumerate(ids) if number % 3 == 0][::-1]

    found = all_of(7, kind="b", max_scan=20)

    assert [letter.entry_id for letter in found] == wanted


# --- bad times


def break_shard(redq: Redq, queue: str, shard: int) -> None:
    redq.client.delete(redq.key(queue, shard, "dlq"))
    redq.client.set(redq.key(queue, shard, "dlq"), "no stream")


def test_a_shard_that_does_not_answer_is_left_out_where_that_will_do(redq: Redq) -> None:
    bury_everywhere(redq, 2)
    break_shard(redq, "sms", 1)

    page = browse(partial=True)
    assert len(page) == 2 * (len(SHARDS) - 1)
    assert page.unreachable == (("sms", 1),)
    with pytest.raises(redis.ResponseError):
        browse()
    for queue, shard in SHARDS:
        break_shard(redq, queue, shard)
    with pytest.raises(redis.ResponseError):
        browse(partial=True)

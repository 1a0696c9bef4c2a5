"""Bulk work in the admin: how far it is, what became of it, and stop."""

from __future__ import annotations

from typing import Any

import pytest

from django_redq import DeadLetterQueue
from django_redq.scheduler.scheduler import Scheduler
from tests.integration.admin.visitors import Page, Visitor, address, logged
from tests.integration.graves import QUEUE, Graveyard


def show(visitor: Visitor, bulk: Any, **query: str) -> Page:
    return visitor.get("bulk", queue=bulk.queue, id=bulk.id, **query)


def refreshes(page: Page) -> bool:
    return any(one.get("http-equiv") == "refresh" for one in page.all("meta"))


def test_work_that_waits_is_looked_at_again_by_itself(graves: Graveyard, boss: Visitor):
    graves.bury(0)
    bulk = DeadLetterQueue(QUEUE).start_replay(kind="", by="somebody")

    page = show(boss, bulk)

    assert refreshes(page)
    assert "0 replayed of 1." in page.content
    assert "by somebody" in page.content
    assert "No scheduler runs for this queue." in page.content
    still = boss.open(address("bulk") + page.link("Hold still").partition(address("bulk"))[2])
    assert not refreshes(still)
    assert refreshes(boss.open(still.link("Look again by itself")))


def test_what_became_of_it_is_told_in_words(graves: Graveyard, boss: Visitor):
    for number in range(3):
        graves.bury(0, f"{number + 1}-0")
    graves.entomb(1)
    bulk = DeadLetterQueue(QUEUE).start_replay()
    Scheduler(QUEUE).run_once()

    page = show(boss, bulk)

    assert not refreshes(page)
    assert "3 replayed" in page.content
    assert "Done" in [("".join(one.itertext())).strip() for one in page.all("h2")]
    assert "Stop" not in page.content
    [progress] = page.all("progress")
    assert progress.get("value") == progress.get("max")


def test_it_is_stopped_by_a_button_and_logged(graves: Graveyard, boss: Visitor):
    graves.bury(0)
    bulk = DeadLetterQueue(QUEUE).start_discard()
    page = show(boss, bulk)

    sent = boss.post(
        "bulk_stop", {"queue": page.hidden()["queue"][0], "id": page.hidden()["id"][0]}
    )

    after = boss.follow(sent)
    assert after.messages == ["It was stopped. What was done until then stays done."]
    assert not refreshes(after)
    assert DeadLetterQueue(QUEUE).bulk(bulk.id).is_over
    assert logged() == [(QUEUE, f"Stopped bulk work {bulk.id}")]
    again = boss.follow(boss.post("bulk_stop", {"queue": QUEUE, "id": bulk.id}))
    assert again.messages == ["It had ended already."]


def test_stopping_wants_the_right_to_what_it_does(graves: Graveyard):
    graves.bury(0)
    bulk = DeadLetterQueue(QUEUE).start_discard()
    replayer = Visitor("view", "replay")

    page = show(replayer, bulk)

    assert "Stop" not in page.content
    assert replayer.post("bulk_stop", {"queue": QUEUE, "id": bulk.id}).status == 403
    assert replayer.client.post(address("bulk_stop")).status_code == 403
    assert replayer.get("bulk_stop").status == 405
    assert not DeadLetterQueue(QUEUE).bulk(bulk.id).is_over


def test_the_list_has_the_newest_first(graves: Graveyard, boss: Visitor):
    graves.bury(0)
    first = DeadLetterQueue(QUEUE).start_replay(kind="a")
    second = DeadLetterQueue(QUEUE).start_discard(reason="rejected", text="<b>")

    page = boss.get("bulks")

    [newer, older] = page.rows()
    assert newer[0] == f"Discard: {QUEUE} Reason: rejected by its handler; Text in the error: <b>"
    assert older[0] == f"Replay: {QUEUE} Kind: a"
    assert second.id in page.link("Discard")
    assert first.id in page.link(f"Replay: {QUEUE}")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"queue": "none"},
        {"queue": QUEUE},
        {"queue": QUEUE, "id": "\0"},
        {"queue": QUEUE, "id": "x" * 9000},
    ],
)
def test_an_address_that_names_none_is_answered_in_words(
    graves: Graveyard, boss: Visitor, query: dict[str, str]
):
    assert boss.get("bulk", **query).status in {400, 404}
    assert boss.post("bulk_stop", query).status in {302, 400, 404}


def test_a_broken_record_breaks_no_page(graves: Graveyard, boss: Visitor):
    bulk = DeadLetterQueue(QUEUE).start_replay()
    graves.client.hset(graves.key("bulk", 0), bulk.id, "{broken")
    graves.client.hset(graves.key("bulk", 0), "\x00<b>", "\xff")

    assert boss.get("bulks").status == 200
    assert show(boss, bulk).status in {200, 404}

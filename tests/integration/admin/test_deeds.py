"""Replay and discard from the pages: the question, the answer, and who may."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from django_redq import DeadLetterQueue, get_task
from django_redq.broker.keys import shard_of
from django_redq.dead_letters import DeadLetter
from tests.integration.admin.visitors import Page, Visitor, address, logged
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard

EVERYTHING = ("replay-selected", "discard-selected", "replay-matching", "discard-matching")


def ask(visitor: Visitor, act: str, *letters: DeadLetter, **query: Any) -> Page:
    """Presses a button of the list."""
    values = [f"{one.queue}:{one.ref}" for one in letters]
    return visitor.post("dead_action", {"act": act, "letter": values, **query})


def stored() -> list[DeadLetter]:
    return [*DeadLetterQueue(QUEUE).list(newest_first=False)]


def due(task_id: str) -> datetime | None:
    info = get_task(QUEUE, task_id)
    assert info is not None
    return info.run_at


# --- what was ticked ---------------------------------------------------------------------------


def test_the_question_says_how_many_how_old_and_which_queues(graves: Graveyard, boss: Visitor):
    graves.bury(0, f"{BORN}-0")
    graves.bury(1, f"{BORN + 60_000}-0")
    before = graves.left(0), graves.left(1)

    question = ask(boss, "discard-selected", *stored())

    assert question.title == "Discard 2 dead letters?"
    [[queue, number, oldest, newest]] = question.rows()
    assert (queue, number) == (QUEUE, "2")
    times = [one.get("datetime") for one in question.all("time")]
    assert times == ["2023-11-14T22:13:20+00:00", "2023-11-14T22:14:20+00:00"]
    assert oldest.endswith("ago")
    assert newest.endswith("ago")
    # Nothing is done by asking.
    assert (graves.left(0), graves.left(1)) == before
    assert logged() == []


def test_what_was_ticked_is_replayed_at_once(graves: Graveyard, boss: Visitor):
    gone, kept = graves.bury(0, "1-0"), graves.bury(0, "2-0")

    sent = boss.answer(ask(boss, "replay-selected", stored()[0], queue=QUEUE))

    assert sent.location == f"{address('dead')}?queue={QUEUE}"
    assert boss.follow(sent).messages == ["1 replayed."]
    assert [one.task_id for one in stored()] == [kept]
    assert due(gone) is None
    assert logged() == [(QUEUE, f"1 replayed: {gone}")]


def test_what_was_ticked_can_run_later_and_spread(graves: Graveyard, boss: Visitor):
    ids = [graves.bury(0, f"{number}-0") for number in (1, 2, 3)]

    question = ask(boss, "replay-selected", *stored())
    boss.answer(question, run_at="2999-01-01T00:00", spread="10")

    start = datetime(2999, 1, 1, tzinfo=UTC)
    found = sorted((due(one) or start) - start for one in ids)
    assert found[0].total_seconds() < 60
    assert 500 < found[-1].total_seconds() <= 600


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"run_at": "2001-01-01T00:00"}, "This time has passed."),
        ({"run_at": "\0"}, "Enter a valid date/time."),
        ({"spread": "-1"}, "greater than or equal to 0"),
        ({"spread": "1e9"}, "less than or equal to"),
        ({"spread": "nan"}, "Enter a number."),
    ],
)
def test_a_time_that_cannot_be_is_asked_for_again(
    graves: Graveyard, boss: Visitor, fields: dict[str, str], said: str
):
    graves.bury(0)
    question = ask(boss, "replay-selected", *stored())

    again = boss.answer(question, **fields)

    assert again.status == 400
    assert said in again.content
    assert again.hidden() == question.hidden()
    assert len(stored()) == 1


def test_the_results_are_told_in_words(graves: Graveyard, boss: Visitor):
    for number in range(3):
        graves.bury(0, f"{number + 1}-0")
    graves.entomb(0, "9-0")
    letters = stored()
    question = ask(boss, "replay-selected", *letters)
    DeadLetterQueue(QUEUE).discard(letters[0].task_id)

    sent = boss.answer(question)

    words = "2 replayed, 1 not found, 1 cannot be replayed (its payload is missing)"
    assert boss.follow(sent).messages == [f"{words}."]
    assert logged()[0][1].startswith(f"{words}: ")


def test_an_answer_sent_twice_does_it_once(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0)
    question = ask(boss, "replay-selected", *stored())

    boss.answer(question)
    again = boss.answer(question)

    assert boss.follow(again).messages == ["1 replayed.", "0 replayed, 1 not found."]
    assert [said for _queue, said in logged()] == [
        f"1 replayed: {task_id}",
        f"0 replayed, 1 not found: {task_id}",
    ]


def test_nothing_ticked_is_said(graves: Graveyard, boss: Visitor):
    sent = ask(boss, "replay-selected", queue=QUEUE)

    assert boss.follow(sent).messages == ["Nothing was selected, so nothing was done."]


# --- all that match ----------------------------------------------------------------------------


def test_all_that_match_become_bulk_work(graves: Graveyard, boss: Visitor):
    for number in range(3):
        graves.bury(number, f"{BORN + number}-0", kind="welcome", error="refused", at=BORN + number)
    graves.bury(0, kind="bill", error="refused")

    question = ask(boss, "replay-matching", kind="welcome", text="REFUSED")

    assert question.title == "Replay 3 dead letters?"
    assert "Kind: welcome" in question.content
    assert "Text in the error: REFUSED" in question.content
    sent = boss.answer(question, run_at="2999-01-01T00:00", spread="10")
    [bulk] = DeadLetterQueue(QUEUE).bulks()
    assert sent.location == f"{address('bulk')}?queue={QUEUE}&id={bulk.id}"
    assert (bulk.by, bulk.expected, bulk.spread) == ("super", 3, 600)
    assert bulk.run_at == datetime(2999, 1, 1, tzinfo=UTC)
    assert {"kind": "welcome", "text": "REFUSED"}.items() <= bulk.which.items()
    [(queue, said)] = logged()
    assert queue == QUEUE
    assert said.startswith("Began to replay all dead letters that match: ")
    assert bulk.id in said


def test_what_dies_after_the_question_is_not_meant(graves: Graveyard, boss: Visitor):
    graves.bury(0, f"{BORN}-0", at=BORN)
    question = ask(boss, "discard-matching", reason="exhausted")
    graves.bury(1, f"{BORN + 1}-0", at=BORN + 1)

    boss.answer(question)

    [bulk] = DeadLetterQueue(QUEUE).bulks()
    assert bulk.which["until"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert bulk.expected == 1


def test_an_answer_sent_twice_begins_one_bulk(graves: Graveyard, boss: Visitor):
    graves.bury(0)
    question = ask(boss, "discard-matching")

    first, second = boss.answer(question), boss.answer(question)

    assert first.location == second.location
    assert len(DeadLetterQueue(QUEUE).bulks()) == 1


def test_a_count_that_has_no_end_says_at_least(
    graves: Graveyard, boss: Visitor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_redq.admin.deeds.MAX_SCAN", 100)
    graves.bury_many(250)

    question = ask(boss, "discard-matching", reason="exhausted")

    assert question.title == "Discard at least 100 dead letters?"
    assert question.rows()[0][1] == "at least 100"
    # Whatever is beyond was not counted, so it cannot be left out by the newest that was.
    assert "counted_until" not in question.hidden()


def test_nothing_that_matches_is_nothing_to_confirm(graves: Graveyard, boss: Visitor):
    question = ask(boss, "discard-matching", kind="none-such")

    assert "there is nothing to do" in question.content
    assert not question.values("confirmed")


def test_several_queues_get_bulk_work_each(graves: Graveyard, redq: Any, boss: Visitor):
    redq.configure(
        queues={QUEUE: {"SHARDS": SHARDS}, "other": {"SHARDS": 1}, "idle": {"SHARDS": 1}}
    )
    graves.bury(0)
    redq.client.xadd(redq.key("other", 0, "dlq"), {"id": "x", "reason": "exhausted"})

    question = ask(boss, "discard-matching")
    sent = boss.answer(question)

    assert [row[:2] for row in question.rows()] == [[QUEUE, "1"], ["other", "1"]]
    assert sent.location == address("bulks")
    assert {queue for queue, _said in logged()} == {QUEUE, "other"}
    assert not DeadLetterQueue("idle").bulks()


def test_too_much_bulk_work_is_told(graves: Graveyard, boss: Visitor):
    graves.bury(0)
    for _ in range(10):
        DeadLetterQueue(QUEUE).start_discard()

    sent = boss.answer(ask(boss, "discard-matching"))

    [said] = boss.follow(sent).messages
    assert said.startswith(f"{QUEUE.capitalize()}: 10 bulks")
    assert logged() == []


# --- who may, and what is no question of ours --------------------------------------------------


@pytest.mark.parametrize("act", EVERYTHING)
def test_each_action_wants_its_permission(graves: Graveyard, act: str):
    graves.bury(0)
    action = act.partition("-")[0]
    other = {"replay": "discard", "discard": "replay"}[action]
    lacking, having = Visitor("view", other), Visitor("view", action)

    asked = ask(lacking, act, *stored())
    answered = ask(lacking, act, *stored(), confirmed="yes")

    assert (asked.status, answered.status) == (403, 403)
    assert len(stored()) == 1
    assert act in having.get("dead").buttons()
    assert act not in lacking.get("dead").buttons()
    assert ask(having, act, *stored()).status == 200


@pytest.mark.parametrize("act", EVERYTHING)
def test_without_a_token_nothing_is_done(graves: Graveyard, boss: Visitor, act: str):
    graves.bury(0)
    [letter] = stored()
    data = {"act": act, "letter": f"{QUEUE}:{letter.ref}", "confirmed": "yes", "part": QUEUE}

    response = boss.client.post(address("dead_action"), data)

    assert response.status_code == 403
    assert len(stored()) == 1
    assert not DeadLetterQueue(QUEUE).bulks()


def test_asking_by_get_leads_to_the_list(graves: Graveyard, boss: Visitor):
    graves.bury(0)

    assert boss.get("dead_action", act="discard-matching", confirmed="yes").location == address(
        "dead"
    )
    assert len(stored()) == 1


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"act": "explode-selected"},
        {"act": "replay-"},
        {"act": "replay-selected", "letter": "nonsense"},
        {"act": "replay-selected", "letter": f"{QUEUE}:0:1-0:a b"},
        {"act": "replay-selected", "letter": f"{QUEUE}:99:1-0:t", "confirmed": "yes"},
        {"act": "replay-selected", "letter": "none-such:0:1-0:t", "confirmed": "yes"},
        {"act": "replay-matching", "queue": "none-such"},
        {"act": "replay-matching", "since": "never"},
        {"act": "discard-matching", "confirmed": "yes", "bulk_id": "\0", "part": QUEUE},
        {"act": "discard-matching", "confirmed": "yes", "counted_until": "9" * 99, "part": QUEUE},
    ],
)
def test_a_form_that_is_none_of_ours_changes_nothing(
    graves: Graveyard, boss: Visitor, data: dict[str, Any]
):
    graves.bury(0)

    page = boss.post("dead_action", data)

    assert page.status in {302, 400, 404}
    assert len(stored()) == 1


def test_a_task_id_of_any_printable_characters_goes_through(graves: Graveyard, boss: Visitor):
    wild = next(
        name
        for name in (f"a/../%2e%00?b=1&c#d;\"'<é:{number}" for number in range(100))
        if shard_of(name, SHARDS) == 0
    )
    graves.bury(0, task_id=wild)

    letter = boss.open(boss.get("dead").link("attempts exhausted"))
    boss.answer(boss.post("dead_action", {**letter.hidden(), "act": "discard-selected"}))

    assert wild in letter.content
    assert stored() == []
    assert logged() == [(QUEUE, f"1 discarded: {wild}")]


def test_what_breaks_off_is_in_the_log(
    graves: Graveyard, boss: Visitor, monkeypatch: pytest.MonkeyPatch
):
    task_id = graves.bury(0)
    question = ask(boss, "discard-selected", *stored())

    def fail(*args: object) -> int:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(DeadLetterQueue, "discard_letters", fail)
    page = boss.answer(question)

    assert page.status == 503
    assert "It is not known whether it was done." in page.content
    assert logged() == [(QUEUE, f"Broke off, done in part or not at all: {task_id}")]

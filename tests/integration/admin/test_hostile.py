"""What strangers write into Redis is inert on every page, and cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from django_redq import DeadLetterQueue
from django_redq.broker.keys import shard_of
from django_redq.scheduler.scheduler import Scheduler
from tests.integration.admin.visitors import Page, Visitor, logged
from tests.integration.graves import QUEUE, SHARDS, Graveyard

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><b onmouseover=alert(1)>"
TEMPLATE = "{{ 4321|add:4321 }}{% now 'Y' %}{{ settings.SECRET_KEY }}"
TERMINAL = "\x1b[2J\x1b]0;title\x07\x00\x7f\x9b"
TURNED = "\u202egnp.exe\u2066\u200b\ufeff\u2028"
EVIL = f"javascript:alert(1) {MARKUP} {TEMPLATE} {TERMINAL} {TURNED}"
PRINTABLE = f"<script>alert(1)</script>\"'><i>javascript:alert(1)%00/../{TURNED[1:4]}"
LARGE = 5_000_000
ROOM = 300_000
"""Bytes of a page, whatever lies in Redis."""


def wild_id() -> str:
    """A task ID as our own rule allows it, of shard 0."""
    names = (f"{PRINTABLE}{number}" for number in range(100))
    return next(name for name in names if shard_of(name, SHARDS) == 0)


def check(page: Page) -> None:
    """The page itself is valid, with nothing inline: that was looked at when it was parsed."""
    assert page.status in {200, 302, 400, 404}
    assert len(page.text) < ROOM
    assert "8642" not in page.text
    assert "for tests only" not in page.text
    bad = {one for one in page.text if not one.isprintable() and one not in "\n\t\r"}
    assert not bad
    if page.tree is not None:
        assert not [one for one in page.all("script") if "alert" in "".join(one.itertext())]
        assert not page.all("b")
        assert not [one for one in page.all("img") if one.get("src") == "x"]


def bury_evil(graves: Graveyard, evil: str, task_id: str, **fields: Any) -> None:
    record = {
        "at": 1,
        "payload": {evil: [evil, {"deep": evil}]},
        "key": evil,
        "meta": {evil: evil},
        "kind": evil,
    }
    graves.bury(
        0,
        task_id=task_id,
        record=json.dumps(record),
        reason=evil,
        kind=evil,
        error=evil,
        type=evil,
        traceback=evil,
        key=evil,
        consumer=evil,
        **fields,
    )
    failure = {"exception_type": evil, "error": evil, "traceback": evil, "attempt": 1, "at": 1}
    graves.client.hset(graves.key("state", 0), task_id, f"1 0 3 1-1 {json.dumps([failure])}")
    graves.client.hset(graves.key("groups", 0), f"x {evil}", "1 1 1")


def tour(visitor: Visitor, task_id: str) -> Iterator[Page]:
    """Every page of dead letters, with what can be pressed on them."""
    listed = visitor.get("dead")
    yield listed
    yield visitor.get("dead", pick="page", order="oldest")
    yield visitor.get("groups")
    [value] = listed.values("letter")
    entry = value.split(":")[2]
    query = {"queue": QUEUE, "task": task_id, "entry": entry}
    yield visitor.get("letter", **query)
    yield visitor.get("letter_edit", **query)
    for act in ("replay-selected", "discard-matching"):
        yield visitor.post("dead_action", {"act": act, "letter": value, "reason": ""})
    yield visitor.post(
        "dead_action", {"act": "discard-selected", "letter": value, "confirmed": "y"}
    )
    yield visitor.get("dead")
    yield visitor.get("letter", **query)


@pytest.mark.parametrize("task_id", ["plain", wild_id()])
def test_hostile_text_is_inert_on_every_page(graves: Graveyard, boss: Visitor, task_id: str):
    task_id = task_id if task_id != "plain" else graves.bury(0)
    DeadLetterQueue(QUEUE).purge()
    bury_evil(graves, EVIL, task_id)

    pages = [*tour(boss, task_id)]

    for page in pages:
        check(page)
    assert DeadLetterQueue(QUEUE).count() == 0
    assert [said for _queue, said in logged()] == [f"1 discarded: {task_id}"]


def test_megabytes_are_cut_on_every_page(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0)
    DeadLetterQueue(QUEUE).purge()
    bury_evil(graves, "<b>" + "E" * LARGE, task_id)

    for page in tour(boss, task_id):
        check(page)


def test_an_entry_of_a_stranger_is_shown_and_can_be_discarded(graves: Graveyard, boss: Visitor):
    graves.litter(
        0, "5-0", {"id": EVIL, EVIL: EVIL, "error": b"\xff\xfe", "at": "-1", "type": "\0"}
    )
    graves.litter(1, "6-0", {"attempts": "9" * 5000, "at": "9" * 5000})

    listed = boss.get("dead")
    letters = [boss.open(row.get("href")) for row in _letters(listed)]

    assert len(letters) == 2
    for page in (listed, boss.get("groups"), *letters):
        check(page)
        assert page.status == 200
    question = boss.post("dead_action", {**letters[0].hidden(), "act": "discard-selected"})
    boss.answer(question)
    assert DeadLetterQueue(QUEUE).count() == 1


def _letters(page: Page) -> list[Any]:
    return [one for one in page.all("a") if "/dead/letter/" in one.get("href")]


def test_a_group_that_no_filter_can_name_offers_nothing(graves: Graveyard, boss: Visitor):
    graves.client.hset(graves.key("groups", 0), "kind " + "x" * LARGE, "1 1 1")
    graves.client.hset(graves.key("groups", 0), f"kind {EVIL}", "1 1 1")
    graves.client.hset(graves.key("groups", 0), b"\xff\xfe", "no count")

    page = boss.get("groups")

    check(page)
    assert page.buttons() == []
    assert len(page.rows()) == 2


@pytest.mark.parametrize("name", ["kind", "exception_type", "text", "task_id", "idempotency_key"])
def test_a_hostile_filter_is_inert(graves: Graveyard, boss: Visitor, name: str):
    graves.bury(0)
    harmless = f"{MARKUP}{TEMPLATE}\u202e"

    for value in (EVIL, harmless, "%00", "\0", "\x1b[2J", "x" * 5000):
        page = boss.get("dead", **{name: value})
        assert page.status in {200, 400}
        text = page.text.replace("\u202e", "")
        assert "8642" not in text
        assert not {
            one
            for one in text
            if not one.isprintable() and one not in "\n\t\r\u2066\u200b\ufeff\u2028"
        }
        assert not page.all("b")


def test_bulk_work_that_bears_hostile_words(graves: Graveyard, boss: Visitor):
    graves.bury(0)
    letters = DeadLetterQueue(QUEUE)
    bulk = letters.start_replay(by=EVIL, text=EVIL, kind="<b>")
    large = letters.start_replay(by="<b>" + "x" * 190, text="y" * 5_000)
    Scheduler(QUEUE).run_once()

    for page in (
        boss.get("bulks"),
        boss.get("bulk", queue=QUEUE, id=bulk.id),
        boss.get("bulk", queue=QUEUE, id=large.id),
    ):
        check(page)
        assert page.status == 200


def test_hostile_words_of_an_error_are_inert_in_the_frame(graves: Graveyard, boss: Visitor):
    for page in (
        boss.get("letter", queue=MARKUP),
        boss.get("dead", queue=MARKUP),
        boss.get("bulk", queue=QUEUE, id=MARKUP),
        boss.get("letter", queue=QUEUE, task=PRINTABLE),
        boss.post("dead_action", {"act": "replay-selected", "letter": f"{MARKUP}:0:1-0:t"}),
    ):
        check(page)
        assert page.status in {400, 404}

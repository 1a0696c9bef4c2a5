"""The list of dead letters, and what they died of."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.integration.admin.visitors import Page, Visitor, address
from tests.integration.graves import BORN, QUEUE, Graveyard

ERROR = "smtplib.SMTPServerDisconnected"


def ids(page: Page) -> list[str]:
    return [row[-1] for row in page.rows()]


def test_the_list_shows_what_failed_newest_first(graves: Graveyard, boss: Visitor):
    first = graves.bury(0, f"{BORN}-0", kind="welcome", type=ERROR, error="closed", at=BORN)
    second = graves.bury(1, f"{BORN + 1000}-0", reason="rejected", at=BORN + 1000, attempts=1)

    page = boss.get("dead")

    assert page.status == 200
    assert ids(page) == [second, first]
    [newer, older] = page.rows()
    assert "rejected by its handler" in newer[2]
    assert older[1].endswith("ago 2023-11-14 22:13:20")
    assert older[2] == f"{ERROR} closed attempts exhausted, 3 attempts"
    assert older[3] == f"welcome {QUEUE}"
    assert "2 dead letters" in page.content


def test_oldest_first_is_a_link_away(graves: Graveyard, boss: Visitor):
    first, second = graves.bury(0, "1-0"), graves.bury(1, "2-0")

    turned = boss.open(boss.get("dead").link("oldest first"))

    assert ids(turned) == [first, second]
    assert ids(boss.open(turned.link("newest first"))) == [second, first]


def test_a_page_has_fifty_and_leads_to_the_rest(graves: Graveyard, boss: Visitor):
    graves.bury_many(70)

    first = boss.get("dead", reason="exhausted")
    second = boss.open(first.link("Next page"))

    assert (len(ids(first)), len(ids(second))) == (50, 20)
    assert not {*ids(first)} & {*ids(second)}
    assert "Next page" not in second.content
    assert ids(boss.open(second.link("First page"))) == ids(first)


def test_no_letters_is_said_in_words(graves: Graveyard, boss: Visitor):
    assert "No dead letters." in boss.get("dead").content
    assert "No dead letter matches." in boss.get("dead", kind="none-such").content
    assert "No dead letters." in boss.get("groups").content
    assert "There is no bulk work." in boss.get("bulks").content


@pytest.mark.parametrize(
    "query",
    [
        {"queue": QUEUE, "kind": "welcome"},
        {"reason": "rejected"},
        {"exception_type": ERROR},
        {"text": "REFUSED"},
        {"task_id": "wanted"},
        {"idempotency_key": "order-1"},
        {"since": "2023-11-14T22:13:21"},
        {"since": "2023-11-14T22:13:20.500", "until": "2023-11-14T22:13:21"},
    ],
)
def test_each_filter_finds_the_one_that_is_meant(
    graves: Graveyard, boss: Visitor, query: dict[str, str]
):
    graves.bury(0, f"{BORN}-0", kind="bill", error="closed", type="ValueError", at=BORN)
    graves.bury(
        1,
        f"{BORN + 1000}-0",
        task_id="wanted",
        kind="welcome",
        reason="rejected",
        error="Connection refused",
        type=ERROR,
        at=BORN + 1000,
        key="order-1",
    )

    page = boss.get("dead", **query)

    assert ids(page) == ["wanted"]
    # What was chosen is there to be sent with the actions, and to be taken back.
    assert {name: page.hidden()[name] for name in query} == {n: [v] for n, v in query.items()}


def test_a_dash_finds_the_letters_without_kind(graves: Graveyard, boss: Visitor):
    graves.bury(0, "1-0", kind="welcome")
    without = graves.bury(1, "2-0")

    page = boss.get("dead", kind="-")

    assert ids(page) == [without]
    assert "Kind: none" in page.content


def test_a_chip_takes_its_filter_back(graves: Graveyard, boss: Visitor):
    graves.bury(0, "1-0", kind="welcome")
    page = boss.get("dead", kind="welcome", reason="exhausted")

    less = boss.open(page.link("✕"))

    assert less.hidden() == {"kind": ["welcome"]}
    assert boss.open(page.link("Clear all filters")).hidden() == {}


@pytest.mark.parametrize(
    "query",
    [
        {"queue": "no-such"},
        {"reason": "boredom"},
        {"since": "yesterday"},
        {"kind": "a\0b"},
        {"text": "x" * 501},
        {"task_id": "\0"},
        {"after": "elsewhere"},
    ],
)
def test_a_filter_that_cannot_be_is_told_beside_its_field(
    graves: Graveyard, boss: Visitor, query: dict[str, str]
):
    graves.bury(0, "1-0")

    page = boss.get("dead", **query)

    assert page.status == 400
    assert [one for one in page.all("ul") if "errorlist" in one.get("class", "")]
    assert not page.rows()


def test_a_page_beyond_the_end_is_empty(graves: Graveyard, boss: Visitor):
    graves.bury(0, "5-0")

    assert boss.get("dead", after="1-0.0").status == 200


def test_a_search_says_how_far_it_looked(
    graves: Graveyard, boss: Visitor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_redq.admin.letters.MAX_SCAN", 100)
    wanted = graves.bury(0, "1-0", error="needle", at=BORN)
    graves.bury_many(400)

    page = boss.get("dead", text="needle")

    assert "there may be more that match" in page.content
    looks = 1
    while not page.rows():
        page = boss.open(page.link("Go on looking"))
        looks += 1
    assert ids(page) == [wanted]
    assert looks > 1


def test_the_causes_are_counted(graves: Graveyard, boss: Visitor):
    for shard, count in ((0, 7), (1, 5)):
        counted = f"{count} {BORN} {BORN + 1000}"
        graves.client.hset(graves.key("groups", shard), f"welcome {ERROR}", counted)
        for _ in range(count):
            graves.bury(shard, kind="welcome", type=ERROR, grouped=1)

    page = boss.get("groups")

    [row] = page.rows()
    assert row[:3] == [ERROR, f"welcome {QUEUE}", "12"]
    assert len(ids(boss.open(page.link(ERROR)))) == 12
    assert page.buttons() == ["replay-matching", "discard-matching"]


def test_what_no_counter_knows_is_said(graves: Graveyard, boss: Visitor):
    graves.litter(0, "1-0", {"x": "y"})

    assert "1 letter is in no counter" in boss.get("groups").content


def test_a_reader_sees_all_and_is_offered_nothing(graves: Graveyard, reader: Visitor):
    task_id = graves.bury(0, "1-0")
    page = reader.get("dead")
    letter = reader.open(page.link("attempts exhausted"))

    assert ids(page) == [task_id]
    assert page.buttons() == letter.buttons() == reader.get("groups").buttons() == []
    assert "Edit and replay" not in letter.content
    assert not page.values("letter")


@pytest.mark.parametrize(
    "name", ["dead", "groups", "letter", "letter_edit", "bulks", "bulk", "dead_action"]
)
def test_who_may_not_look_is_refused(graves: Graveyard, name: str):
    stranger = Visitor()

    assert stranger.client.get(address(name)).status_code == 403


def test_who_is_not_logged_in_is_asked_to(graves: Graveyard, client: Client):
    response = client.get(address("dead"))

    assert response.status_code == 302
    assert "/login/" in response.headers["Location"]

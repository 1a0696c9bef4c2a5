"""One dead letter, and edit and replay."""

from __future__ import annotations

import dataclasses
import json

import pytest

from django_redq import DeadLetterQueue, Reject, Task, get_task, handler
from django_redq.admin import payloads
from django_redq.errors import InvalidArgument
from django_redq.task import TaskState
from tests.engine import Engine
from tests.integration.admin.visitors import Page, Visitor, address, logged
from tests.integration.graves import BORN, QUEUE, Graveyard

PAYLOAD = {"order": 4711, "note": "Grüße", "items": [{"sku": "A", "price": "1.50"}]}


def place_of(graves: Graveyard, task_id: str, shard: int = 0) -> dict[str, str]:
    """The query that names the letter of a task."""
    [entry] = graves.left(shard)
    return {"queue": QUEUE, "task": task_id, "entry": entry, "shard": str(shard)}


def facts(page: Page) -> dict[str, str]:
    """The terms of the page with what is said of them."""
    terms = ["".join(one.itertext()).strip() for one in page.all("dt")]
    return dict(
        zip(terms, [" ".join("".join(o.itertext()).split()) for o in page.all("dd")], strict=True)
    )


def areas(page: Page) -> list[str]:
    """What the text areas hold; the parser drops the line break that HTML lets lead."""
    return ["".join(one.itertext()) for one in page.all("textarea")]


def test_a_letter_shows_all_that_is_known(graves: Graveyard, boss: Visitor):
    record = {
        "at": BORN - 60_000,
        "payload": PAYLOAD,
        "key": "order-1",
        "meta": {"tenant": "west"},
        "max": 5,
    }
    failures = [
        {
            "exception_type": "OSError",
            "error": "first",
            "traceback": "",
            "attempt": 1,
            "at": BORN - 30_000,
        }
    ]
    task_id = graves.bury(
        0,
        f"{BORN}-0",
        record=json.dumps(record),
        kind="welcome",
        type="smtplib.SMTPException",
        error="second",
        traceback="Traceback (most recent call last): ...",
        at=BORN,
        consumer="web-1",
        key="order-1",
    )
    state = f"2 0 5 1-1 {json.dumps(failures)}"
    graves.client.hset(graves.key("state", 0), task_id, state)

    page = boss.get("letter", **place_of(graves, task_id))

    assert page.status == 200
    pres = ["".join(one.itertext()) for one in page.all("pre")]
    assert pres[:2] == ["second", "Traceback (most recent call last): ..."]
    assert json.loads(pres[2]) == PAYLOAD
    assert '"note": "Grüße"' in pres[2]
    found = facts(page)
    assert found["Task ID"] == task_id
    assert found["Ran on"] == "web-1"
    assert found["Idempotency key"] == "order-1"
    assert found["tenant"] == "west"
    [timeline] = [one for one in page.all("ol") if one.get("class") == "redq-timeline"]
    moments = [" ".join("".join(item.itertext()).split()) for item in timeline]
    assert moments[0] == "2023-11-14 22:12:20 Enqueued"
    assert moments[-1] == "2023-11-14 22:13:20 Dead: attempts exhausted"


def test_a_tombstone_can_only_be_discarded(graves: Graveyard, boss: Visitor):
    entry_id = graves.entomb(0)
    page = boss.open(boss.get("dead").link("payload missing"))

    assert page.buttons() == ["discard-selected"]
    assert "Edit and replay" not in page.content

    question = boss.post("dead_action", {**page.hidden(), "act": "discard-selected"})
    boss.answer(question)

    assert graves.left() == []
    assert logged() == [(QUEUE, f"1 discarded: {page.hidden()['letter'][0].split(':')[-1]}")]
    assert entry_id in page.content


def test_a_payload_is_cut_and_says_so(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0, payload={"text": "x" * 150_000})

    page = boss.get("letter", **place_of(graves, task_id))

    assert "these are the first 100,000 of 150," in page.content
    assert len(page.text) < 120_000


def test_a_record_that_does_not_decode_is_shown_without_payload(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0, record="{broken")
    query = place_of(graves, task_id)

    page = boss.get("letter", **query)
    edit = boss.get("letter_edit", **query)

    assert "cannot be decoded" in page.content
    assert page.buttons() == ["replay-selected", "discard-selected"]
    assert boss.follow(edit).messages == ["It cannot be edited: there is no payload that decodes."]


def test_a_letter_that_is_gone_says_where_its_task_is(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0)
    query = place_of(graves, task_id)
    DeadLetterQueue(QUEUE).replay(task_id)

    page = boss.get("letter", **query)

    assert page.status == 404
    assert page.title == "This dead letter is gone"
    assert f"Task {task_id} is there, and is ready now." in page.content


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"queue": "none"},
        {"queue": QUEUE},
        {"queue": QUEUE, "task": "a b"},
        {"queue": QUEUE, "task": "\0"},
        {"queue": QUEUE, "task": "t", "entry": "x"},
        {"queue": QUEUE, "task": "t" * 300},
        {"queue": QUEUE, "entry": "1-0", "shard": "77"},
        {"queue": QUEUE, "entry": "1-0", "shard": "½"},
        {"queue": QUEUE, "task": "none-such"},
    ],
)
@pytest.mark.parametrize("name", ["letter", "letter_edit"])
def test_an_address_that_names_no_letter_is_answered_in_words(
    graves: Graveyard, boss: Visitor, name: str, query: dict[str, str]
):
    assert boss.get(name, **query).status in {400, 404}


# --- edit and replay ---------------------------------------------------------------------------


def edit_page(graves: Graveyard, visitor: Visitor, task_id: str) -> tuple[str, Page]:
    page = visitor.get("letter", **place_of(graves, task_id))
    path = page.link("Edit and replay")
    return path, visitor.open(path)


def test_an_edited_letter_runs_with_its_new_payload_and_the_old_one_is_kept(
    graves: Graveyard, boss: Visitor
):
    task_id = graves.bury(0, payload=PAYLOAD)
    path, page = edit_page(graves, boss, task_id)
    assert json.loads(areas(page)[0]) == PAYLOAD

    sent = boss.post("", {"payload": '{"order": 4712}', "run_at": ""}, path=path)

    assert boss.follow(sent).messages == ["1 replayed, as edited."]
    info = get_task(QUEUE, task_id)
    assert info is not None
    assert info.task is not None
    assert (info.state, info.task.payload) == (TaskState.READY, {"order": 4712})
    [(queue, said)] = logged()
    first, _newline, kept = said.partition("\n")
    assert (queue, first) == (QUEUE, f"Edited and replayed {task_id}. Its payload was:")
    assert json.loads(kept) == PAYLOAD


def test_an_edited_letter_can_wait(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0, payload=1)
    path, _page = edit_page(graves, boss, task_id)

    boss.post("", {"payload": "2", "run_at": "2999-01-01T12:30"}, path=path)

    info = get_task(QUEUE, task_id)
    assert info is not None
    assert info.run_at is not None
    assert info.run_at.isoformat() == "2999-01-01T12:30:00+00:00"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"payload": '{"a": 1,\n b}'}, "line 2, column 2"),
        ({"payload": ""}, "This field is required."),
        ({"payload": '{"a": 1, "a": 2}'}, "The key 'a' is there twice."),
        ({"payload": "NaN"}, "JSON knows no NaN."),
        ({"payload": "[" * 100_000}, "nested too deeply"),
        ({"payload": "9" * 5000}, "digit"),
        ({"payload": '"' + "x" * 300_000 + '"'}, "MAX_PAYLOAD_BYTES"),
        ({"payload": "1", "run_at": "soon"}, "Enter a valid date/time."),
        ({"payload": "1", "run_at": "2001-01-01T00:00"}, "This time has passed."),
    ],
)
def test_what_cannot_be_sent_is_told_beside_its_field(
    graves: Graveyard, boss: Visitor, fields: dict[str, str], said: str
):
    task_id = graves.bury(0, payload=PAYLOAD)
    path, _page = edit_page(graves, boss, task_id)

    page = boss.post("", fields, path=path)

    assert page.status == 400
    assert said in page.content
    assert areas(page)[0].replace("\r\n", "\n") == fields["payload"]
    assert len(graves.left()) == 1
    assert logged() == []


@dataclasses.dataclass(frozen=True)
class Order:
    order: int


def test_a_payload_that_does_not_fit_its_handler_is_refused(
    graves: Graveyard, boss: Visitor, engine: Engine
):
    @handler(QUEUE)
    def work(task: Task[Order]) -> None: ...

    task_id = graves.bury(0, payload={"order": 1})
    path, _page = edit_page(graves, boss, task_id)

    page = boss.post("", {"payload": '{"order": "many"}'}, path=path)

    assert page.status == 400
    [error] = [one for one in page.all("ul") if "errorlist" in one.get("class", "")]
    assert "order" in "".join(error.itertext())
    assert len(graves.left()) == 1


def test_what_was_typed_is_not_lost_where_the_letter_is_gone(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0, payload=PAYLOAD)
    path, _page = edit_page(graves, boss, task_id)
    DeadLetterQueue(QUEUE).discard(task_id)

    page = boss.post("", {"payload": '{"order": 4712}'}, path=path)

    assert page.status == 404
    assert areas(page) == ['{"order": 4712}']
    assert f"There is no task {task_id} now" in page.content


def test_a_later_death_of_the_task_is_not_hit(graves: Graveyard, boss: Visitor):
    task_id = graves.bury(0, "5-0", payload=1)
    path, _page = edit_page(graves, boss, task_id)
    DeadLetterQueue(QUEUE).discard(task_id)
    graves.bury(0, "6-0", task_id=task_id, payload=2)

    page = boss.post("", {"payload": "3"}, path=path)

    assert page.status == 404
    assert graves.left() == ["6-0"]


def test_editing_wants_the_right_to_replay(graves: Graveyard):
    task_id = graves.bury(0, payload=1)
    query, discarder = place_of(graves, task_id), Visitor("view", "discard")

    page = discarder.get("letter", **query)

    assert page.buttons() == ["discard-selected"]
    assert "Edit and replay" not in page.content
    assert discarder.get("letter_edit", **query).status == 403
    path = f"{address('letter_edit')}?queue={QUEUE}&task={task_id}"
    assert discarder.post("", {"payload": "2"}, path=path).status == 403
    assert len(graves.left()) == 1


def test_a_letter_is_edited_and_seen_to_run(boss: Visitor, engine: Engine):
    done: list[object] = []

    @handler("default")
    def work(task: Task[object]) -> None:
        if task.payload == "bad":
            raise Reject("no good")
        done.append(task.payload)

    task_id = engine.enqueue("bad")
    consumer = engine.start("default")
    engine.wait_until(lambda: DeadLetterQueue("default").count() == 1)
    listed = boss.get("dead")
    path = boss.open(listed.link("Reject")).link("Edit and replay")

    boss.post("", {"payload": '"good"'}, path=path)

    engine.wait_until(lambda: consumer.counts.get("Done") == 1)
    assert done == ["good"]
    assert get_task("default", task_id) is None
    engine.assert_drained()


# --- payloads as text --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {"a": [1, 1.0, -0.0, 10**30, True, "", '\n\t"\\/']},
        "\x00\x1b[31m\x7f\u202e\u2066\u200d\xa0\xad\ufeff\ud800 \U000e0041 \U0001f600",
        {"\u202e": {"\x00": []}},
    ],
)
def test_a_payload_reads_back_from_what_is_shown(payload: object):
    text = payloads.pretty(payload)

    assert payloads.parse(text) == payload
    assert repr(payloads.parse(text)) == repr(payload)
    assert all(one.isprintable() or one == "\n" for one in text)


def test_text_that_is_no_json_names_its_place():
    with pytest.raises(InvalidArgument, match="line 2, column 3"):
        payloads.parse('{"a":\n  b}')

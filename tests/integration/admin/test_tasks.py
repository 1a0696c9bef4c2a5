"""Tasks by state in the admin: lists, search, one task, cancel, run now."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest
import redis

from django_redq import Queue, TaskSpec, TaskState, enqueue, enqueue_many
from tests.integration.admin.visitors import Page, Visitor, address, logged
from tests.integration.graves import QUEUE, Graveyard

put = partial(enqueue, mode="immediate")
"""The tests' transaction never commits."""

LATER = datetime(2031, 1, 1, tzinfo=UTC)


def listed(visitor: Visitor, state: str, **query: str) -> Page:
    return visitor.get("tasks", queue=QUEUE, state=state, **query)


def ids(page: Page) -> list[str]:
    return page.values("task")[1:]  # the first is the field of the search


def test_scheduled_tasks_come_soonest_first_page_by_page(graves: Graveyard, boss: Visitor) -> None:
    """All due at the same moment, so that only the order of the IDs leads from page to page."""
    enqueue_many(
        QUEUE, [TaskSpec(n, run_at=LATER, task_id=f"t{n:03}") for n in range(120)], mode="immediate"
    )
    found: list[str] = []
    page = listed(boss, "scheduled")
    while True:
        found += ids(page)
        if "Next page" not in page.content:
            break
        page = boss.open(page.link("Next page"))

    assert found == [f"t{n:03}" for n in range(120)]
    assert "120 tasks" in page.content


def test_ready_tasks_are_listed_with_their_kind(graves: Graveyard, boss: Visitor) -> None:
    put(QUEUE, 1, kind="welcome", task_id="order/17%&x=1")

    page = listed(boss, "ready")

    assert ids(page) == ["order/17%&x=1"]
    assert "welcome" in page.rows()[0]
    assert boss.open(page.link("order/17%")).title == "Task"


def test_cancel_asks_first_and_then_says_what_became_of_them(
    graves: Graveyard, boss: Visitor
) -> None:
    put(QUEUE, 1, delay=60, task_id="one")
    put(QUEUE, 1, delay=60, task_id="two")
    form = {"queue": QUEUE, "state": "scheduled", "act": "cancel", "task": ["one", "two"]}
    question = boss.post("task_action", form)
    assert question.title == "Cancel 2 tasks?"
    assert Queue(QUEUE).get("one") is not None
    Queue(QUEUE).cancel("two")

    page = boss.follow(boss.post("task_action", question.hidden()))

    assert Queue(QUEUE).get("one") is None
    assert page.messages == ["1 task canceled, 1 is running, done or gone by now."]
    [(queue, said)] = logged()
    assert (queue, said.splitlines()[0]) == (QUEUE, page.messages[0])


def test_run_now_makes_a_scheduled_task_ready(graves: Graveyard, boss: Visitor) -> None:
    put(QUEUE, 1, delay=60, task_id="one")

    page = boss.follow(
        boss.post(
            "task_action", {"queue": QUEUE, "state": "scheduled", "act": "run-now", "task": "one"}
        )
    )

    assert page.messages == ["1 task made ready."]
    found = Queue(QUEUE).get("one")
    assert found is not None
    assert found.state is TaskState.READY


def test_nothing_selected_is_told(graves: Graveyard, boss: Visitor) -> None:
    form = {"queue": QUEUE, "state": "ready", "act": "cancel"}
    page = boss.follow(boss.post("task_action", form))

    assert page.messages == ["Nothing was selected, so nothing was done."]


@pytest.mark.parametrize("act", ["cancel", "run-now"])
def test_who_may_not_cancel_sees_no_button_and_has_no_way(
    graves: Graveyard, reader: Visitor, act: str
) -> None:
    put(QUEUE, 1, delay=60, task_id="one")
    form = {"queue": QUEUE, "state": "scheduled", "act": act, "task": "one", "confirmed": "yes"}

    assert listed(reader, "scheduled").buttons() == []
    assert reader.get("task", queue=QUEUE, task="one").buttons() == []
    assert reader.post("task_action", form).status == 403

    assert Queue(QUEUE).get("one") is not None


def test_a_task_is_found_by_its_id_whatever_its_queue(graves: Graveyard, boss: Visitor) -> None:
    put(QUEUE, {"to": "ada"}, delay=60, task_id="one", metadata={"tenant": "west"})

    page = boss.get("task", task=" one ")

    for words in ("scheduled", '"to": "ada"', "west"):
        assert words in page.content


def test_a_dead_task_leads_to_its_letter(graves: Graveyard, boss: Visitor) -> None:
    task_id = graves.bury(0)

    page = boss.follow(boss.get("task", task=task_id))

    assert page.title == "Dead letter"


def test_a_task_that_is_not_there_is_told(graves: Graveyard, boss: Visitor) -> None:
    page = boss.get("task", task="nobody")

    assert page.status == 404
    assert "There is no task “nobody”" in page.content


@pytest.mark.parametrize("task_id", ["\0", "a b", "{x}", "x" * 257, "\u202e"])
def test_what_is_no_task_id_is_told(graves: Graveyard, boss: Visitor, task_id: str) -> None:
    page = boss.get("task", task=task_id)

    assert page.status in {400, 404}
    assert "\u202e" not in page.text


@pytest.mark.parametrize(
    "query",
    [
        {"state": "dead"},
        {"state": "\0"},
        {"state": "ready", "after": "rubbish"},
        {"state": "ready", "after": "99999999999999999999-0.0"},
        {"state": "scheduled", "after": "\0"},
    ],
)
def test_an_address_that_is_none_is_told(
    graves: Graveyard, boss: Visitor, query: dict[str, str]
) -> None:
    assert boss.get("tasks", queue=QUEUE, **query).status == 400


def test_a_page_beyond_the_end_is_empty(graves: Graveyard, boss: Visitor) -> None:
    put(QUEUE, 1, delay=60)

    page = listed(boss, "scheduled", after="9999999999999:zzz")

    assert "There are none." in page.content


def test_a_running_task_is_shown_with_its_consumer(graves: Graveyard, boss: Visitor) -> None:
    task_id = graves.bury(0)
    graves.client.xgroup_create(graves.key("stream", 0), "default", "0", mkstream=True)
    entry = graves.client.xadd(graves.key("stream", 0), {"id": task_id}).decode()
    graves.client.hset(graves.key("entry", 0), task_id, entry)
    graves.client.xreadgroup("default", "worker-9", {graves.key("stream", 0): ">"})

    [row] = listed(boss, "running").rows()

    assert row[0] == task_id
    assert row[-1] == "worker-9"


def test_a_record_of_a_stranger_is_inert(graves: Graveyard, boss: Visitor) -> None:
    hostile = '<img/src=x onerror="alert(1)">\u202e'
    graves.client.zadd(graves.key("delay", 0), {hostile: 1})
    graves.client.hset(graves.key("payload", 0), hostile, b"\xff" * 100_000)
    graves.client.zadd(graves.key("delay", 0), {b"\xff": float("inf")})

    page = listed(boss, "scheduled")

    assert page.status == 200
    assert page.all("img") == []
    assert "\u202e" not in page.text
    assert len(page.text) < 60_000
    assert boss.open(address("tasks"), {"queue": QUEUE}).status == 200


def test_what_breaks_off_is_in_the_log(
    graves: Graveyard, boss: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(QUEUE, 1, task_id="t1", run_at=LATER)
    cancel = Queue.cancel

    def fail_later(queue: Queue, task_id: str) -> bool:
        if task_id == "t2":
            raise redis.ConnectionError("away")
        return cancel(queue, task_id)

    monkeypatch.setattr(Queue, "cancel", fail_later)
    data = {"queue": QUEUE, "act": "cancel", "task": ["t1", "t2"], "confirmed": "yes"}

    page = boss.post("task_action", data)

    assert page.status == 503
    assert logged() == [(QUEUE, "Broke off, done in part or not at all: t1, t2")]

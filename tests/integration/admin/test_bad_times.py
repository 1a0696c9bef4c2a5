"""Redis away, a shard broken, a record nobody can read: a page with a message, never a 500."""

from __future__ import annotations

import pytest
import redis
from django.test import override_settings
from django.urls import reverse
from redis.backoff import NoBackoff
from redis.retry import Retry

from django_redq import DeadLetterQueue, Queue, QueueStats
from tests.harness import Redq, until
from tests.integration.admin.visitors import Visitor, address
from tests.integration.graves import QUEUE, SHARDS, Graveyard, configure

LETTER = {"queue": QUEUE, "task": "t", "entry": "1-0"}
OVERVIEWS = [
    ("changelist", {}),
    ("tasks", {"queue": QUEUE, "state": "ready"}),
    ("task", {"task": "t"}),
]
PAGES = [
    ("dead", {}),
    ("dead", {"queue": QUEUE, "text": "x"}),
    ("groups", {}),
    ("letter", LETTER),
    ("letter_edit", LETTER),
    ("bulks", {}),
    ("bulk", {"queue": QUEUE, "id": "0199a0a0-0000-7000-8000-000000000000"}),
]
FORMS = [
    ("queue_action", {"queue": QUEUE, "act": "pause"}),
    ("task_action", {"queue": QUEUE, "act": "run-now", "task": "t"}),
    ("task_action", {"queue": QUEUE, "act": "cancel", "task": "t", "confirmed": "yes"}),
    ("dead_action", {"act": "replay-matching"}),
    ("dead_action", {"act": "replay-selected", "letter": f"{QUEUE}:0:1-0:t", "confirmed": "yes"}),
    ("dead_action", {"act": "discard-matching", "confirmed": "yes", "part": QUEUE}),
    ("bulk_stop", {"queue": QUEUE, "id": "0199a0a0-0000-7000-8000-000000000000"}),
]


@pytest.fixture
def stopped(own_redq: Redq) -> Redq:
    """A Redis that has gone down."""
    configure(own_redq)
    Graveyard(own_redq).bury(0)
    own_redq.server.stop()
    return own_redq


@pytest.mark.parametrize(("name", "query"), [*OVERVIEWS, *PAGES])
def test_without_redis_each_page_says_so(
    stopped: Redq, boss: Visitor, name: str, query: dict[str, str]
):
    page = boss.get(name, **query)

    assert page.status == 503
    assert page.title == "Redis does not answer"
    assert page.link("Try again").startswith(address(name))


def test_without_redis_the_page_of_a_queue_says_so(stopped: Redq, boss: Visitor):
    page = boss.open(address("change", QUEUE))

    assert page.status == 503
    assert boss.open(address("history", QUEUE)).status == 200


def test_a_redis_that_goes_away_half_way_leaves_the_queues_that_answered(
    own_redq: Redq, boss: Visitor, monkeypatch: pytest.MonkeyPatch
):
    own_redq.configure(queues={"first": {}, "second": {}})
    boss.get("changelist")
    asked = Queue.stats

    def last(queue: Queue, *, partial: bool = False) -> QueueStats:
        found = asked(queue, partial=partial)
        own_redq.server.stop()
        return found

    monkeypatch.setattr(Queue, "stats", last)

    first, second = boss.get("changelist").rows()

    assert first[1:5] == ["0", "0", "0", "0"]
    assert "It cannot be read." in second


@pytest.mark.parametrize(("name", "data"), FORMS)
def test_without_redis_nobody_knows_what_was_done(
    stopped: Redq, boss: Visitor, name: str, data: dict[str, str]
):
    page = boss.post(name, data)

    assert page.status == 503
    assert "It is not known whether it was done." in page.content
    assert "Try again" not in page.content


def test_without_redis_the_rest_of_the_admin_works(stopped: Redq, boss: Visitor):
    for path in (reverse("admin:index"), reverse("admin:app_list", args=("django_redq",))):
        assert boss.client.get(path).status_code == 200


@pytest.mark.parametrize(("name", "query"), PAGES[:3])
def test_a_broken_shard_does_not_hide_the_others(
    graves: Graveyard, boss: Visitor, name: str, query: dict[str, str]
):
    task_id = graves.bury(1, error="x")
    for key in ("dlq", "groups"):
        graves.client.set(graves.key(key, 0), "no stream")

    page = boss.get(name, **query)

    assert page.status == 200
    assert "Some shards do not answer" in page.content
    if name == "dead":
        assert [row[-1] for row in page.rows()] == [task_id]


def test_the_question_counts_what_it_can(graves: Graveyard, boss: Visitor):
    graves.bury(1)
    graves.client.set(graves.key("dlq", 0), "no stream")

    question = boss.post("dead_action", {"act": "discard-matching"})

    assert question.title == "Discard at least 1 dead letter?"


@pytest.mark.parametrize(("name", "query"), PAGES)
def test_keys_of_another_kind_break_no_page(
    graves: Graveyard, boss: Visitor, name: str, query: dict[str, str]
):
    for shard in range(SHARDS):
        for key in ("dlq", "groups", "bulk", "entry", "payload", "state"):
            graves.client.set(graves.key(key, shard), "something else")

    assert boss.get(name, **query).status in {200, 404, 503}


def test_a_layout_that_is_not_the_settings_is_told(graves: Graveyard, redq: Redq, boss: Visitor):
    DeadLetterQueue(QUEUE).count()
    redq.configure(queues={QUEUE: {"SHARDS": SHARDS + 1}})

    page = boss.get("dead")

    assert page.status == 503
    assert "SHARDS" in page.content


def test_settings_that_are_wrong_are_told(redq: Redq, boss: Visitor):
    with override_settings(REDQ={"QUEUES": {"a b": {}}}):
        assert boss.get("dead").status == 503


def hangs(redq: Redq) -> bool:
    """The signal that stops a process is not there at once."""
    with redis.Redis.from_url(redq.url, socket_timeout=0.2, retry=Retry(NoBackoff(), 0)) as client:
        try:
            client.ping()
        except redis.TimeoutError:
            return True
        return False


@pytest.mark.parametrize(("name", "query"), PAGES)
def test_a_redis_that_hangs_is_not_waited_for(
    own_redq: Redq, boss: Visitor, name: str, query: dict[str, str]
):
    configure(own_redq)
    Graveyard(own_redq).bury(0)
    boss.get(name, **query)
    own_redq.server.pause()
    until(lambda: hangs(own_redq))

    try:
        page = boss.get(name, **query)
    finally:
        own_redq.server.resume()

    # That it came at all says it: the engine's own connections wait longer than this test may take.
    assert page.status == 503

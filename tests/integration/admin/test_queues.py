"""The queues in the admin: all at a glance, one of them, pause and resume, what was done to it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import redis

from django_redq import Queue, enqueue
from django_redq.broker import beats
from django_redq.broker.beats import About
from django_redq.broker.sync import get_broker, shards_for
from django_redq.conf import get_config
from django_redq.scheduler.scheduler import Scheduler
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.admin.visitors import Page, Visitor, address, logged
from tests.integration.graves import QUEUE, Graveyard

SVG = "{http://www.w3.org/2000/svg}"

put = partial(enqueue, mode="immediate")
"""The tests' transaction never commits."""


def show(visitor: Visitor, queue: str = QUEUE, **query: str) -> Page:
    return visitor.open(address("change", queue), query)


def say_alive(queue: str, name: str, **about: Any) -> None:
    """A sign of life, as a consumer gives it."""
    config = get_config()
    [first, *_] = shards_for(config, config.queue(queue))
    get_broker().run(beats.beat(first, name, About(**about), ""))


def test_a_row_a_queue_with_what_is_in_it(graves: Graveyard, boss: Visitor) -> None:
    graves.bury(0)
    put(QUEUE, 1)
    put(QUEUE, 2, delay=60)
    put(QUEUE, 3, delay=60)

    [row] = boss.get("changelist").rows()

    assert row[0].startswith(QUEUE)
    assert row[1:5] == ["2", "1", "0", "1"]


def test_what_needs_a_person_stands_beside_the_queue(graves: Graveyard, boss: Visitor) -> None:
    page = boss.get("changelist")

    [row] = page.rows()
    assert "No consumer takes its tasks." in row[0]
    assert "No scheduler serves it." in row[0]
    assert "1 queue needs somebody to look at it" in page.content


def test_all_is_well_where_somebody_works(graves: Graveyard, boss: Visitor) -> None:
    say_alive(QUEUE, "worker-1")
    scheduler = Scheduler(QUEUE)
    scheduler.run_once()

    page = boss.get("changelist")

    assert "All is well" in page.content
    assert page.rows()[0][0] == QUEUE
    scheduler.stop()


def test_a_consumer_is_shown_with_where_it_runs_and_what(graves: Graveyard, boss: Visitor) -> None:
    say_alive(
        QUEUE,
        "worker-1",
        host="web-7",
        pid=4711,
        version="1.2.3",
        started=1_700_000_000_000,
        concurrency=8,
        running=(("order/17%", "welcome", 1_700_000_000_000),),
    )

    page = show(boss)

    for words in ("worker-1", "web-7, 4711", "1.2.3", "of 8", "order/17% welcome"):
        assert words in page.content
    assert page.link("order/17%").endswith("&task=order%2F17%25")


def test_throughput_failures_and_waits_are_drawn_and_told(
    redq: Redq, engine: Engine, boss: Visitor
) -> None:
    from django_redq import handler

    @handler("default")
    def work(task: Any) -> None:
        if task.payload == "bad":
            raise ValueError("no")

    consumer = engine.start("default")
    put("default", "good")
    put("default", "bad", max_attempts=1)
    engine.wait_counts(consumer, Done=1, Dead=1)

    for span in ("hour", "day"):
        page = show(boss, "default", span=span)
        drawn = {one.get("class") for one in page.tree.iter(f"{SVG}path") if one.get("d")}
        assert {"redq-good", "redq-bad", "redq-longest"} <= drawn
        assert "1 succeeded, 1 failed, 1 died." in page.content


def test_pause_and_resume_are_a_button_each_and_written_down(
    graves: Graveyard, boss: Visitor
) -> None:
    page = boss.follow(boss.post("queue_action", {"queue": QUEUE, "act": "pause"}))
    assert Queue(QUEUE).stats().paused
    assert page.buttons() == ["resume"]
    assert "Paused: consumers take nothing from it." in page.content

    page = boss.follow(boss.post("queue_action", {"queue": QUEUE, "act": "resume"}))
    assert not Queue(QUEUE).stats().paused
    assert page.buttons() == ["pause"]
    assert logged() == [(QUEUE, "Paused."), (QUEUE, "Resumed.")]
    history = boss.open(address("history", QUEUE))
    assert [row[2] for row in history.rows()] == ["Resumed.", "Paused."]


def test_a_pause_pressed_twice_is_written_down_once(graves: Graveyard, boss: Visitor) -> None:
    boss.follow(boss.post("queue_action", {"queue": QUEUE, "act": "pause"}))

    page = boss.follow(boss.post("queue_action", {"queue": QUEUE, "act": "pause"}))

    assert page.messages == ["It was so already; nothing was changed."]
    assert len(logged()) == 1


def test_who_may_only_look_has_no_button_and_no_way(graves: Graveyard, reader: Visitor) -> None:
    assert show(reader).buttons() == []

    assert reader.post("queue_action", {"queue": QUEUE, "act": "pause"}).status == 403

    assert not Queue(QUEUE).stats().paused


def test_a_get_pauses_nothing(graves: Graveyard, boss: Visitor) -> None:
    assert boss.get("queue_action", queue=QUEUE, act="pause").status == 405


def test_a_post_without_a_token_is_refused(graves: Graveyard, boss: Visitor) -> None:
    refused = boss.client.post(address("queue_action"), {"queue": QUEUE, "act": "pause"})

    assert refused.status_code == 403
    assert not Queue(QUEUE).stats().paused


@pytest.mark.parametrize("act", ["", "explode", "\0"])
def test_an_action_that_is_none_is_told(graves: Graveyard, boss: Visitor, act: str) -> None:
    assert boss.post("queue_action", {"queue": QUEUE, "act": act}).status == 400


@pytest.mark.parametrize("name", ["change", "history"])
def test_a_queue_that_is_none_is_not_found(boss: Visitor, redq: Redq, name: str) -> None:
    assert boss.open(address(name, "nobody")).status == 404


def test_a_queue_whose_name_has_a_dash_and_a_dot(redq: Redq, boss: Visitor) -> None:
    redq.configure(queues={"a_b-c.d": {}})

    assert boss.open(boss.get("changelist").link("a_b-c.d")).title == "a_b-c.d"


def test_who_may_not_look_is_not_shown_the_queues(reader: Visitor, redq: Redq) -> None:
    stranger = Visitor("pause")

    assert "django_redq" not in stranger.client.get("/admin/").content.decode()
    assert "django_redq" in reader.client.get("/admin/").content.decode()
    assert stranger.get("changelist").status == 403


def test_a_queue_that_is_laid_out_otherwise_does_not_hide_the_others(
    redq: Redq, boss: Visitor
) -> None:
    redq.configure(queues={"a": {"SHARDS": 2}, "b": {}})
    boss.get("changelist")
    redq.configure(queues={"a": {"SHARDS": 3}, "b": {}})

    first, second = boss.get("changelist").rows()

    assert "SHARDS" in first[0]
    assert second[1:5] == ["0", "0", "0", "0"]


def test_a_shard_of_the_wrong_type_is_told_and_the_others_are_shown(
    graves: Graveyard, boss: Visitor
) -> None:
    graves.bury(0)
    graves.client.set(graves.key("delay", 2), "of another type")

    page = show(boss)

    assert page.status == 200
    assert "1 shard does not answer." in page.content
    assert "does not answer" in page.content


HOSTILE = "<script>alert(1)</script>{{ 7|add:7 }}\u202e\x1b[31m" + "x" * 5000


def test_what_a_stranger_wrote_of_a_consumer_is_inert(graves: Graveyard, boss: Visitor) -> None:
    config = get_config()
    [first, *_] = shards_for(config, config.queue(QUEUE))
    about = f'{{"host":"{HOSTILE}","version":"{HOSTILE}","pid":-1}}'.replace("\x1b", "\\u001b")
    graves.client.hset(first.keys.consumers, HOSTILE, f"1 {about}")
    graves.client.hset(first.keys.consumers, "garbage", b"\xff\xfe")
    graves.client.set(first.keys.lease, HOSTILE)

    for page in (show(boss), boss.get("changelist")):
        assert page.status == 200
        assert not [one for one in page.all("script") if not one.get("src")]
        assert "\u202e" not in page.text
        assert "\x1b" not in page.text
        assert len(page.text) < 60_000


def test_a_pause_that_breaks_off_is_in_the_log(
    graves: Graveyard, boss: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(queue: Queue) -> bool:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(Queue, "pause", fail)

    page = boss.post("queue_action", {"queue": QUEUE, "act": "pause"})

    assert page.status == 503
    assert logged() == [(QUEUE, "Broke off, done in part or not at all: Paused.")]


def test_who_fell_silent_and_holds_nothing_is_not_said_to_run_anything(
    graves: Graveyard, boss: Visitor
) -> None:
    config = get_config()
    [first, *_] = shards_for(config, config.queue(QUEUE))
    about = '{"host":"web-7","running":[["order-17","",1]]}'
    graves.client.hset(first.keys.consumers, "worker-1", f"1 {about}")

    page = show(boss)

    assert "silent" in page.content
    assert "order-17" not in page.content

"""What consumers tell of themselves, and who counts as alive."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from django_redq import Queue, Task, handler
from django_redq.broker import beats
from django_redq.broker.beats import About
from django_redq.broker.sync import get_broker
from django_redq.queue_stats import ALIVE, SeenConsumer
from tests.engine import Engine
from tests.harness import Redq, until
from tests.integration.worlds import NOW, Here

HOUR = 3_600_000


# --- the scripts


def beat(here: Here, name: str, now: int = NOW, **about: Any) -> int:
    return here.run(beats.beat(here.shard, name, About(**about), str(now)))


def seen(here: Here, now: int = NOW) -> dict[str, beats.Beat]:
    return dict(here.run(beats.seen(here.shard, str(now))))


@pytest.mark.every_server
def test_a_beat_is_noted_until_the_consumer_leaves(here: Here) -> None:
    here.seed()
    before = here.world()

    assert beat(here, "c-1", pid=7) == 1
    assert beat(here, "c-1", NOW + 2000, pid=8, running=(("t", "k", 5),)) == 1

    told = About(pid=8, running=(("t", "k", 5),))
    assert seen(here, NOW + 5000) == {"c-1": beats.Beat(3.0, told)}
    assert here.run(beats.leave(here.shard, "c-1")) is True
    assert here.run(beats.leave(here.shard, "c-1")) is False
    assert here.changes(before) == []


@pytest.mark.every_server
def test_who_gave_no_sign_for_long_is_forgotten_by_the_beats_of_others(here: Here) -> None:
    beat(here, "old", NOW - HOUR - 1)
    beat(here, "young", NOW - HOUR)

    # Three of three are looked at.
    beat(here, "me")

    assert set(seen(here)) == {"young", "me"}


@pytest.mark.every_server
def test_there_is_an_end_to_the_names(here: Here) -> None:
    for number in range(1000):
        here.client.hset(here.keys.consumers, f"c-{number}", f"{NOW} {{}}")

    assert beat(here, "one-more") == 1000
    assert beat(here, "c-7", NOW + 1) == 1000

    found = seen(here, NOW + 1)
    assert "one-more" not in found
    assert (found["c-7"].seen, found["c-8"].seen) == (0.0, 0.001)


@pytest.mark.every_server
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"rubbish",
        b"\xff\xff",
        b"-5 {}",
        b"99999999999999999999 {}",
        f"{NOW} [1]".encode(),
        f'{NOW} {{"pid":"x"}}'.encode(),
        f'{NOW} {{"running":[["t"]]}}'.encode(),
        f"{NOW} {'[' * 7000}".encode(),
        f'{NOW} {{"host":"{"x" * 9000}"}}'.encode(),
    ],
)
def test_what_somebody_else_wrote_there_shows_as_what_can_be_read(here: Here, value: bytes) -> None:
    here.client.hset(here.keys.consumers, mapping={b"odd": value, b"\xff": value})

    [found] = seen(here).values()
    assert found.about == About()
    # Without a time it counts as long gone.
    assert found.seen == (0.0 if value.startswith(str(NOW).encode()) else NOW / 1000)
    beat(here, "me")


@pytest.mark.every_server
def test_a_page_gets_no_megabytes_that_somebody_else_wrote_there(here: Here) -> None:
    here.client.hset(here.keys.consumers, mapping={"x" * 129: f"{NOW} {{}}", "odd": "7" * 2**21})
    beat(here, "x" * 128)

    call = beats.seen(here.shard, str(NOW))
    reply = here.run(replace(call, read=lambda raw: raw))

    assert len(repr(reply)) < 10_000
    assert set(seen(here)) == {"x" * 128, "odd"}


@pytest.mark.every_server
def test_tasks_with_long_ids_leave_room_for_the_rest(here: Here) -> None:
    running = tuple((f"{number}-" + "\N{SNOWMAN}" * 250, "k" * 128, NOW) for number in range(20))

    beat(here, "c-1", host="h", pid=7, running=running)

    told = seen(here)["c-1"].about
    assert (told.host, told.pid) == ("h", 7)
    assert 0 < len(told.running) < 20
    assert told.running == running[: len(told.running)]


@pytest.mark.every_server
def test_a_key_of_another_type_holds_nobody(here: Here) -> None:
    here.client.set(here.keys.consumers, "no hash")

    assert seen(here) == {}


# --- consumers


def only(queue: str = "default") -> SeenConsumer:
    (consumer,) = Queue(queue).stats().consumers
    return consumer


def beats_of(queue: str) -> list[int]:
    """The processes that have told of themselves."""
    return [one.pid for one in Queue(queue).stats().consumers if one.pid is not None]


def test_a_consumer_tells_where_it_runs_and_what(engine: Engine) -> None:
    engine.configure(CONCURRENCY=2)
    go_on, begun = threading.Event(), threading.Semaphore(0)

    @handler("default", kind="slow")
    def work(task: Task[Any]) -> None:
        begun.release()
        assert go_on.wait(60)

    before = time.time()
    consumer = engine.start()
    until(lambda: beats_of("default"))
    idle = only()

    assert (idle.name, idle.alive, idle.tasks) == (consumer.name, True, ())
    assert (idle.host, idle.pid, idle.concurrency) == (socket.gethostname(), os.getpid(), 2)
    assert idle.started_at is not None
    assert before - 1 <= idle.started_at.timestamp() <= time.time()
    assert idle.last_seen < ALIVE

    task_id = engine.enqueue(kind="slow")
    assert begun.acquire(timeout=60)
    consumer._heart.wake()
    until(lambda: only().tasks)
    [running] = only().tasks
    assert (running.task_id, running.kind) == (task_id, "slow")
    assert only().running == 1
    go_on.set()
    consumer.stop()

    assert Queue("default").stats().consumers == ()
    assert engine.leftovers() == {}


def test_a_consumer_of_several_queues_tells_each(redq: Redq, engine: Engine) -> None:
    redq.configure(queues={"a": {"SHARDS": 2}, "b": {"SHARDS": 3}})

    consumer = engine.start("a", "b")

    for queue in "ab":
        until(lambda queue=queue: beats_of(queue))
        assert only(queue).name == consumer.name
        assert only(queue).pid == os.getpid()
    assert not redq.client.exists(redq.key("a", 1, "consumers"))


def test_one_that_holds_nothing_and_beats_no_more_is_not_alive(engine: Engine) -> None:
    half_a_minute_ago = int(time.time() * 1000) - 30_000
    engine.client.hset(engine.key("consumers"), "gone-1", f"{half_a_minute_ago} {{}}")
    broker = get_broker()
    shard = Queue("default")._shards[0]
    broker.run(beats.beat(shard, "here-2", About(host="h"), ""))

    found = {one.name: one for one in Queue("default").stats().consumers}

    assert (found["gone-1"].alive, found["here-2"].alive) == (False, True)
    assert (found["here-2"].idle, found["here-2"].running) == (None, 0)
    assert found["gone-1"].last_seen > ALIVE


def test_one_that_never_beat_is_alive_while_it_asks(engine: Engine) -> None:
    """As of run_once(), or of an older version."""
    consumer = engine.consumer()
    consumer.run_once()

    found = only()

    assert (found.name, found.alive, found.host, found.pid) == (consumer.name, True, "", None)
    assert found.idle is not None
    assert found.last_seen == found.idle


def test_the_longest_running_tasks_are_told_and_not_more_than_some(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redq.consumer.heart.MAX_TOLD", 2)
    engine.configure(CONCURRENCY=3)
    go_on, begun = threading.Event(), threading.Semaphore(0)

    @handler("default")
    def work(task: Task[Any]) -> None:
        begun.release()
        assert go_on.wait(60)

    consumer = engine.start()
    ids = []
    for _ in range(3):
        ids.append(engine.enqueue())
        assert begun.acquire(timeout=60)
    consumer._heart.wake()
    until(lambda: len(only().tasks) == 2)

    assert [one.task_id for one in only().tasks] == ids[:2]
    go_on.set()

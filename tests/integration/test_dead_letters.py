"""``DeadLetterQueue``: what an operator sees of dead tasks, and does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.core.exceptions import SynchronousOnlyOperation

from django_redq import (
    DeadLetter,
    DeadLetterNotFound,
    DeadLetterQueue,
    InvalidArgument,
    NotReplayable,
    Reject,
    Task,
    TaskState,
    UnknownQueue,
    get_task,
    handler,
)
from django_redq.broker import dead_walk
from django_redq.dead_letters import steps
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure, ids_of

pytestmark = pytest.mark.every_setup


@pytest.fixture
def graves(redq: Redq, engine: Engine) -> Graveyard:
    # After the engine, which has one queue of its own.
    configure(redq)
    return Graveyard(redq)


@pytest.fixture
def letters(graves: Graveyard) -> DeadLetterQueue:
    return DeadLetterQueue(QUEUE)


def names(found: Any) -> list[str]:
    return [letter.task_id for letter in found]


def entries(found: Any) -> list[tuple[str, int]]:
    return [(letter.entry_id, letter.shard) for letter in found]


def all_pages(letters: DeadLetterQueue, **options: Any) -> list[DeadLetter]:
    seen: list[DeadLetter] = []
    after = None
    while True:
        page = letters.list(after=after, **options)
        seen += page
        after = page.cursor
        if after is None:
            return seen


# --- looking ---------------------------------------------------------------------------------


@pytest.mark.every_server
def test_a_dead_letter_tells_what_happened(redq: Redq, engine: Engine) -> None:
    configure(redq)

    @handler(QUEUE, kind="welcome")
    def work(task: Task[Any]) -> None:
        raise ValueError(f"no such address: {task.payload['to']}")

    task_id = engine.enqueue(
        {"to": "ada"}, QUEUE, kind="welcome", max_attempts=1, metadata={"by": "test"}
    )
    engine.consumer(QUEUE).run_once()

    [letter] = DeadLetterQueue(QUEUE).list()

    assert letter.task_id == task_id
    assert letter.reason == "exhausted"
    assert letter.kind == "welcome"
    assert letter.error == "no such address: ada"
    assert letter.exception_type == "ValueError"
    assert letter.traceback.endswith("ValueError: no such address: ada\n")
    assert letter.attempts == 1
    assert letter.replayable
    assert letter.task is not None
    assert letter.task.payload == {"to": "ada"}
    assert letter.task.metadata == {"by": "test"}
    assert letter.task.max_attempts == 1
    assert letter.task.last_error is not None
    assert letter.task.last_error.error == "no such address: ada"
    assert letter.task.enqueued_at <= letter.failed_at
    assert letter == DeadLetterQueue(QUEUE).get(task_id)
    assert DeadLetterQueue(QUEUE).count() == 1


def test_a_rejected_task_says_so(redq: Redq, engine: Engine) -> None:
    configure(redq)

    @handler(QUEUE)
    def work(task: Task[Any]) -> None:
        raise Reject("not ours")

    engine.enqueue(None, QUEUE)
    engine.consumer(QUEUE).run_once()

    [letter] = DeadLetterQueue(QUEUE).list()
    assert (letter.reason, letter.error) == ("rejected", "not ours")


@pytest.mark.every_server
@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_of_any_size_meet_each_letter_once_in_the_order_of_deaths(
    redq: Redq, newest_first: bool
) -> None:
    configure(redq)
    graves, letters = Graveyard(redq), DeadLetterQueue(QUEUE)
    # In several shards at the same moment, too, and with two in one shard and millisecond.
    for ms in (5, 6, 7):
        for shard in range(SHARDS):
            graves.bury(shard, f"{ms}-1")
    graves.bury(1, "7-2")
    graves.bury(2, "70-1")
    order = [
        *[(f"{ms}-1", shard) for ms in (5, 6, 7) for shard in range(SHARDS)],
        ("7-2", 1),
        ("70-1", 2),
    ]

    for count in range(1, len(order) + 2):
        seen = entries(all_pages(letters, count=count, newest_first=newest_first))
        assert seen == (order[::-1] if newest_first else order)


def test_what_comes_and_goes_between_pages_moves_nothing_else(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    stay = [graves.bury(at % SHARDS, f"{10 + at}-0") for at in range(6)]
    first = letters.list(count=2)
    # A new death, and both letters of the page seen, and one of the next.
    graves.bury(0, "99-0")
    for gone in (stay[5], stay[4], stay[3]):
        letters.discard(gone)

    rest = all_pages(letters, count=2)
    second = letters.list(count=2, after=first.cursor)
    third = letters.list(count=2, after=second.cursor)

    assert names(first) == [stay[5], stay[4]]
    assert [*names(second), *names(third)] == [stay[2], stay[1], stay[0]]
    assert third.cursor is None
    assert len(rest) == 4


def test_the_last_page_knows_that_it_is_the_last(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    assert letters.list().cursor is None
    assert len(letters.list()) == 0
    graves.bury()
    graves.bury()
    assert letters.list(count=2).cursor is None
    assert letters.list(count=1).cursor is not None
    assert letters.list(count=1)[0].task_id == letters.list()[0].task_id


def test_filters_pick_by_kind_reason_age_and_shard(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    old = graves.bury(0, "1-0", kind="a", at=BORN)
    new = graves.bury(1, "2-0", kind="a", at=BORN + 60_000, reason="rejected")
    bare = graves.bury(1, "3-0", at=BORN + 60_000)
    later = DeadLetterQueue(QUEUE, now=lambda: (BORN + 60_000) / 1000)

    assert names(letters.list(kind="a")) == [new, old]
    assert names(letters.list(kind="")) == [bare]
    assert names(letters.list(kind="", reason="rejected")) == []
    assert names(letters.list(reason="rejected")) == [new]
    assert names(letters.list(shard=1)) == [bare, new]
    assert names(letters.list(shard=2)) == []
    for newest_first in (True, False):
        assert names(later.list(older_than=60, newest_first=newest_first)) == [old]
        assert names(later.list(older_than=61, newest_first=newest_first)) == []
        assert len(later.list(older_than=timedelta(0), newest_first=newest_first)) == 3
    assert letters.count() == 3
    assert letters.count(shard=1) == 2


def test_by_default_age_is_told_by_the_clock_of_redis(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    seconds, _ = graves.client.time()
    old = graves.bury(0, at=(seconds - 3600) * 1000)
    graves.bury(0, at=(seconds + 3600) * 1000)

    assert names(letters.list(older_than=1800)) == [old]


def test_a_rare_kind_is_found_however_far_behind_it_is(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    rare = graves.bury(0, "1-0", kind="rare")
    graves.bury_many(2 * dead_walk.MAX_SCAN + 50, kind="usual")

    assert names(letters.list(kind="rare")) == [rare]
    assert len(all_pages(letters, kind="usual", count=300)) == 2 * dead_walk.MAX_SCAN + 50


def test_a_page_of_large_letters_comes_whole(graves: Graveyard, letters: DeadLetterQueue) -> None:
    large = "x" * 200_000
    buried = [graves.bury(at % 2, f"{10 + at}-0", payload=large) for at in range(24)]

    page = letters.list()

    assert names(page) == buried[::-1]
    assert all(letter.task and letter.task.payload == large for letter in page)


@pytest.mark.parametrize(
    "record", ["", "{", "[]", '{"at":1}', '{"at":"x","payload":1}', "\x80", '{"at":1,"payload":{}']
)
def test_a_task_that_does_not_decode_is_a_letter_all_the_same(
    graves: Graveyard, letters: DeadLetterQueue, record: str
) -> None:
    task_id = graves.bury(record=record)

    [letter] = letters.list()

    assert (letter.task_id, letter.task, letter.replayable) == (task_id, None, True)
    assert letters.discard(task_id)


LITTER: list[dict[Any, Any]] = [
    {"a": "b"},
    {b"\xff": b"\xfe\x00"},
    {"id": ""},
    {"id": "with space"},
    {"id": b"\xff\xfe", "error": b"\xff", "reason": b"\xff"},
    {"id": "x", "at": "soon", "attempts": "many", "reason": "\x1b[31m"},
    {"id": "x", "at": "9" * 400, "attempts": "9" * 5000},
    {"id": "x", "at": "-5", "attempts": "-5"},
    {"id": "x" * 300},
    {"id": "alive"},
]


@pytest.mark.parametrize("fields", LITTER, ids=str)
def test_what_somebody_else_wrote_there_is_shown_and_can_be_discarded(
    redq: Redq, graves: Graveyard, letters: DeadLetterQueue, engine: Engine, fields: dict[Any, Any]
) -> None:
    engine.enqueue("mine", QUEUE, task_id="alive")
    before = redq.world()
    graves.litter(1, "7-0", fields)

    [letter] = letters.list()

    assert letter.task is None
    assert not letter.replayable
    assert entries([letter]) == [("7-0", 1)]
    assert letters.get(entry_id="7-0") == letter
    assert letters.discard(entry_id="7-0")
    assert not letters.discard(entry_id="7-0")
    assert redq.world() == {**before, f"{{{QUEUE}:1}}:dlq": []}


def test_litter_does_not_hide_the_others(graves: Graveyard, letters: DeadLetterQueue) -> None:
    real = [graves.bury(0, "1-0"), graves.bury(0, "9-0")]
    for at, fields in enumerate(LITTER):
        graves.litter(0, f"{10 + at}-0", fields)

    found = all_pages(letters, count=3)

    assert len(found) == len(LITTER) + 2
    assert names(found)[-2:] == real[::-1]


def test_an_entry_in_several_shards_needs_the_shard(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    graves.litter(0, "7-0", {"a": "0"})
    graves.litter(2, "7-0", {"a": "2"})

    for method in (letters.get, letters.discard):
        with pytest.raises(InvalidArgument, match="shards 0, 2") as raised:
            method(entry_id="7-0")
        assert raised.value.field == "entry_id"
    assert letters.get(entry_id="7-0", shard=2).shard == 2
    assert letters.discard(entry_id="7-0", shard=2)
    assert entries(letters.list()) == [("7-0", 0)]


def test_get_finds_the_letter_that_is_meant_or_none(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    task_id = graves.bury(1, "5-0")
    other = graves.bury(1, "6-0")

    assert letters.get(task_id, entry_id="5-0").task_id == task_id
    assert letters.get(entry_id="6-0").task_id == other
    for name in ({"task_id": "t-unknown"}, {"task_id": task_id, "entry_id": "6-0"}):
        with pytest.raises(DeadLetterNotFound) as raised:
            letters.get(**name)
        assert raised.value.queue == QUEUE


# --- tombstones ------------------------------------------------------------------------------


def test_a_tombstone_can_be_seen_and_discarded_but_not_replayed(redq: Redq, engine: Engine) -> None:
    configure(redq)
    task_id = engine.enqueue("lost", QUEUE)
    shard = get_task(QUEUE, task_id).shard
    redq.client.hdel(redq.key(QUEUE, shard, "payload"), task_id)
    engine.consumer(QUEUE).run_once()
    letters = DeadLetterQueue(QUEUE)

    [letter] = letters.list()

    assert (letter.task_id, letter.reason) == (task_id, "missing_payload")
    assert (letter.task, letter.replayable) == (None, False)
    assert letters.get(task_id) == letter
    for entry_id in (None, letter.entry_id):
        with pytest.raises(NotReplayable):
            letters.replay(task_id, entry_id=entry_id)
    assert not letters.discard(task_id)
    assert letters.discard(task_id, entry_id=letter.entry_id)
    assert letters.count() == 0
    assert redq.client.hget(redq.key(QUEUE, shard, "meta"), "tombstones") == b"0"
    engine.assert_drained()


def test_a_tombstone_touches_no_live_task_of_its_id(
    redq: Redq, graves: Graveyard, letters: DeadLetterQueue, engine: Engine
) -> None:
    engine.enqueue("alive", QUEUE, task_id="t1")
    shard = get_task(QUEUE, "t1").shard
    before = redq.world()
    entry_id = graves.entomb(shard, "5-0", task_id="t1")

    [letter] = letters.list()
    assert (letter.task, letter.replayable) == (None, False)
    with pytest.raises(NotReplayable):
        letters.replay("t1")
    assert [result.replayed for result in letters.replay_batch()] == [False]
    assert letters.discard("t1", entry_id=entry_id)

    assert get_task(QUEUE, "t1").state is TaskState.READY
    dlq, meta = (f"{{{QUEUE}:{shard}}}:{name}" for name in ("dlq", "meta"))
    after = redq.world()
    assert after.pop(dlq) == []
    assert after.pop(meta) == {**before.pop(meta, {}), "tombstones": b"0"}
    assert after == before


def test_a_tombstone_is_not_mistaken_for_what_somebody_else_wrote(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    graves.entomb(0, "5-0", task_id=(task_id := next(ids_of(0))))
    graves.litter(0, "6-0", {"id": task_id})

    assert letters.get(task_id).entry_id == "5-0"


def test_a_letter_whose_payload_vanished_later_cannot_be_replayed(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    task_id = graves.bury()
    graves.client.hdel(graves.key("payload", 0), task_id)

    with pytest.raises(NotReplayable):
        letters.replay(task_id)
    [result] = letters.replay_batch()
    assert (result.replayed, result.why_not) == (False, "no payload")
    assert not letters.get(task_id).replayable
    assert letters.discard(task_id)


# --- replaying -------------------------------------------------------------------------------


@pytest.mark.every_server
def test_a_replayed_task_is_ready_again_with_all_its_attempts(redq: Redq, engine: Engine) -> None:
    configure(redq)
    runs: list[tuple[int, Any]] = []

    @handler(QUEUE)
    def work(task: Task[Any]) -> None:
        runs.append((task.attempt, task.last_error and task.last_error.error))
        if len(runs) < 2:
            raise ValueError("not yet")

    task_id = engine.enqueue("x", QUEUE, max_attempts=1)
    consumer = engine.consumer(QUEUE)
    consumer.run_once()
    letters = DeadLetterQueue(QUEUE)

    result = letters.replay(task_id)

    assert (result.task_id, result.queue, result.replayed) == (task_id, QUEUE, True)
    info = get_task(QUEUE, task_id)
    assert (info.state, info.attempts, info.errors) == (TaskState.READY, 0, ())
    assert info.shard == result.shard
    assert letters.count() == 0
    consumer.run_once()
    assert runs == [(1, None), (1, None)]
    engine.assert_drained()


def test_a_replay_changes_this_task_and_nothing_else(
    redq: Redq, graves: Graveyard, letters: DeadLetterQueue
) -> None:
    letters.count()
    graves.bury(0, "1-0")
    task_id = graves.bury(0, "2-0")
    graves.bury(1, "3-0")
    before = redq.world()

    due = letters.replay(task_id, run_at=datetime(2100, 1, 1, tzinfo=UTC)).run_at

    assert due == datetime(2100, 1, 1, tzinfo=UTC)
    shard = f"{{{QUEUE}:0}}"
    expected = dict(before)
    expected[f"{shard}:dlq"] = before[f"{shard}:dlq"][:1]
    expected[f"{shard}:entry"] = {k: v for k, v in before[f"{shard}:entry"].items() if k != task_id}
    expected[f"{shard}:delay"] = {task_id: due.timestamp() * 1000}
    expected[f"{shard}:state"] = {**before[f"{shard}:state"], task_id: b"0 0 0 2-0 "}
    assert redq.world() == expected


def test_a_replay_may_be_delayed(graves: Graveyard) -> None:
    letters = DeadLetterQueue(QUEUE, now=lambda: BORN / 1000)
    one, two, three = (graves.bury() for _ in range(3))
    at = datetime.fromtimestamp(BORN / 1000, UTC)

    assert letters.replay(one, delay=60).run_at <= at + timedelta(seconds=60)
    assert letters.replay(two, delay=timedelta(hours=1)).run_at > at + timedelta(minutes=59)
    assert letters.replay(three, run_at=at - timedelta(days=1)).run_at == at - timedelta(days=1)
    states = [get_task(QUEUE, task_id).state for task_id in (one, two, three)]
    assert states == [TaskState.SCHEDULED, TaskState.SCHEDULED, TaskState.READY]


def test_a_second_replay_finds_nothing(graves: Graveyard, letters: DeadLetterQueue) -> None:
    task_id = graves.bury(0, "5-0")
    letters.replay(task_id, entry_id="5-0")

    for entry_id in (None, "5-0"):
        with pytest.raises(DeadLetterNotFound) as raised:
            letters.replay(task_id, entry_id=entry_id)
        assert (raised.value.queue, raised.value.task_id) == (QUEUE, task_id)


def test_a_replay_that_names_a_letter_does_not_hit_a_later_death(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    task_id = graves.bury(0, "5-0")
    letters.replay(task_id)
    graves.bury(0, "6-0", task_id=task_id)
    graves.bury(0, other := "7-0")

    with pytest.raises(DeadLetterNotFound):
        letters.replay(task_id, entry_id="5-0")
    assert not letters.discard(task_id, entry_id="5-0")
    assert not letters.discard(task_id, entry_id=other)
    assert letters.replay(task_id, entry_id="6-0").replayed


def test_a_batch_replays_all_oldest_first_and_tells_of_each(
    graves: Graveyard, letters: DeadLetterQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 2)
    graves.entomb(0, "3-0", task_id="gone")
    buried = [graves.bury(at % SHARDS, f"{10 + at}-0") for at in range(5)]
    progress: list[int] = []

    results = letters.replay_batch(progress=progress.append)

    assert progress == [2, 4, 6]
    assert sorted(one.task_id for one in results) == sorted(["gone", *buried])
    assert [one.task_id for one in results if not one.replayed] == ["gone"]
    for result in results:
        assert (result.run_at is not None) == result.replayed
        assert result.entry_id
    assert {get_task(QUEUE, task_id).state for task_id in buried} == {TaskState.READY}
    assert entries(letters.list()) == [("3-0", 0)]


def test_a_batch_may_be_bounded_and_filtered(graves: Graveyard, letters: DeadLetterQueue) -> None:
    kinds = ["a", "b", "a", "a"]
    one, _, three, four = (
        graves.bury(at % SHARDS, f"{10 + at}-0", kind=kind) for at, kind in enumerate(kinds)
    )

    results = letters.replay_batch(kind="a", count=2, delay=3600)

    assert [result.task_id for result in results] == [one, three]
    assert get_task(QUEUE, one).state is TaskState.SCHEDULED
    assert get_task(QUEUE, four).state is TaskState.DEAD
    assert letters.replay_batch(shard=1, kind="a") == []
    assert len(letters.replay_batch()) == 2


def test_a_batch_leaves_what_falls_back_meanwhile(
    redq: Redq, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 2)
    configure(redq)

    @handler(QUEUE)
    def work(task: Task[Any]) -> None:
        raise ValueError("never")

    for _ in range(6):
        engine.enqueue(None, QUEUE, max_attempts=1)
    consumer = engine.consumer(QUEUE)
    while consumer.run_once():
        pass
    letters = DeadLetterQueue(QUEUE)

    def let_them_die_again(done: int) -> None:
        assert done <= 6
        while consumer.run_once():
            pass

    results = letters.replay_batch(progress=let_them_die_again)

    assert len(results) == 6
    assert all(result.replayed for result in results)
    assert letters.count() == 6


def test_a_batch_tells_of_the_shards_that_work_before_it_fails_for_one_that_does_not(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    sound, broken = graves.bury(0), graves.bury(1)
    graves.client.set(graves.key("stream", 1), "no stream")
    results = letters.replay_each()

    assert next(results).task_id == sound
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        next(results)
    assert get_task(QUEUE, sound).state is TaskState.READY
    assert letters.get(broken).replayable


def test_replay_each_checks_and_looks_when_it_is_called(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    with pytest.raises(InvalidArgument):
        letters.replay_each(count=0)
    results = letters.replay_each()
    graves.bury()

    assert list(results) == []


# --- removing --------------------------------------------------------------------------------


@pytest.mark.every_server
def test_discard_takes_the_letter_and_its_task(redq: Redq) -> None:
    configure(redq)
    graves, letters = Graveyard(redq), DeadLetterQueue(QUEUE)
    letters.count()
    kept = graves.bury(0)
    before = redq.world()
    task_id = graves.bury(0)

    assert letters.discard(task_id)
    assert not letters.discard(task_id)

    assert redq.world() == before
    assert names(letters.list()) == [kept]


def test_discard_of_an_entry_alone_takes_its_task_too(
    redq: Redq, graves: Graveyard, letters: DeadLetterQueue
) -> None:
    letters.count()
    graves.bury(1, "4-0")
    before = redq.world()
    graves.bury(1, "5-0")

    assert letters.discard(entry_id="5-0")

    assert redq.world() == before


def test_discard_names_no_live_task(letters: DeadLetterQueue, engine: Engine) -> None:
    engine.enqueue(None, QUEUE, task_id="alive")

    assert not letters.discard("alive")
    assert get_task(QUEUE, "alive").state is TaskState.READY


def test_purge_removes_what_is_asked_for_oldest_first(
    graves: Graveyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 2)
    letters = DeadLetterQueue(QUEUE, now=lambda: BORN / 1000 + 100)
    for at in range(7):
        graves.bury(at % SHARDS, f"{10 + at}-0", at=BORN + at * 1000, kind="a" if at % 2 else "b")
    graves.entomb(1, "90-0")
    progress: list[int] = []

    assert letters.purge(older_than=100.5) == 0
    assert letters.purge(older_than=100) == 1
    assert letters.purge(kind="a", count=1) == 1
    assert sorted(entries(letters.list()))[:2] == [("12-0", 2), ("13-0", 0)]
    assert letters.purge(shard=1) == 2
    assert letters.purge(reason="rejected") == 0
    assert letters.purge(progress=progress.append) == 4
    assert progress == [2, 4]
    assert letters.count() == 0
    assert graves.client.hgetall(graves.key("payload", 0)) == {}


def test_purge_leaves_what_dies_meanwhile(
    graves: Graveyard, letters: DeadLetterQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 1)
    for _ in range(3):
        graves.bury()

    assert letters.purge(progress=lambda _: graves.bury()) == 3
    assert letters.count() == 3


# --- arguments -------------------------------------------------------------------------------

Act = Callable[[DeadLetterQueue], Any]
REFUSED: list[tuple[str, Act]] = [
    ("count", lambda letters: letters.list(count=0)),
    ("count", lambda letters: letters.list(count=1001)),
    ("count", lambda letters: letters.list(count=True)),
    ("count", lambda letters: letters.replay_batch(count=1.5)),
    ("count", lambda letters: letters.purge(count=0)),
    ("shard", lambda letters: letters.list(shard=SHARDS)),
    ("shard", lambda letters: letters.purge(shard=-1)),
    ("shard", lambda letters: letters.count(shard="1")),
    ("shard", lambda letters: letters.discard(entry_id="1-0", shard=9)),
    ("after", lambda letters: letters.list(after="nonsense")),
    ("after", lambda letters: letters.list(after="1-1.0; DROP")),
    ("after", lambda letters: letters.list(after="99999999999999999999-0.0")),
    ("kind", lambda letters: letters.list(kind=5)),
    ("reason", lambda letters: letters.purge(reason=b"exhausted")),
    ("older_than", lambda letters: letters.purge(older_than=-1)),
    ("older_than", lambda letters: letters.list(older_than=float("nan"))),
    ("older_than", lambda letters: letters.replay_batch(older_than="1d")),
    ("delay", lambda letters: letters.replay("t", delay=-1)),
    ("delay", lambda letters: letters.replay_batch(delay=float("inf"))),
    ("run_at", lambda letters: letters.replay("t", run_at=datetime(2030, 1, 1))),  # noqa: DTZ001
    ("run_at", lambda letters: letters.replay("t", run_at=datetime.now(UTC), delay=1)),
    ("task_id", lambda letters: letters.replay("")),
    ("task_id", lambda letters: letters.get("with space")),
    ("task_id", lambda letters: letters.get()),
    ("task_id", lambda letters: letters.discard()),
    ("entry_id", lambda letters: letters.discard(entry_id="5")),
    ("entry_id", lambda letters: letters.discard(entry_id="٣-0")),
    ("after", lambda letters: letters.list(after="٣-0.0")),
    ("entry_id", lambda letters: letters.replay("t", entry_id="-")),
]


@pytest.mark.parametrize(("field", "act"), REFUSED)
def test_a_bad_argument_is_named_and_nothing_is_changed(
    redq: Redq, graves: Graveyard, letters: DeadLetterQueue, field: str, act: Act
) -> None:
    letters.count()
    graves.bury()
    before = redq.world()

    with pytest.raises(InvalidArgument) as raised:
        act(letters)

    assert raised.value.field == field
    assert redq.world() == before


def test_an_unknown_argument_is_a_type_error(letters: DeadLetterQueue) -> None:
    with pytest.raises(TypeError, match="reasons"):
        letters.purge(reasons="exhausted")  # type: ignore[call-arg]


def test_an_unknown_queue_is_told_with_the_known_ones(graves: Graveyard) -> None:
    with pytest.raises(UnknownQueue, match=QUEUE):
        DeadLetterQueue("nope")


# --- async code ------------------------------------------------------------------------------


def test_a_view_may_await_each_of_them(graves: Graveyard, letters: DeadLetterQueue) -> None:
    one, two, three = (graves.bury(0, f"{at}-0") for at in (1, 2, 3))

    async def view() -> None:
        assert await letters.acount() == 3
        assert names(await letters.alist(count=2)) == [three, two]
        assert (await letters.aget(one)).task_id == one
        assert (await letters.areplay(one)).replayed
        assert await letters.adiscard(two)
        assert [done.task_id for done in await letters.areplay_batch(shard=0)] == [three]
        assert await letters.apurge() == 0
        with pytest.raises(DeadLetterNotFound):
            await letters.aget(one)

    asyncio.run(view())


def test_the_sync_ones_do_not_block_an_event_loop(letters: DeadLetterQueue) -> None:
    async def view() -> None:
        with pytest.raises(SynchronousOnlyOperation, match=r"await alist\(\)"):
            letters.list()

    asyncio.run(view())

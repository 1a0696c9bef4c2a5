"""Dead letters that are named one by one: many at a time, spread, and one with another payload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redq import (
    Consumer,
    DeadLetterNotFound,
    DeadLetterQueue,
    InvalidArgument,
    NotReplayable,
    PayloadTooLarge,
    Task,
    TaskState,
    get_task,
    handler,
)
from django_redq.dead_letters import LetterRef
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure


@pytest.fixture
def graves(redq: Redq, engine: Engine) -> Graveyard:
    # After the engine, which has one queue of its own.
    configure(redq)
    return Graveyard(redq)


@pytest.fixture
def letters(graves: Graveyard) -> DeadLetterQueue:
    return DeadLetterQueue(QUEUE)


def refs(letters: DeadLetterQueue, **options: Any) -> list[LetterRef]:
    return [letter.ref for letter in letters.list(newest_first=False, **options)]


# --- names


def test_a_name_survives_a_form() -> None:
    for ref in (LetterRef("t:1/%", "1-2", 3), LetterRef("", "1700000000000-0", 1023)):
        assert LetterRef.parse(str(ref)) == ref


@pytest.mark.parametrize(
    "text", ["", "1", "1:2", "x:1-2:t", "1:x:t", "-1:1-2:t", "99999:1-2:t", "1:1-2:a b"]
)
def test_what_is_no_name_is_told(text: str) -> None:
    with pytest.raises(InvalidArgument):
        LetterRef.parse(text)


# --- many


def test_letters_are_replayed_and_each_is_told_of(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    ids = [graves.bury(shard, f"{BORN + shard}-0") for shard in range(SHARDS)]
    tomb = graves.entomb(0, f"{BORN + 7}-0", task_id="gone")
    graves.client.hdel(graves.key("payload", 1), ids[1])
    named = [*refs(letters), LetterRef("nobody", "5-5", 1)]

    results = letters.replay_letters(named)

    assert [(one.task_id, one.replayed, one.why_not) for one in results] == [
        (ids[0], True, ""),
        (ids[1], False, "no payload"),
        (ids[2], True, ""),
        ("gone", False, "no payload"),
        ("nobody", False, "gone"),
    ]
    assert [letter.entry_id for letter in letters.list()] == [tomb, f"{BORN + 1}-0"]
    assert get_task(QUEUE, ids[0]).state is TaskState.READY
    again = letters.replay_letters(named[:1])
    assert [(one.replayed, one.why_not) for one in again] == [(False, "gone")]


def test_letters_are_spread_over_time(graves: Graveyard, letters: DeadLetterQueue) -> None:
    for number in range(5):
        graves.bury(number % SHARDS, f"{BORN + number}-0")
    start = datetime(2040, 1, 1, tzinfo=UTC)

    results = letters.replay_letters(refs(letters), run_at=start, spread=timedelta(minutes=4))

    assert [one.run_at for one in results] == [start + timedelta(minutes=n) for n in range(5)]


def test_letters_may_be_delayed_and_a_lone_one_is_not_spread(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    graves.bury(0)
    earliest = datetime.now(UTC) + timedelta(hours=1) - timedelta(seconds=1)

    [result] = letters.replay_letters(refs(letters), delay=3600, spread=600)

    assert result.run_at is not None
    assert earliest <= result.run_at <= earliest + timedelta(minutes=2)


def test_a_name_hits_no_later_death(graves: Graveyard, letters: DeadLetterQueue) -> None:
    task_id = graves.bury(0, "1-0")
    [old] = refs(letters)
    graves.client.xdel(graves.key("dlq", 0), "1-0")
    graves.bury(0, "2-0", task_id=task_id)

    assert [one.replayed for one in letters.replay_letters([old])] == [False]
    assert letters.discard_letters([old]) == 0
    assert graves.left() == ["2-0"]


def test_letters_are_discarded(graves: Graveyard, letters: DeadLetterQueue) -> None:
    for shard in range(SHARDS):
        graves.bury(shard, f"{BORN + shard}-0")
    graves.entomb(0, f"{BORN + 7}-0")
    graves.litter(1, f"{BORN + 8}-0", {"a": "b"})
    named = refs(letters)

    assert letters.discard_letters([*named, named[0], LetterRef("nobody", "5-5", 1)]) == 5
    assert letters.count() == 0
    assert graves.client.hgetall(graves.key("payload", 0)) == {}


def test_there_is_an_end_to_what_may_be_named(letters: DeadLetterQueue) -> None:
    many = [LetterRef("", f"1-{number}", 0) for number in range(1001)]

    for act in (letters.replay_letters, letters.discard_letters):
        with pytest.raises(InvalidArgument, match=r"at most 1,000, got 1,001"):
            act(many)
        with pytest.raises(InvalidArgument, match="shard"):
            act([LetterRef("t", "1-1", SHARDS)])
        assert act([]) in ([], 0)


# --- edited


RECORD = {
    "at": BORN,
    "due": BORN + 5,
    "kind": "greet",
    "max": 7,
    "key": "k-1",
    "meta": {"a": "b"},
    "nonce": "n",
    "later": [1],
}


@dataclass
class Greeting:
    to: str
    times: int = 1


def bury_record(graves: Graveyard, payload: str = '{"to": "nobody"}') -> str:
    record = json.dumps(RECORD)[:-1] + f', "payload": {payload}}}'
    return graves.bury(0, "1-0", record=record)


def record_of(graves: Graveyard, task_id: str) -> Any:
    return json.loads(graves.client.hget(graves.key("payload", 0), task_id))


@pytest.mark.every_server
def test_a_task_is_replayed_with_another_payload_and_all_else_is_kept(redq: Redq) -> None:
    configure(redq)
    graves = Graveyard(redq)
    letters = DeadLetterQueue(QUEUE)
    task_id = bury_record(graves)

    result = letters.replay(task_id, entry_id="1-0", payload={"to": "Ада", "n": 2**70})

    assert result.replayed
    assert record_of(graves, task_id) == {**RECORD, "payload": {"to": "Ада", "n": 2**70}}
    assert get_task(QUEUE, task_id).state is TaskState.READY
    assert letters.count() == 0


def test_what_was_edited_runs_as_edited(graves: Graveyard, letters: DeadLetterQueue) -> None:
    seen: list[Any] = []

    @handler(QUEUE, kind="greet")
    def greet(task: Task[Greeting]) -> None:
        seen.append((task.payload, task.idempotency_key, task.attempt, task.max_attempts))

    engine_task = bury_record(graves)
    letters.replay(engine_task, entry_id="1-0", payload=Greeting("Ada", 2))
    consumer = Consumer(QUEUE)
    consumer.run_once()
    consumer.stop()

    assert seen == [(Greeting("Ada", 2), "k-1", 1, 7)]


def test_an_edited_task_may_be_delayed(graves: Graveyard, letters: DeadLetterQueue) -> None:
    task_id = bury_record(graves)

    letters.replay(task_id, entry_id="1-0", payload=None, delay=3600)

    assert get_task(QUEUE, task_id).state is TaskState.SCHEDULED
    assert record_of(graves, task_id)["payload"] is None


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ({"to": object()}, r"payload\.to"),
        ({"to": float("nan")}, r"payload\.to"),
        ({"to": 7}, r"\.to"),
        ("x" * 300_000, "MAX_PAYLOAD_BYTES"),
        ([], "payload"),
    ],
)
def test_a_payload_that_cannot_be_or_does_not_fit_is_told_and_nothing_is_done(
    graves: Graveyard, letters: DeadLetterQueue, payload: Any, complaint: str
) -> None:
    @handler(QUEUE, kind="greet")
    def greet(task: Task[Greeting]) -> None:
        """Says what it wants."""

    task_id = bury_record(graves)
    before = record_of(graves, task_id)

    with pytest.raises(InvalidArgument, match=complaint) as caught:
        letters.replay(task_id, entry_id="1-0", payload=payload)

    assert isinstance(caught.value, PayloadTooLarge) == (complaint == "MAX_PAYLOAD_BYTES")
    assert record_of(graves, task_id) == before
    assert graves.left() == ["1-0"]


def test_an_edit_hits_no_later_death(graves: Graveyard, letters: DeadLetterQueue) -> None:
    task_id = bury_record(graves)
    graves.client.hset(graves.key("entry", 0), task_id, "dlq 2-0")
    graves.client.xadd(graves.key("dlq", 0), {"id": task_id, "reason": "exhausted"}, "2-0")
    before = record_of(graves, task_id)

    # The old letter is litter by now: what it names is dead by another.
    with pytest.raises((NotReplayable, DeadLetterNotFound)):
        letters.replay(task_id, entry_id="1-0", payload={"to": "x"})
    with pytest.raises(DeadLetterNotFound):
        letters.replay(task_id, entry_id="9-0", payload={"to": "x"})

    assert record_of(graves, task_id) == before
    assert letters.count() == 2


def test_an_edit_needs_the_letter_that_was_seen(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    task_id = bury_record(graves)

    with pytest.raises(InvalidArgument, match="entry_id: is needed with payload"):
        letters.replay(task_id, payload={})


def test_what_has_no_payload_cannot_be_edited(graves: Graveyard, letters: DeadLetterQueue) -> None:
    task_id = bury_record(graves)
    graves.client.hdel(graves.key("payload", 0), task_id)

    with pytest.raises(NotReplayable):
        letters.replay(task_id, entry_id="1-0", payload={})


@pytest.mark.parametrize("record", ["rubbish", '{"at":"x"}', "[]"])
def test_a_record_that_does_not_decode_cannot_be_edited(
    graves: Graveyard, letters: DeadLetterQueue, record: str
) -> None:
    task_id = graves.bury(0, "1-0", record=record)

    with pytest.raises(InvalidArgument, match="cannot be edited"):
        letters.replay(task_id, entry_id="1-0", payload={})
    assert graves.left() == ["1-0"]


def test_a_payload_that_does_not_decode_can_be_mended(
    graves: Graveyard, letters: DeadLetterQueue
) -> None:
    """Which is what editing is for: the handler declares a type that the old payload does not fit."""

    @handler(QUEUE, kind="greet")
    def greet(task: Task[Greeting]) -> None:
        """Says what it wants."""

    task_id = bury_record(graves, '{"name": "nobody"}')

    assert letters.replay(task_id, entry_id="1-0", payload={"to": "Ada"}).replayed

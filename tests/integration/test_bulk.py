"""Work on many dead letters that goes on in the background: begin it, watch it, stop it."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync

from django_redq import (
    Bulk,
    BulkAction,
    BulkNotFound,
    BulkState,
    DeadLetterQueue,
    InvalidArgument,
    Scheduler,
    TooManyBulks,
)
from django_redq.broker import bulk_calls
from django_redq.broker.bulk_calls import MAX_EFFORT
from django_redq.broker.sync import get_broker
from django_redq.conf import get_config
from django_redq.dead_letters.bulk_work import MAX_OVER
from tests.harness import Redq, until
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure

pytestmark = pytest.mark.every_setup

LOG = "django_redq.scheduler"


@pytest.fixture
def grave(redq: Redq) -> Graveyard:
    configure(redq)
    return Graveyard(redq)


@pytest.fixture
def letters(grave: Graveyard) -> DeadLetterQueue:
    return DeadLetterQueue(QUEUE)


@pytest.fixture
def scheduler(grave: Graveyard) -> Iterator[Scheduler]:
    made = Scheduler(QUEUE)
    yield made
    made.stop()


def left(grave: Graveyard) -> list[list[str]]:
    return [grave.left(shard) for shard in range(SHARDS)]


def names() -> Iterator[str]:
    """IDs in the order in which they are asked for, within one millisecond, too."""
    return (str(uuid.UUID(int=number)) for number in itertools.count())


def size(grave: Graveyard, name: str) -> int:
    """Of a key, over all shards."""
    count: Callable[..., Any] = grave.client.zcard if name == "delay" else grave.client.xlen
    return sum(count(grave.key(name, shard)) for shard in range(SHARDS))


# --- beginning


def test_a_bulk_waits_for_a_scheduler(grave: Graveyard, letters: DeadLetterQueue) -> None:
    grave.bury(0)
    earliest = datetime.now(UTC) - timedelta(seconds=1)

    bulk = letters.start_replay(kind="", by="ann")

    assert bulk.begun_at > earliest
    assert bulk == Bulk(
        id=bulk.id,
        queue=QUEUE,
        action=BulkAction.REPLAY,
        state=BulkState.WAITING,
        which={"kind": ""},
        run_at=None,
        spread=None,
        by="ann",
        expected=1,
        expected_exact=True,
        looked_at=0,
        changed=0,
        gone=0,
        missing=0,
        begun_at=bulk.begun_at,
        ended_at=None,
        shards=SHARDS,
        shards_done=0,
        unreachable=(),
    )
    assert letters.bulk(bulk.id) == bulk
    assert letters.bulks() == (bulk,)
    assert not bulk.is_over
    assert uuid.UUID(bulk.id).version == 7


def test_what_was_asked_for_is_told_as_it_was_given(letters: DeadLetterQueue) -> None:
    since = datetime(2030, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    until_ = datetime(2031, 1, 2, tzinfo=UTC)

    bulk = letters.start_discard(
        shard=1,
        kind="a",
        reason="exhausted",
        exception_type="",
        task_id="t",
        idempotency_key="k",
        text="Time",
        since=since,
        until=until_,
        older_than=timedelta(minutes=1),
    )

    assert bulk.action is BulkAction.DISCARD
    assert bulk.which == {
        "shard": 1,
        "kind": "a",
        "reason": "exhausted",
        "exception_type": "",
        "task_id": "t",
        "idempotency_key": "k",
        "text": "Time",
        "since": since,
        "until": until_,
        "older_than": 60.0,
    }
    assert bulk.shards == 1


def test_when_replayed_tasks_are_due_is_told(letters: DeadLetterQueue) -> None:
    at = datetime(2040, 1, 1, tzinfo=UTC)

    assert letters.start_replay(run_at=at).run_at == at
    later = letters.start_replay(delay=60, spread=timedelta(minutes=10))

    assert later.run_at == later.begun_at + timedelta(seconds=60)
    assert later.spread == 600.0
    spread = letters.start_replay(spread=5)
    assert spread.run_at == spread.begun_at


def test_a_request_that_is_sent_twice_begins_one_bulk(letters: DeadLetterQueue) -> None:
    bulk_id = str(uuid.uuid4())

    first = letters.start_replay(bulk_id=bulk_id, by="ann")
    second = letters.start_discard(bulk_id=bulk_id.upper(), by="bob")

    assert first.id == bulk_id
    assert second == first
    assert letters.bulks() == (first,)


def test_what_is_newer_stands_first(letters: DeadLetterQueue) -> None:
    begun = [letters.start_replay(bulk_id=name).id for name in itertools.islice(names(), 3)]

    assert [bulk.id for bulk in letters.bulks()] == begun[::-1]


def test_there_is_an_end_to_what_may_be_open(letters: DeadLetterQueue) -> None:
    begun = [letters.start_replay() for _ in range(bulk_calls.MAX_OPEN)]

    with pytest.raises(TooManyBulks, match=f"10 bulks of '{QUEUE}' are not through yet"):
        letters.start_discard()
    letters.stop_bulk(begun[0].id)
    letters.start_discard()


def test_of_those_that_are_over_the_last_few_are_kept(
    grave: Graveyard, letters: DeadLetterQueue
) -> None:
    begun = []
    for name in itertools.islice(names(), MAX_OVER + 3):
        begun.append(letters.start_replay(bulk_id=name).id)
        letters.stop_bulk(begun[-1])
    letters.start_replay()

    assert [bulk.id for bulk in letters.bulks() if bulk.is_over] == begun[: -MAX_OVER - 1 : -1]
    for shard in range(SHARDS):
        kept = {name.decode() for name in grave.client.hkeys(grave.key("bulk", shard))}
        assert kept.isdisjoint({*begun[:3], *(f"{one} part" for one in begun[:3])})


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("delay", {"delay": -1}),
        ("run_at", {"run_at": datetime(2040, 1, 1, tzinfo=UTC), "delay": 1}),
        ("spread", {"spread": -1}),
        ("spread", {"spread": True}),
        ("by", {"by": 7}),
        ("by", {"by": "x" * 201}),
        ("bulk_id", {"bulk_id": "b1"}),
        ("bulk_id", {"bulk_id": 7}),
        ("kind", {"kind": 7}),
        ("shard", {"shard": SHARDS}),
        ("shard", {"shard": True}),
        ("which", {"text": "x" * 9000}),
    ],
)
def test_an_argument_that_breaks_its_rule_begins_nothing(
    letters: DeadLetterQueue, field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        letters.start_replay(**arguments)

    assert caught.value.field == field
    assert letters.bulks() == ()


@pytest.mark.parametrize("bulk_id", ["", "b1", str(uuid.uuid4()), "\ud800", "a\0b"])
def test_what_never_began_is_not_found(letters: DeadLetterQueue, bulk_id: str) -> None:
    with pytest.raises(BulkNotFound):
        letters.bulk(bulk_id)
    with pytest.raises(BulkNotFound):
        letters.stop_bulk(bulk_id)


def test_each_verb_has_a_twin(letters: DeadLetterQueue) -> None:
    async def story() -> None:
        one, two = itertools.islice(names(), 2)
        first = await letters.astart_replay(by="ann", bulk_id=one)
        second = await letters.astart_discard(bulk_id=two)
        assert await letters.abulk(first.id) == first
        assert await letters.astop_bulk(second.id) is True
        assert [one.id for one in await letters.abulks()] == [second.id, first.id]

    async_to_sync(story)()


# --- carrying on


@pytest.mark.every_server
def test_a_scheduler_replays_what_is_asked_for(redq: Redq) -> None:
    configure(redq)
    grave = Graveyard(redq)
    letters, scheduler = DeadLetterQueue(QUEUE), Scheduler(QUEUE)
    for shard in (0, 0, 1, 2):
        grave.bury(shard, kind="a")
        grave.bury(shard, kind="b")
    bulk = letters.start_replay(kind="a")

    scheduler.run_once()
    scheduler.stop()

    over = letters.bulk(bulk.id)
    assert (over.state, over.looked_at, over.changed) == (BulkState.DONE, 8, 4)
    assert (over.shards_done, over.is_over) == (SHARDS, True)
    assert over.ended_at is not None
    assert over.ended_at >= over.begun_at
    assert {letter.kind for letter in letters.list()} == {"b"}
    assert size(grave, "stream") == 4


def test_a_scheduler_discards_what_is_asked_for(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    for shard in range(SHARDS):
        grave.bury(shard, f"{BORN + 5}-0", at=BORN + 5)
        grave.bury(shard, f"{BORN + 6}-0", at=BORN + 6)
        grave.entomb(shard, f"{BORN + 9}-0")
    bulk = letters.start_discard(until=datetime.fromtimestamp(BORN / 1000 + 0.005, UTC))

    scheduler.clean_once()
    assert letters.bulk(bulk.id).state is BulkState.WAITING
    scheduler.run_once()

    assert letters.bulk(bulk.id).changed == SHARDS
    assert left(grave) == [[f"{BORN + 6}-0", f"{BORN + 9}-0"]] * SHARDS


def test_a_round_of_the_janitor_carries_on_to_the_end(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    scheduler.run_once()
    grave.bury_many(1000)
    bulk = letters.start_discard()

    scheduler.clean_once()

    assert letters.bulk(bulk.id).changed == 1000
    assert left(grave) == [[]] * SHARDS


def test_a_running_scheduler_carries_on_by_itself(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    grave.bury_many(1000)
    bulk = letters.start_replay(delay=3600)

    scheduler.start()
    until(lambda: letters.bulk(bulk.id).is_over)

    assert letters.bulk(bulk.id).changed == size(grave, "delay") == 1000


def test_an_age_counts_to_the_beginning(grave: Graveyard, scheduler: Scheduler) -> None:
    grave.bury(0, "1-0", at=BORN - 60_000)
    grave.bury(0, "2-0", at=BORN - 59_999)
    letters = DeadLetterQueue(QUEUE, now=lambda: BORN / 1000)

    letters.start_discard(older_than=60)
    scheduler.run_once()

    assert grave.left(0) == ["2-0"]


def test_what_died_before_the_time_asked_for_is_not_even_looked_at(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    hour = 3_600_000
    for at in (BORN, BORN + hour, BORN + 2 * hour, BORN + 3 * hour):
        grave.bury(0, f"{at}-0", at=at)
    bulk = letters.start_discard(
        since=datetime.fromtimestamp((BORN + hour) / 1000, UTC),
        until=datetime.fromtimestamp((BORN + 2 * hour) / 1000, UTC),
    )

    scheduler.run_once()

    assert grave.left(0) == [f"{BORN}-0", f"{BORN + 3 * hour}-0"]
    assert letters.bulk(bulk.id).looked_at == 2


def test_one_shard_alone_is_meant_where_one_is_named(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    for shard in range(SHARDS):
        grave.bury(shard, "1-0")
    bulk = letters.start_discard(shard=1)

    scheduler.run_once()

    assert left(grave) == [["1-0"], [], ["1-0"]]
    over = letters.bulk(bulk.id)
    assert (over.state, over.shards, over.changed) == (BulkState.DONE, 1, 1)


def test_what_is_spread_is_spread_over_all_shards(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    for shard in range(SHARDS):
        for _ in range(20):
            grave.bury(shard)
    bulk = letters.start_replay(delay=3600, spread=600)

    scheduler.run_once()

    dues = sorted(
        due
        for shard in range(SHARDS)
        for _, due in grave.client.zrange(grave.key("delay", shard), 0, -1, withscores=True)
    )
    assert bulk.run_at is not None
    start = bulk.run_at.timestamp() * 1000
    # In each tenth of the time about a tenth of the tasks.
    tenths = [sum(1 for due in dues if (due - start) // 60_000 == tenth) for tenth in range(10)]
    assert sum(tenths) == 60
    assert all(4 <= number <= 8 for number in tenths)


def test_what_cannot_be_replayed_is_told(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grave.bury(0)
    grave.client.hdel(grave.key("payload", 1), grave.bury(1))
    grave.entomb(1)
    grave.litter(2, "1-0", {"foo": "bar"})
    bulk = letters.start_replay(by="ann\n")

    with caplog.at_level(logging.INFO, LOG):
        scheduler.run_once()

    over = letters.bulk(bulk.id)
    assert (over.looked_at, over.changed, over.missing, over.gone) == (4, 1, 2, 1)
    name = f"bulk replay {bulk.id} of 'letters'"
    assert f"{name}, begun by 'ann\\n', is under way" in caplog.messages
    assert f"{name} is done: 1 replayed, 2 without payload, 1 of no task" in caplog.messages


def test_turns_however_short_come_to_an_end_and_serve_all_shards_in_turn(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("django_redq.scheduler.bulk.TURN", 0.0)
    for shard in range(SHARDS):
        grave.bury_many(MAX_EFFORT // 4 * 3, shard, kind=f"k{shard}-")
    scheduler.run_once()
    bulk = letters.start_discard()

    for _ in range(2 * SHARDS):
        assert scheduler._janitor.carry_on()
    assert [len(entries) for entries in left(grave)] == [MAX_EFFORT // 4] * SHARDS
    scheduler.clean_once()

    assert letters.bulk(bulk.id).changed == MAX_EFFORT // 4 * 3 * SHARDS


def test_leases_are_kept_however_long_it_takes(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carry_on, turns = scheduler._janitor.carry_on, itertools.count()

    def slow() -> bool:
        """The first turn takes longer than a lease lasts."""
        if next(turns):
            return carry_on()
        for shard in range(SHARDS):
            grave.client.delete(grave.key("lease", shard))
        scheduler._ticker.leases._upkeep = dict.fromkeys(scheduler._ticker.shards, 0.0)
        return True

    monkeypatch.setattr(scheduler._janitor, "carry_on", slow)
    grave.bury(0)
    bulk = letters.start_discard()

    scheduler.run_once()

    assert letters.bulk(bulk.id).changed == 1


def test_several_go_on_side_by_side(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    for shard in range(SHARDS):
        grave.bury(shard, kind="a")
        grave.bury(shard, kind="b")
    replay = letters.start_replay(kind="a")
    discard = letters.start_discard(kind="b")

    scheduler.run_once()

    assert [letters.bulk(one.id).changed for one in (replay, discard)] == [SHARDS, SHARDS]


def test_several_schedulers_share_the_work(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    other = Scheduler(QUEUE)
    scheduler.run_once()
    # The second shard's lease goes to the other one.
    grave.client.delete(grave.key("lease", 1))
    other.run_once()
    for shard in range(SHARDS):
        grave.bury(shard)
    bulk = letters.start_replay()

    scheduler.clean_once()
    part = letters.bulk(bulk.id)
    assert (part.state, part.changed, part.shards_done) == (BulkState.RUNNING, 2, 2)
    other.clean_once()
    # All are through, and the first shard's scheduler has yet to note that.
    assert letters.bulk(bulk.id).state is BulkState.DONE
    assert record_state(grave, bulk) == "open"

    scheduler.start()
    until(lambda: record_state(grave, bulk) == "done")
    assert letters.bulk(bulk.id).changed == SHARDS
    other.stop()


def test_one_after_another_is_noted_as_done_at_once(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    for _ in range(2):
        bulk = letters.start_replay()
        scheduler.run_once()
        assert record_state(grave, bulk) == "done"


def record_state(grave: Graveyard, bulk: Bulk) -> str:
    value = grave.client.hget(grave.key("bulk", 0), bulk.id)
    return value.decode().split()[0] if value else ""


# --- stopping


def test_a_stopped_bulk_changes_nothing_more(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler.run_once()
    grave.bury_many(1000)
    bulk = letters.start_replay(delay=3600)
    instance = grave.client.get(grave.key("lease", 0)).decode()
    work = bulk_calls.BulkStep(bulk.id, "-", 2**45, "replay", 2**45, 0, 0.0, ())
    broker = get_broker()
    shard = letters._shards[0]
    assert broker.run(bulk_calls.step(shard, instance, work, "")) == "going"

    assert letters.stop_bulk(bulk.id) is True

    # A step of somebody who read the record before, too.
    for one in letters._shards:
        assert broker.run(bulk_calls.step(one, instance, work, "")) == "stopped"
    with caplog.at_level(logging.INFO, LOG):
        scheduler.clean_once()
    over = letters.bulk(bulk.id)
    assert (over.state, over.changed, over.is_over) == (BulkState.STOPPED, MAX_EFFORT // 4, True)
    assert over.ended_at is not None
    assert len(grave.left(0)) == 1000 - MAX_EFFORT // 4
    assert letters.stop_bulk(bulk.id) is False


def test_a_bulk_that_is_done_cannot_be_stopped(
    letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    bulk = letters.start_replay()
    scheduler.run_once()

    assert letters.stop_bulk(bulk.id) is False
    assert letters.bulk(bulk.id).state is BulkState.DONE


def test_a_scheduler_says_that_what_it_carried_on_was_stopped(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Scheduler(QUEUE)
    scheduler.run_once()
    grave.client.delete(grave.key("lease", 1))
    other.run_once()
    bulk = letters.start_replay()
    scheduler.clean_once()

    letters.stop_bulk(bulk.id)
    with caplog.at_level(logging.INFO, LOG):
        scheduler.clean_once()
    other.stop()

    assert caplog.messages == [f"bulk replay {bulk.id} of 'letters' was stopped"]


# --- bad times


def test_a_broken_record_is_told_once_and_keeps_nobody_waiting(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grave.bury(0)
    later, odd, no_json = (str(uuid.uuid4()) for _ in range(3))
    records: dict[Any, Any] = {
        later: 'open 9 9 0 {"action":"replay","which":{"colour":"red"}}',
        odd: 'open 9 9 0 {"action":"paint","which":{}}',
        no_json: "open 9 9 0 {",
        "rubbish": "rubbish",
        b"\xff": b"\xff",
    }
    grave.client.hset(grave.key("bulk", 0), mapping=records)
    bulk = letters.start_discard()

    scheduler.run_once()
    scheduler.clean_once()

    assert [one.id for one in letters.bulks()] == [bulk.id]
    assert letters.bulk(bulk.id).changed == 1
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert {line.split()[1] for line in warnings} == {repr(later), repr(odd), repr(no_json)}
    assert len(warnings) == 3
    assert "unknown filter colour" in caplog.text
    assert letters.stop_bulk(odd) is True


def test_a_shard_with_a_fault_of_its_own_keeps_the_others_not_waiting(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for shard in range(SHARDS):
        grave.bury(shard)
    grave.client.set(grave.key("bulk", 1), "no hash")
    bulk = letters.start_discard()

    scheduler.run_once()
    scheduler.clean_once()

    part = letters.bulk(bulk.id)
    assert (part.state, part.changed, part.unreachable) == (BulkState.RUNNING, 2, (1,))
    assert caplog.text.count("cannot be carried on in shard 1, the rest goes on: ") == 1

    grave.client.delete(grave.key("bulk", 1))
    scheduler.clean_once()
    assert letters.bulk(bulk.id).changed == 3
    assert letters.bulk(bulk.id).state is BulkState.DONE


def test_where_the_first_shard_cannot_be_read_that_is_told(
    grave: Graveyard,
    letters: DeadLetterQueue,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grave.client.set(grave.key("bulk", 0), "no hash")

    scheduler.run_once()
    scheduler.clean_once()

    assert caplog.text.count("the bulks of 'letters' cannot be read, the rest goes on: ") == 1
    with pytest.raises(redis.ResponseError):
        letters.bulks()


def test_what_redis_forgot_is_done_again(
    grave: Graveyard, letters: DeadLetterQueue, scheduler: Scheduler
) -> None:
    other = Scheduler(QUEUE)
    scheduler.run_once()
    grave.client.delete(grave.key("lease", 1))
    other.run_once()
    bulk = letters.start_replay()
    scheduler.clean_once()
    # As a fail-over does that loses the last writes.
    grave.client.hdel(grave.key("bulk", 2), f"{bulk.id} part")
    grave.bury(2, "1-0")

    other.clean_once()
    scheduler.start()
    until(lambda: record_state(grave, bulk) == "done")
    other.stop()

    assert letters.bulk(bulk.id).changed == 1
    assert grave.left(2) == []


def test_bulk_work_leaves_the_settings_alone(grave: Graveyard, letters: DeadLetterQueue) -> None:
    """It opens the queue as all do: a disagreement would be told."""
    letters.start_replay()

    assert grave.client.hget(grave.key("meta", 0), "shards") == str(SHARDS).encode()
    assert get_config().queue(QUEUE).shards == SHARDS

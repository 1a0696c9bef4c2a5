"""lua/enqueue.lua: new tasks come in, READY or SCHEDULED."""

from __future__ import annotations

import json

import pytest
import redis

from django_redq.broker import calls
from django_redq.broker.calls import Call, Submission
from tests.integration.worlds import FAR, NEXT, NOW, Dead, Here, Ready, Running, Scheduled

pytestmark = pytest.mark.every_server

BODY = b'"nonce":"n1","payload":{"n":1}}'


def task(task_id: str = "t", when: str = "", body: bytes = BODY) -> Submission:
    return Submission("email", 0, task_id, when, body)


def enqueue(here: Here, *tasks: Submission, now: str = str(NOW)) -> Call[list[bool]]:
    return calls.enqueue(here.shard, tasks or [task()], now)


def test_enqueue_makes_what_is_due_now_ready_at_once(here: Here) -> None:
    here.seed()
    before = here.world()

    assert here.run(enqueue(here)) == [True]

    assert here.world() == before | {
        f'payload t {{"at":{NOW},"nonce":"n1","payload":{{"n":1}}}}',
        f"stream {NEXT[0]} id=t",
        f"entry t {NEXT[0]}",
    }
    assert here.heard() == [("wake", "0")]


@pytest.mark.parametrize("when", ["+1500", str(NOW + 1500)])
def test_enqueue_schedules_what_is_due_later(here: Here, when: str) -> None:
    here.seed()
    before = here.world()

    assert here.run(enqueue(here, task(when=when))) == [True]

    assert here.world() == before | {
        f'payload t {{"at":{NOW},"due":{NOW + 1500},"nonce":"n1","payload":{{"n":1}}}}',
        f"delay t {NOW + 1500}",
    }
    assert here.heard() == [("due", f"0 {NOW + 1500}")]


@pytest.mark.parametrize("when", ["+0", str(NOW), str(NOW - 1), "0", "-5"])
def test_enqueue_takes_a_past_time_for_now(here: Here, when: str) -> None:
    assert here.run(enqueue(here, task(when=when))) == [True]

    entry_id = here.client.hget(here.keys.entry, "t").decode()
    assert here.world() == {
        f'payload t {{"at":{NOW},"nonce":"n1","payload":{{"n":1}}}}',
        f"stream {entry_id} id=t",
        f"entry t {entry_id}",
    }


def test_enqueue_keeps_every_digit_of_a_time(here: Here) -> None:
    last = 253_402_300_799_999  # The end of the year 9999.

    here.run(enqueue(here, task(when=str(last))))

    assert here.client.zscore(here.keys.delay, "t") == last
    assert json.loads(here.client.hget(here.keys.payload, "t"))["due"] == last


def test_enqueue_counts_from_redis_own_clock(here: Here) -> None:
    earliest = here.clock()

    here.run(enqueue(here, task("now"), task("later", "+1500"), now=""))

    now = json.loads(here.client.hget(here.keys.payload, "now"))["at"]
    later = json.loads(here.client.hget(here.keys.payload, "later"))
    assert earliest <= now <= here.clock()
    assert (later["at"], later["due"]) == (now, now + 1500)
    assert here.heard() == [("due", f"0 {now + 1500}"), ("wake", "0")]


@pytest.mark.parametrize(
    "seed",
    [Scheduled("t"), Ready("t", "3-2"), Running("t", "2-1"), Dead("t", "4-2")],
    ids=lambda seed: type(seed).__name__,
)
def test_enqueue_refuses_a_second_task_of_the_same_id(
    here: Here, seed: Scheduled | Ready | Running | Dead
) -> None:
    here.seed(seed)
    before = here.world()

    assert here.run(enqueue(here)) == [False]

    assert here.changes(before) == []
    assert here.heard() == []


@pytest.mark.parametrize("when", ["", "+1500"])
def test_enqueue_sent_twice_finds_its_own_record(here: Here, when: str) -> None:
    here.seed()
    here.run(enqueue(here, task(when=when)))
    before = here.world()
    here.heard()

    assert here.run(enqueue(here, task(when=when), now=str(NOW + 7))) == [True]

    assert here.changes(before) == []
    assert here.heard() == []


def test_enqueue_sent_twice_finds_its_own_record_while_the_task_runs(here: Here) -> None:
    here.run(enqueue(here))
    here.run(calls.fetch([here.shard], "me-1", 1, alone=False))
    before = here.world()

    assert here.run(enqueue(here)) == [True]

    assert here.changes(before) == []


def test_enqueue_tells_another_calls_task_from_its_own_by_the_nonce(here: Here) -> None:
    here.run(enqueue(here))

    other = BODY.replace(b"n1", b"n2")
    assert here.run(enqueue(here, task(body=other))) == [False]

    assert b'"n1"' in here.client.hget(here.keys.payload, "t")


def test_enqueue_refuses_the_second_of_two_equal_ids_in_one_call(here: Here) -> None:
    other = BODY.replace(b"n1", b"n2")

    assert here.run(enqueue(here, task(), task(body=other))) == [True, False]

    assert here.client.xlen(here.keys.stream) == 1


def test_enqueue_answers_for_each_task_of_a_batch(here: Here) -> None:
    here.seed()
    before = here.world()
    batch = task("a"), task("ready"), task("b", "+20"), task("c", "+10"), task("d")

    assert here.run(enqueue(here, *batch)) == [True, False, True, True, True]

    at = f'{{"at":{NOW},'
    body = BODY.decode()
    assert here.world() == before | {
        f"payload a {at}{body}",
        f'payload b {at}"due":{NOW + 20},{body}',
        f'payload c {at}"due":{NOW + 10},{body}',
        f"payload d {at}{body}",
        f"stream {NEXT[0]} id=a",
        f"stream {NEXT[1]} id=d",
        f"entry a {NEXT[0]}",
        f"entry d {NEXT[1]}",
        f"delay b {NOW + 20}",
        f"delay c {NOW + 10}",
    }
    assert here.heard() == [("due", f"0 {NOW + 10}"), ("wake", "0")]


def test_enqueue_tells_of_tasks_that_are_due_at_the_same_time(here: Here) -> None:
    here.run(enqueue(here, task("b", "+10"), task("a", "+10")))

    assert here.heard() == [("due", f"0 {NOW + 10}")]


def test_enqueue_tells_no_scheduler_of_what_is_not_the_first_one_due(here: Here) -> None:
    here.seed()

    here.run(enqueue(here, task(when=str(FAR + 1))))

    assert here.heard() == []


def test_enqueue_stores_the_body_byte_for_byte(here: Here) -> None:
    body = '"payload":"\\u0000 é \U0001f600 %s 0x"}'.encode()

    here.run(enqueue(here, task(body=body)))

    assert here.client.hget(here.keys.payload, "t") == b'{"at":%d,%s' % (NOW, body)


def test_enqueue_takes_as_many_as_a_call_may_carry(here: Here) -> None:
    many = [task(f"t{number}") for number in range(calls.MAX_SCRIPT_TASKS)]

    assert here.run(enqueue(here, *many)) == [True] * len(many)

    order = [fields[b"id"].decode() for _, fields in here.client.xrange(here.keys.stream)]
    assert order == [one.task_id for one in many]


def test_enqueue_of_an_id_that_left_a_place_behind_gets_a_place_of_its_own(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.hdel(here.keys.payload, "t")
    before = here.world()

    assert here.run(enqueue(here)) == [True]

    assert here.world() == before - {"entry t 3-2"} | {
        f'payload t {{"at":{NOW},"nonce":"n1","payload":{{"n":1}}}}',
        f"stream {NEXT[0]} id=t",
        f"entry t {NEXT[0]}",
    }


def test_enqueue_into_a_key_of_another_type_is_refused_before_anything_changes(here: Here) -> None:
    here.client.set(here.keys.payload, "somebody's own")
    before = here.world()

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        here.run(enqueue(here))

    assert here.changes(before) == []

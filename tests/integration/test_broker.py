"""The two runners of the calls: one or many a round trip, blocking and on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from django_redq.broker import calls, operator_calls
from django_redq.broker.aio import AsyncBroker, get_async_broker
from django_redq.broker.calls import MAX_SCRIPT_BYTES, MAX_SCRIPT_TASKS, Shard, Submission
from django_redq.broker.sync import Broker, enqueue_calls, get_broker
from django_redq.broker.wire import ServerWire
from django_redq.conf import get_config
from django_redq.errors import ConfigurationError
from django_redq.task import TaskState
from tests.harness import Redq
from tests.integration.worlds import GROUP, ME, NOW, Here


def on_a_loop(verb: Callable[[AsyncBroker], Awaitable[Any]]) -> Any:
    """What an async broker of the settings answers."""

    async def act() -> Any:
        broker = AsyncBroker(get_config())
        try:
            return await verb(broker)
        finally:
            await broker.client.aclose()

    return asyncio.run(act())


def enqueue_on_a_loop(tasks: list[Submission]) -> list[bool | Exception]:
    return on_a_loop(lambda broker: broker.enqueue(tasks, NOW))


def enqueue_blocking(tasks: list[Submission]) -> list[bool | Exception]:
    return get_broker().enqueue(tasks, NOW)


both_ways = pytest.mark.parametrize("enqueue", [enqueue_blocking, enqueue_on_a_loop])
Enqueue = Callable[[list[Submission]], list[bool | Exception]]


def task(task_id: str, shard: int = 0, queue: str = "email", *, size: int = 0) -> Submission:
    return Submission(queue, shard, task_id, "", b'"payload":"%s"}' % (b"x" * size))


# --- scripts that the server does not know (any more)


@pytest.mark.every_server
def test_a_script_is_sent_again_after_the_server_forgot_it(here: Here) -> None:
    here.seed()
    question = operator_calls.inspect(here.shard, "ready")
    here.run(question)

    here.client.script_flush()
    found = here.run(question)
    here.client.script_flush()
    found_on_a_loop = on_a_loop(lambda broker: broker.run(question))

    assert found is not None
    assert found.state is TaskState.READY
    assert found_on_a_loop == found


@pytest.mark.every_server
def test_a_batch_of_unknown_scripts_is_done_once_each_and_answered_in_order(here: Here) -> None:
    batch = [
        calls.enqueue(here.shard, [task("a")], str(NOW)),
        operator_calls.inspect(here.shard, "nobody"),
        calls.enqueue(here.shard, [task("b")], str(NOW)),
        operator_calls.run_now(here.shard, "nobody"),
    ]
    here.client.script_flush()
    answers = here.broker.run_many(batch)
    entries = here.client.xlen(here.keys.stream)
    here.wipe()
    here.client.script_flush()
    answers_on_a_loop = on_a_loop(lambda broker: broker.run_many(batch))

    assert answers == answers_on_a_loop == [[True], None, [True], False]
    assert entries == here.client.xlen(here.keys.stream) == 2


def test_scripts_outlive_a_restart_of_the_server(own_redq: Redq) -> None:
    broker = Broker(get_config())
    broker.enqueue([task("a")])

    own_redq.server.restart()
    broker.client.connection_pool.disconnect()

    assert broker.enqueue([task("b")]) == [True]
    stream = own_redq.key("email", 0, "stream")
    assert [fields["id"] for _, fields in own_redq.world()[stream.partition(":")[2]]] == [
        b"a",
        b"b",
    ]
    broker.close()


# --- many calls


def test_a_call_that_fails_has_its_error_in_its_place(here: Here) -> None:
    here.client.set(here.redq.key("email", 1, "payload"), "somebody's own")
    bad = Shard(here.shard.namespace, "email", 1, GROUP)
    batch = [
        calls.enqueue(here.shard, [task("a")], str(NOW)),
        calls.enqueue(bad, [task("b", 1)], str(NOW)),
        calls.enqueue(here.shard, [task("c")], str(NOW)),
    ]

    for answers in (
        here.broker.run_many(batch),
        on_a_loop(lambda broker: broker.run_many(batch)),
    ):
        assert [answers[0], answers[2]] == [[True], [True]]
        assert isinstance(answers[1], redis.ResponseError)


def test_no_calls_cost_no_round_trip(here: Here) -> None:
    broker = Broker(get_config(), ServerWire(redis.Redis(port=1)))

    assert broker.run_many([]) == []
    assert broker.load_records([]) == []
    broker.close()


@both_ways
def test_enqueue_answers_in_the_order_of_the_tasks(redq: Redq, enqueue: Enqueue) -> None:
    redq.client.set(redq.key("email", 1, "payload"), "somebody's own")
    enqueue([task("a", 2)])

    answers = enqueue(
        [
            task("b", 3),
            task("c", 1),
            task("a", 2),
            task("a", 2, size=1),
            task("d", 1, "webhook"),
            task("e", 1),
            task("f", 3),
        ]
    )

    failed = [at for at, answer in enumerate(answers) if isinstance(answer, redis.ResponseError)]
    assert failed == [1, 5]
    assert [answer for at, answer in enumerate(answers) if at not in failed] == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert {"{webhook:1}:stream", "{email:3}:stream", "{email:2}:stream"} <= redq.world().keys()


def sizes_of(tasks: list[Submission]) -> list[tuple[int, int]]:
    """Of each script call: its shard, and how many tasks it carries."""
    planned = enqueue_calls(get_config(), tasks, NOW)
    return [(int(call.args[3]), len(part)) for part, call in planned]


def test_no_script_call_carries_too_many_tasks(redq: Redq) -> None:
    tasks = [task(f"t{number}", number % 2) for number in range(2 * MAX_SCRIPT_TASKS + 3)]

    assert sizes_of(tasks) == [
        (0, MAX_SCRIPT_TASKS),
        (0, 2),
        (1, MAX_SCRIPT_TASKS),
        (1, 1),
    ]
    assert enqueue_blocking(tasks) == [True] * len(tasks)


def test_no_script_call_carries_too_many_bytes(redq: Redq) -> None:
    frame = len(task("t").body)
    half = MAX_SCRIPT_BYTES // 2 - frame
    whole = MAX_SCRIPT_BYTES - frame

    assert sizes_of([task("a", size=half), task("b", size=half), task("c")]) == [(0, 2), (0, 1)]
    assert sizes_of([task("a", size=half), task("b", size=half + 1)]) == [(0, 1), (0, 1)]
    # One that is too big by itself goes by itself; who may send it is decided elsewhere.
    assert sizes_of([task("a"), task("b", size=2 * whole), task("c")]) == [(0, 1), (0, 1), (0, 1)]


# --- layout


@both_ways
def test_the_first_use_of_a_queue_writes_its_layout_down(redq: Redq, enqueue: Enqueue) -> None:
    enqueue([task("a", 3)])

    assert redq.world()["{email:0}:meta"] == {"layout": b"1", "shards": b"4", "group": b"default"}


@both_ways
def test_settings_that_disagree_with_redis_send_nothing(redq: Redq, enqueue: Enqueue) -> None:
    enqueue([task("a")])
    redq.configure(queues={"email": {"SHARDS": 2, "GROUP": "mine"}})
    before = redq.world()

    with pytest.raises(ConfigurationError) as caught:
        enqueue([task("b")])

    assert "SHARDS is '2' here and '4' in Redis" in str(caught.value)
    assert "GROUP is 'mine' here and 'default' in Redis" in str(caught.value)
    assert redq.world() == before


def test_a_layout_of_a_later_version_is_refused(redq: Redq) -> None:
    redq.client.hset(
        redq.key("email", 0, "meta"), mapping={"layout": 2, "shards": 4, "group": "default"}
    )

    with pytest.raises(ConfigurationError, match="layout version is '1' here and '2' in Redis"):
        enqueue_blocking([task("a")])


def test_the_layout_is_asked_for_once(here: Here) -> None:
    email = get_config().queue("email")
    here.broker.open(email)
    here.wipe()

    here.broker.open(email)

    assert here.world() == set()


# --- fetching


@pytest.mark.parametrize(
    ("limit", "shared_out"),
    [(0, [0, 0, 0]), (1, [1]), (2, [1, 1]), (3, [1, 1, 1]), (5, [2, 2, 1]), (9, [3, 3, 3])],
)
def test_a_limit_is_shared_out_where_each_shard_is_asked_by_itself(
    here: Here, limit: int, shared_out: list[int]
) -> None:
    shards = [Shard(here.shard.namespace, "email", number, GROUP) for number in range(3)]
    here.broker.spans_shards = False

    planned = here.broker.fetch_calls(shards, ME, limit)

    assert [call.args[2] for call in planned] == shared_out
    assert [call.keys[0] for call in planned] == [
        shard.keys.stream for shard in shards[: len(planned)]
    ]


def test_all_shards_are_asked_at_once_where_the_server_lets_us(here: Here) -> None:
    shards = [Shard(here.shard.namespace, "email", number, GROUP) for number in range(3)]

    [call] = here.broker.fetch_calls(shards, ME, 5)

    assert call.args[2] == 5
    assert len(call.keys) == 3 * 6


def test_records_are_loaded_in_order_with_errors_in_their_places(here: Here) -> None:
    here.client.set(here.redq.key("email", 1, "payload"), "somebody's own")
    here.client.hset(here.keys.payload, "a", "record")
    bad = Shard(here.shard.namespace, "email", 1, GROUP)

    first, second, third = here.broker.load_records(
        [(here.shard, "nobody"), (bad, "a"), (here.shard, "a")]
    )

    assert (first, third) == (None, b"record")
    assert isinstance(second, redis.ResponseError)


# --- one broker a process, one client a loop


def test_the_process_keeps_its_broker_until_the_settings_change(redq: Redq) -> None:
    broker = get_broker()
    assert get_broker() is broker

    redq.configure(queues={"email": {"SHARDS": 4}, "other": {}})

    assert get_broker() is not broker
    assert get_broker().config is get_config()


def test_a_loop_keeps_its_client_until_the_settings_change(redq: Redq) -> None:
    async def act() -> tuple[AsyncBroker, ...]:
        first, again = get_async_broker(), get_async_broker()
        redq.configure(queues={"email": {"SHARDS": 4}, "other": {}})
        changed = get_async_broker()
        return first, again, changed

    first, again, changed = asyncio.run(act())
    other = asyncio.run(act())[0]

    assert first is again
    assert len({first, changed, other}) == 3


def test_verbs_for_one_task_find_its_shard(redq: Redq) -> None:
    # CRC-32 of "d" is a multiple of four.
    enqueue_blocking([task("d", 0)])
    found = get_broker().inspect("email", "d")

    async def act(broker: AsyncBroker) -> list[Any]:
        return [
            await broker.inspect("email", "d"),
            await broker.cancel("email", "d"),
            await broker.inspect("email", "d"),
        ]

    assert found is not None
    assert found.state is TaskState.READY
    assert on_a_loop(act) == [found, True, None]
    assert get_broker().cancel("email", "d") is False

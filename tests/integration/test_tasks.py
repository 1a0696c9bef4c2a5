"""``Queue``: its tasks by state over all shards, one of them, and what happened lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync

from django_redq import InvalidArgument, Queue, Task, TaskState, handler
from django_redq.queue_tasks import TaskRow
from tests.engine import Engine
from tests.harness import Redq

SHARDS = 3


@pytest.fixture
def queue(engine: Engine) -> Queue:
    engine.configure(SHARDS=SHARDS)
    return Queue("default")


def all_of(queue: Queue, state: str, count: int) -> list[TaskRow]:
    """Page after page, to the end."""
    rows: list[TaskRow] = []
    after = None
    while True:
        page = queue.tasks(state, after=after, count=count)
        assert len(page) <= count
        rows += page
        after = page.cursor
        if after is None:
            return rows


def ids(rows: Any) -> list[str]:
    return [row.task_id for row in rows]


def fill(engine: Engine, number: int) -> None:
    """Entries with the same IDs in every shard."""
    for shard in range(SHARDS):
        for at in range(number):
            task = {"id": f"t{at}.{shard}"}
            engine.client.xadd(
                engine.key("stream", shard=shard), task, f"{at // 2 + 1}-{at % 2 + 1}"
            )


IN_ORDER = [f"t{at}.{shard}" for at in range(5) for shard in range(SHARDS)]


@pytest.mark.parametrize("count", [1, 2, 4, 100])
def test_ready_tasks_of_all_shards_come_in_the_order_of_their_entries(
    engine: Engine, queue: Queue, count: int
) -> None:
    fill(engine, 5)

    assert ids(all_of(queue, "ready", count)) == IN_ORDER


@pytest.mark.parametrize("count", [1, 2, 4, 100])
def test_running_tasks_of_all_shards_come_in_the_order_of_their_entries(
    engine: Engine, queue: Queue, count: int
) -> None:
    fill(engine, 5)
    for shard in range(SHARDS):
        engine.deliver(shard=shard, to=f"c-{shard}")

    rows = all_of(queue, "running", count)

    assert ids(rows) == IN_ORDER
    assert {(row.consumer, row.shard) for row in rows} == {("c-0", 0), ("c-1", 1), ("c-2", 2)}
    assert all_of(queue, "ready", count) == []


@pytest.mark.parametrize("count", [1, 2, 100])
def test_scheduled_tasks_of_all_shards_come_the_soonest_first(
    engine: Engine, queue: Queue, count: int
) -> None:
    wanted = [engine.enqueue(1, delay=3600 + number) for number in range(7)]

    assert ids(all_of(queue, "scheduled", count)) == wanted


def test_a_row_tells_what_is_known_of_a_task(engine: Engine, queue: Queue) -> None:
    earliest = datetime.now(UTC) - timedelta(seconds=2)
    task_id = engine.enqueue({"a": 1}, kind="greet", delay=3600)

    [row] = queue.tasks(TaskState.SCHEDULED)

    assert row.enqueued_at is not None
    assert row.due_at is not None
    assert earliest < row.enqueued_at < row.due_at
    assert row == TaskRow(
        task_id=task_id,
        queue="default",
        shard=row.shard,
        state=TaskState.SCHEDULED,
        kind="greet",
        enqueued_at=row.enqueued_at,
        due_at=row.due_at,
        ready_since=None,
        consumer="",
        attempts=0,
    )
    assert queue.run_now(task_id)
    [ready] = queue.tasks("ready")
    assert ready.ready_since is not None
    assert ready.due_at is None
    assert (ready.kind, ready.consumer, ready.attempts) == ("greet", "", 0)
    engine.deliver(shard=ready.shard, to="someone")
    [running] = queue.tasks("running")
    assert (running.consumer, running.attempts) == ("someone", 1)
    assert running.ready_since == ready.ready_since


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("state", {"state": "dead"}),
        ("state", {"state": "gone"}),
        ("state", {"state": ""}),
        ("count", {"state": "ready", "count": 0}),
        ("count", {"state": "ready", "count": 1001}),
        ("after", {"state": "ready", "after": "x"}),
        ("after", {"state": "scheduled", "after": "1-1.0"}),
        ("after", {"state": "running", "after": "5:t"}),
    ],
)
def test_an_argument_that_breaks_its_rule_is_told(
    queue: Queue, field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        queue.tasks(**arguments)

    assert caught.value.field == field


def test_dead_letters_are_pointed_to(queue: Queue) -> None:
    with pytest.raises(InvalidArgument, match="DeadLetterQueue"):
        queue.tasks(TaskState.DEAD)


@pytest.mark.parametrize("state", ["scheduled", "ready", "running"])
def test_a_shard_that_does_not_answer_is_left_out_where_that_will_do(
    engine: Engine, queue: Queue, state: str
) -> None:
    for name in ("delay", "stream"):
        engine.client.set(engine.key(name, shard=1), "of another type")

    if state == "running":
        # Of no group nothing runs, whatever lies there.
        assert queue.tasks(state, partial=True).tasks == ()
        return
    page = queue.tasks(state, partial=True)
    assert (page.tasks, page.unreachable) == ((), (1,))
    with pytest.raises(redis.ResponseError):
        queue.tasks(state)


def test_a_task_is_found_and_cancelled(engine: Engine, queue: Queue) -> None:
    task_id = engine.enqueue({"a": 1}, delay=3600)

    found = queue.get(task_id)
    assert found is not None
    assert (found.state, found.task_id) == (TaskState.SCHEDULED, task_id)
    assert queue.get("nobody") is None
    assert queue.cancel(task_id) is True
    assert queue.cancel(task_id) is False
    assert queue.get(task_id) is None
    for act in (queue.get, queue.cancel):
        with pytest.raises(InvalidArgument):
            act("a b")


def test_what_runs_is_not_cancelled(engine: Engine, queue: Queue) -> None:
    task_id = engine.enqueue(1)
    for shard in range(SHARDS):
        engine.deliver(shard=shard)

    assert queue.cancel(task_id) is False
    assert ids(queue.tasks("running")) == [task_id]


def test_each_has_a_twin(engine: Engine, queue: Queue) -> None:
    task_id = engine.enqueue(1, delay=3600)

    async def story() -> None:
        assert ids(await queue.atasks("scheduled")) == [task_id]
        found = await queue.aget(task_id)
        assert found is not None
        assert await queue.acancel(task_id) is True
        assert len(await queue.ahistory("day")) == 96

    async_to_sync(story)()


# --- what happened lately


def test_history_tells_what_happened_of_all_shards(engine: Engine, queue: Queue) -> None:
    @handler("default")
    def work(task: Task[Any]) -> None:
        if task.payload == "fail":
            raise ValueError("no luck")

    for payload in ("well", "well", "well", "fail"):
        engine.enqueue(payload, max_attempts=1)
    consumer = engine.consumer()
    while consumer.run_once():
        pass

    for span in ("hour", "day"):
        lately = [one for one in queue.history(span) if one.started]
        assert sum(one.succeeded for one in lately) == 3
        assert sum(one.failed for one in lately) == 1
        assert sum(one.died for one in lately) == 1
        assert sum(one.started for one in lately) == 4
        assert all(one.longest_wait is not None and one.longest_wait < 60 for one in lately)
    assert queue.stats().last_hour == queue.history()


def test_history_has_its_spans(queue: Queue) -> None:
    assert [one.seconds for one in queue.history()] == [60] * 60
    assert [one.seconds for one in queue.history("day")] == [900] * 96
    with pytest.raises(InvalidArgument, match="span"):
        queue.history("week")


def test_history_without_a_shard(redq: Redq, queue: Queue) -> None:
    # A meter of another type is passed over; so only a server that is away leaves a shard out.
    redq.client.set(redq.key("default", 1, "meter"), "rubbish")

    assert sum(one.started for one in queue.history(partial=True)) == 0

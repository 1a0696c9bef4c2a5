"""Pages of tasks are whole however the tasks are spread over the shards, and ask for little."""

from __future__ import annotations

import pytest

from django_redq.broker import task_pages
from django_redq.queue import Queue
from django_redq.task import TaskState
from tests.harness import Redq

SHARDS = 8


@pytest.fixture(autouse=True)
def queue(redq: Redq) -> Queue:
    redq.configure(queues={"q": {"SHARDS": SHARDS}})
    return Queue("q")


def schedule(redq: Redq, shard: int, dues: range) -> None:
    for due in dues:
        redq.client.zadd(redq.key("q", shard, "delay"), {f"t{due}": due})


def pages(queue: Queue, count: int) -> list[list[str]]:
    """Page after page, to the end."""
    found, after = [], None
    while True:
        page = queue.tasks(TaskState.SCHEDULED, after=after, count=count)
        found.append([row.task_id for row in page])
        if (after := page.cursor) is None:
            return found


@pytest.mark.parametrize("count", [1, 5, 7, 30, 100])
def test_tasks_that_all_lie_in_one_shard_are_paged_through(
    redq: Redq, queue: Queue, count: int
) -> None:
    schedule(redq, 3, range(100, 190))
    schedule(redq, 5, range(200, 205))
    wanted = [f"t{due}" for due in (*range(100, 190), *range(200, 205))]

    found = pages(queue, count)

    assert [task_id for page in found for task_id in page] == wanted
    assert all(len(page) == count for page in found[:-1])


def test_of_tasks_spread_evenly_hardly_more_are_read_than_are_shown(
    redq: Redq, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in range(SHARDS):
        schedule(redq, shard, range(100 + shard, 1700, SHARDS))
    asked = []

    def counting(shard: object, after: str | None, count: int) -> object:
        asked.append(count)
        return scheduled(shard, after, count)  # type: ignore[arg-type]

    scheduled = task_pages._ASK[TaskState.SCHEDULED]
    monkeypatch.setitem(task_pages._ASK, TaskState.SCHEDULED, counting)

    page = queue.tasks(TaskState.SCHEDULED, count=100)

    assert [row.task_id for row in page] == [f"t{due}" for due in range(100, 200)]
    assert len(asked) == SHARDS
    assert sum(asked) < 300

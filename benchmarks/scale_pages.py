"""What each page of the admin takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from scale_world import World
from seeding import CAUSES, REPLAYED

from django_redq.dead_letters import DeadLetterQueue
from django_redq.queue import Queue


@dataclass(frozen=True, slots=True)
class Page:
    """A page and how to ask for it."""

    name: str
    view: str
    data: dict[str, Any] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    post: bool = False

    def ask(self, client: Client) -> Any:
        path = reverse(f"admin:django_redq_queue_{self.view}", args=self.args)
        return client.post(path, self.data) if self.post else client.get(path, self.data)


def log_in() -> Client:
    """Somebody who may do everything."""
    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("boss", "boss@example.com", "boss")
    client = Client()
    client.force_login(user)
    return client


def measure_pages(world: World, times: int) -> list[dict[str, Any]]:
    client = log_in()
    return [_measure(world, client, page, times) for page in _pages(world)]


def _measure(world: World, client: Client, page: Page, times: int) -> dict[str, Any]:
    # The first of a process compiles the templates.
    answer = page.ask(client)
    assert answer.status_code in {200, 404}, (page, answer.status_code, answer.content[:3000])
    took, used = [], []
    world.client.config_set("slowlog-log-slower-than", 200)
    world.client.slowlog_reset()
    for _ in range(times):
        before = world.usage()
        begun = time.perf_counter()
        answer = page.ask(client)
        took.append((time.perf_counter() - begun) * 1000)
        after = world.usage()
        used.append((after[0] - before[0], after[1] - before[1]))
    slow = [one["duration"] for one in world.client.slowlog_get(128) if b"EVAL" in one["command"]]
    idle = world.usage()[0], world.usage()[0]
    return {
        "page": page.name,
        "median": median(took),
        "max": max(took),
        # The scheduler's own ticks fall into some of them; INFO tells of its own answer, too.
        "read": max(min(one[0] for one in used) - (idle[1] - idle[0]), 0),
        "redis_ms": median(one[1] for one in used),
        "longest_ms": max(slow, default=0) / 1000,
        "html": len(answer.content),
    }


def _pages(world: World) -> Iterator[Page]:
    queue = {"queue": world.queue}
    yield Page("queues", "changelist")
    yield Page("queue", "change", args=(world.queue,))
    yield Page("queue, 24 hours", "change", {"span": "day"}, (world.queue,))
    yield Page("history", "history", args=(world.queue,))
    yield from _task_pages(world)
    yield from _letter_pages(world)
    yield Page("causes", "groups", queue)
    group = {**queue, "kind": REPLAYED.kind, "exception_type": REPLAYED.exception_type}
    for name, which in (("all", {}), ("a group", group), ("by text", {"text": "deadlock"})):
        data = {**which, "act": "replay-matching"}
        yield Page(f"replay {name}?", "dead_action", data, post=True)
    yield Page("bulk work", "bulks", queue)


def _task_pages(world: World) -> Iterator[Page]:
    queue, named = Queue(world.queue), {"queue": world.queue}
    for state in ("scheduled", "ready", "running"):
        yield Page(f"tasks: {state}", "tasks", {**named, "state": state})
    after = None
    for _ in range(20):
        after = queue.tasks("scheduled", after=after, count=1000).cursor
    deep = {**named, "state": "scheduled", "after": after or ""}
    yield Page("tasks: scheduled, 20,000 on", "tasks", deep)
    [some] = queue.tasks("scheduled", count=1)
    yield Page("task", "task", {**named, "task": some.task_id})
    yield Page("task that is nowhere", "task", {"task": "nowhere"})
    cancel = {**named, "state": "scheduled", "task": some.task_id, "act": "cancel"}
    yield Page("cancel a task?", "task_action", cancel, post=True)


def _letter_pages(world: World) -> Iterator[Page]:
    letters = DeadLetterQueue(world.queue)
    [some] = letters.list(count=1)
    now = datetime.now(UTC)
    middle = f"{int((now - timedelta(days=3)).timestamp() * 1000)}-0.0"
    seldom, often = CAUSES[-1], CAUSES[0]
    filters: dict[str, dict[str, Any]] = {
        "first page": {},
        "in the middle": {"after": middle},
        "oldest first": {"order": "oldest"},
        "a frequent cause": {"kind": often.kind, "exception_type": often.exception_type},
        "a seldom cause": {"kind": "-", "exception_type": seldom.exception_type},
        "text that is in none": {"text": "no such words"},
        "text that is in some": {"text": "deadlock"},
        "of one day": {
            "since": (now - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M"),
            "until": (now - timedelta(days=2)).strftime("%Y-%m-%dT%H:%M"),
        },
        "reason that none has": {"reason": "rejected"},
        "by task ID": {"task_id": some.task_id},
        "by idempotency key": {"idempotency_key": "order-17"},
    }
    for name, query in filters.items():
        yield Page(f"dead: {name}", "dead", query)
    named = {
        "queue": world.queue,
        "task": some.task_id,
        "entry": some.entry_id,
        "shard": some.shard,
    }
    yield Page("dead letter", "letter", named)
    yield Page("edit and replay", "letter_edit", named)

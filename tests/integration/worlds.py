"""The whole world of a shard, before and after one script call; the fixture ``here``.

    def test_ack_removes_the_task_whole(here):
        here.seed(Running("t", "2-1"))                    # and a neighbour in every other state
        before = here.world()

        assert here.run(calls.ack(here.shard, ME, [here.mine("t", "2-1")], ...)) == [Settled.DONE]

        assert here.changes(before) == ["- entry t 2-1", ..., "+ meta done 1"]

A world is a set of lines, each a key's name and one item of it, over every key of the namespace;
so a change that a test does not name fails it. IDs that Redis makes are known beforehand: both
streams are told that their last ID lies in the future (:data:`NEXT`, :data:`NEXT_DEAD`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import redis

from django_redq.broker.calls import Call, Shard
from django_redq.broker.delivery import Delivery
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.state import NEW, State
from django_redq.broker.sync import Broker
from django_redq.conf import get_config
from tests.harness import Redq

ReplyT = TypeVar("ReplyT")

ME = "me-1"
OTHER = "other-2"
GROUP = "default"
NOW = 5_000_000_000_000
"""What the tests' clock shows, ms; later than any real one."""
FAR = 6_000_000_000_000
"""Later than that."""
DELIVERED = "2-9999"
"""Up to here the group has delivered the stream."""
NEXT = [f"8000000000000-{number}" for number in range(1, 10)]
"""Entry IDs that the stream makes next."""
NEXT_DEAD = [f"8000000000001-{number}" for number in range(1, 10)]
"""The same of the dead letters."""
NEXT_KEPT = [f"8000000000002-{number}" for number in range(1, 10)]
"""The same of the streams of what was done."""


def record(task_id: str) -> str:
    """A task as enqueued, as the tests seed it."""
    return f'{{"at":1,"payload":"{task_id}"}}'


@dataclass(frozen=True)
class Scheduled:
    task_id: str
    due: float = FAR
    state: str | None = None


@dataclass(frozen=True)
class Ready:
    task_id: str
    entry_id: str
    state: str | None = None


@dataclass(frozen=True)
class Running:
    """Entry IDs up to :data:`DELIVERED`; ``idle`` in ms."""

    task_id: str
    entry_id: str
    owner: str = ME
    count: int = 1
    idle: int = 0
    state: str | None = None


@dataclass(frozen=True)
class Dead:
    task_id: str
    entry_id: str
    """In the dead letters."""
    came_from: str = "1-9"
    state: str | None = "3 0 3 1-9 []"


@dataclass(frozen=True)
class Garbage:
    """An entry of the stream that is none of ours; pending where it has an owner."""

    entry_id: str
    fields: tuple[tuple[Any, Any], ...]
    owner: str = ""


Seed = Scheduled | Ready | Running | Dead | Garbage

NEIGHBOURS: tuple[Seed, ...] = (
    Scheduled("later"),
    Running("theirs", "1-1", owner=OTHER, count=2),
    Running("parked", "1-2", owner=SUSPECTS_CONSUMER, state="1 1 2 - []"),
    Ready("ready", "3-1"),
    Dead("dead", "4-1"),
)
META = {"layout": "1", "shards": "4", "group": GROUP, "suspects": "1"}


class Here:
    """One shard of one queue on a real server, and what was told on its channels.

    Args:
        number: which shard of ``email``.
    """

    def __init__(self, redq: Redq, number: int = 0) -> None:
        self.redq = redq
        self.client: redis.Redis = redq.client
        self.broker = Broker(get_config())
        self.shard = Shard(redq.namespace, "email", number, GROUP)
        self.keys = self.shard.keys
        self._told = self.client.pubsub()
        self._told.subscribe(self.shard.wake, self.shard.due)
        for _ in range(2):
            assert self._told.get_message(timeout=30)["type"] == "subscribe"

    def close(self) -> None:
        self._told.close()
        self.broker.close()

    # --- before

    def seed(self, *tasks: Seed, neighbours: bool = True) -> None:
        """These tasks, and with ``neighbours`` one in every state beside them, in every key."""
        everyone = [*tasks, *NEIGHBOURS] if neighbours else list(tasks)
        for task in everyone:
            if not isinstance(task, Garbage):
                self._seed_task(task.task_id, task.state)
        self._seed_delay([task for task in everyone if isinstance(task, Scheduled)])
        self._seed_stream(
            [task for task in everyone if isinstance(task, Ready | Running | Garbage)]
        )
        self._seed_dead([task for task in everyone if isinstance(task, Dead)])
        if neighbours:
            self.client.set(self.keys.lease, "someone-3", px=600_000)
            self.client.hset(self.keys.meta, mapping=META)
            self.client.xadd(self.keys.done, {"id": "gone", "entry": "0-5"}, id="0-7")
            self.client.xadd(self.keys.kept, {"id": "gone", "payload": record("gone")}, id="0-7")
            self.expect_next(self.keys.done, NEXT_KEPT)
            self.expect_next(self.keys.kept, NEXT_KEPT)

    def _seed_task(self, task_id: str, state: str | None) -> None:
        self.client.hset(self.keys.payload, task_id, record(task_id))
        if state is not None:
            self.client.hset(self.keys.state, task_id, state)

    def _seed_delay(self, tasks: list[Scheduled]) -> None:
        for task in tasks:
            self.client.zadd(self.keys.delay, {task.task_id: task.due})

    def _seed_stream(self, tasks: list[Ready | Running | Garbage]) -> None:
        stream = self.keys.stream
        self.client.xgroup_create(stream, GROUP, "0", mkstream=True)
        for task in sorted(tasks, key=lambda one: _order(one.entry_id)):
            if isinstance(task, Garbage):
                self.client.xadd(stream, dict(task.fields), id=task.entry_id)
            else:
                self.client.xadd(stream, {"id": task.task_id}, id=task.entry_id)
                self.client.hset(self.keys.entry, task.task_id, task.entry_id)
            if isinstance(task, Running):
                self.hand_over(task.entry_id, task.owner, task.count, task.idle)
            elif isinstance(task, Garbage) and task.owner:
                self.hand_over(task.entry_id, task.owner)
        self.client.xgroup_setid(stream, GROUP, DELIVERED)
        self.expect_next(stream, NEXT)

    def _seed_dead(self, tasks: list[Dead]) -> None:
        for task in sorted(tasks, key=lambda one: _order(one.entry_id)):
            letter = {"id": task.task_id, "reason": "exhausted", "entry": task.came_from}
            self.client.xadd(self.keys.dlq, letter, id=task.entry_id)
            self.client.hset(self.keys.entry, task.task_id, f"dlq {task.entry_id}")
        if tasks:
            self.expect_next(self.keys.dlq, NEXT_DEAD)

    def expect_next(self, stream: str, entry_ids: list[str]) -> None:
        """Let a stream go on with these IDs."""
        self.client.execute_command("XSETID", stream, entry_ids[0].replace("-1", "-0"))

    def hand_over(self, entry_id: str, owner: str, count: int = 1, idle: int = 0) -> None:
        """Make an entry pending with this owner, delivery count and idle time in ms."""
        how: dict[str, Any] = {"idle": idle, "retrycount": count, "force": True, "justid": True}
        self.client.xclaim(self.keys.stream, GROUP, owner, 0, [entry_id], **how)

    def wipe(self) -> None:
        """What FLUSHALL does, to the keys of this test."""
        self.client.delete(*self.redq.keys())

    # --- the call

    def run(self, call: Call[ReplyT]) -> ReplyT:
        """One call, as the engine sends it."""
        return self.broker.run(call)

    def mine(self, task_id: str, entry_id: str, count: int = 1, state: State = NEW) -> Delivery:
        """A delivery as :data:`ME` holds it."""
        return Delivery("email", self.shard.number, task_id, entry_id, count, None, state)

    # --- after

    def world(self) -> set[str]:
        """Every item of every key of the namespace, a line each."""
        lines: set[str] = set()
        for key, value in self.redq.world().items():
            lines.update(_lines(self._short(key), value))
        return lines | set(self._groups())

    def changes(self, before: set[str]) -> list[str]:
        """How the world differs: '- ' what is gone, '+ ' what is new, each group sorted."""
        after = self.world()
        gone, new = sorted(before - after), sorted(after - before)
        return [f"- {line}" for line in gone] + [f"+ {line}" for line in new]

    def heard(self) -> list[tuple[str, str]]:
        """What was told since the last look: (``wake`` or ``due``, message), in order."""
        # The server sends in order, so all that was told before arrives before the mark.
        self.client.publish(self.shard.wake, "the mark")
        told: list[tuple[str, str]] = []
        while True:
            message = self._told.get_message(timeout=30)
            assert message is not None, "the server does not answer"
            if message["data"] == b"the mark":
                return told
            channel = message["channel"].decode().removeprefix(self.shard.wake)
            told.append((channel.removeprefix(":") or "wake", message["data"].decode()))

    def row(self, entry_id: str) -> tuple[str, int, int] | None:
        """Who holds an entry: (consumer, deliveries, idle ms)."""
        rows = self.client.xpending_range(self.keys.stream, GROUP, entry_id, entry_id, 1)
        for one in rows:
            return one["consumer"].decode(), one["times_delivered"], one["time_since_delivered"]
        return None

    def clock(self) -> int:
        """Redis' own, ms since the epoch."""
        seconds, micros = self.client.time()
        return seconds * 1000 + micros // 1000

    def _short(self, key: str) -> str:
        shard, name = key.removeprefix("{email:").split("}:")
        return name if int(shard) == self.shard.number else f"{shard}/{name}"

    def _groups(self) -> Iterator[str]:
        if self.client.type(self.keys.stream) != b"stream":
            return
        for group in self.client.xinfo_groups(self.keys.stream):
            name = group["name"].decode()
            yield f"group {name} {group['last-delivered-id'].decode()}"
            for one in self.client.xpending_range(self.keys.stream, name, "-", "+", 1000):
                entry_id, owner = one["message_id"].decode(), one["consumer"].decode()
                yield f"pending {entry_id} {owner} {one['times_delivered']}"
            for one in self.client.xinfo_consumers(self.keys.stream, name):
                yield f"consumer {one['name'].decode()}"


def _order(entry_id: str) -> tuple[int, int]:
    left, right = entry_id.split("-")
    return int(left), int(right)


def _lines(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield f"{key} {name} {_text(item)}"
    elif isinstance(value, list):
        for entry_id, fields in value:
            yield " ".join([key, entry_id, *(f"{n}={_text(item)}" for n, item in fields.items())])
    else:
        yield f"{key} {_text(value)}"


def _text(value: bytes | float) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else f"{value:.0f}"


@pytest.fixture
def here(redq: Redq) -> Iterator[Here]:
    """An empty shard 0 of the queue ``email``."""
    place = Here(redq)
    yield place
    place.close()


# What may have happened to the running task "t" of entry 2-1 before its consumer settles it.


def _claimed_by_another(here: Here) -> None:
    here.hand_over("2-1", OTHER)


def _delivered_again(here: Here) -> None:
    here.hand_over("2-1", ME, count=2)


def _lives_elsewhere(here: Here) -> None:
    here.client.xack(here.keys.stream, GROUP, "2-1")
    here.client.xdel(here.keys.stream, "2-1")
    here.client.hset(here.keys.entry, "t", "3-1")


def _has_another_entry_too(here: Here) -> None:
    here.client.hset(here.keys.entry, "t", "3-1")


def _is_dead(here: Here) -> None:
    here.client.xack(here.keys.stream, GROUP, "2-1")
    here.client.xdel(here.keys.stream, "2-1")
    here.client.hset(here.keys.entry, "t", "dlq 4-1")


def _has_a_garbled_place(here: Here) -> None:
    here.client.hset(here.keys.entry, "t", "rubbish")


Blow = Callable[[Here], None]

NOT_MINE: tuple[Blow, ...] = (
    _claimed_by_another,
    _delivered_again,
    _lives_elsewhere,
    _has_another_entry_too,
    _is_dead,
    _has_a_garbled_place,
)
"""After each of these the task is not that consumer's any more."""
not_mine = pytest.mark.parametrize("blow", NOT_MINE, ids=lambda blow: blow.__name__.strip("_"))


def _row_is_gone(here: Here) -> None:
    here.client.xack(here.keys.stream, GROUP, "2-1")


def _group_is_destroyed(here: Here) -> None:
    here.client.xgroup_destroy(here.keys.stream, GROUP)


def _entry_is_gone(here: Here) -> None:
    here.client.xdel(here.keys.stream, "2-1")


def _stream_is_dropped(here: Here) -> None:
    here.client.delete(here.keys.stream)


def _place_is_gone(here: Here) -> None:
    here.client.hdel(here.keys.entry, "t")


TAMPERED: tuple[Blow, ...] = (
    _row_is_gone,
    _group_is_destroyed,
    _entry_is_gone,
    _stream_is_dropped,
    _place_is_gone,
)
"""After each of these nobody else has the task, so its consumer settles it all the same."""
tampered = pytest.mark.parametrize("blow", TAMPERED, ids=lambda blow: blow.__name__.strip("_"))

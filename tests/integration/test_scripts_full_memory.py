"""The scripts on a server whose memory is full (``maxmemory``, ``noeviction``).

What needs memory is refused whole: Redis does not roll a script back, so a script's first write
decides. What takes something away, delivers, or keeps an ownership goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from django_redq.broker import bulk_calls, calls, faults, operator_calls
from django_redq.broker.bulk_calls import BulkStep, StoredPart
from django_redq.broker.calls import Call, Letter, Renewed, Settled, Submission
from django_redq.broker.delivery import PendingRow
from django_redq.broker.state import State
from django_redq.devserver import DevServer
from tests.harness import Redq
from tests.integration.worlds import (
    FAR,
    GROUP,
    ME,
    NEXT,
    NEXT_KEPT,
    NOW,
    OTHER,
    Dead,
    Here,
    Ready,
    Running,
    Scheduled,
    record,
)

pytestmark = pytest.mark.every_server

FAILED = State(1, lost=False, allowed=3, came_from=b"2-1", failures=b"[]")
LETTER = Letter("exhausted", "", "error", "OSError", "", 1)
NOW_TEXT = str(NOW)
INSTANCE = "host-1"
TTL = 10_000


@pytest.fixture(scope="module")
def tight_server() -> Iterator[Callable[[Path], DevServer]]:
    """One server a binary for the tests of this file, which may reconfigure it."""
    with ExitStack() as stack:
        yield cache(lambda binary: stack.enter_context(DevServer(binary=binary)))


@pytest.fixture
def here(tight_server: Callable[[Path], DevServer], server: DevServer) -> Iterator[Here]:
    """A shard on a server of the flavour of the shared one."""
    redq = Redq(tight_server(server.binary))
    place = Here(redq)
    yield place
    place.close()
    redq.close()


@contextmanager
def full_memory(here: Here) -> Iterator[None]:
    """Nothing that needs memory is granted."""
    here.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.ResponseError, match=r"(?i)maxmemory"):
            here.client.set("a", "b")
        yield
    finally:
        here.client.config_set("maxmemory", 0)


def _lease(here: Here, px: int) -> None:
    here.client.set(here.keys.lease, INSTANCE, px=px)


Build = Callable[[Here], Call[Any]]


def _enqueue(when: str) -> Build:
    return lambda here: calls.enqueue(
        here.shard, [Submission("email", 0, "new", when, b'"payload":1}')], NOW_TEXT
    )


def _retry(delay_ms: int) -> Build:
    return lambda here: calls.retry(
        here.shard, ME, [(here.mine("t", "2-1"), delay_ms, FAILED)], NOW_TEXT
    )


def _dead_letter(here: Here) -> Call[Any]:
    return calls.dead_letter(here.shard, ME, here.mine("t", "2-1"), FAILED, LETTER, NOW_TEXT)


def _release(here: Here) -> Call[Any]:
    return calls.release(here.shard, ME, [(here.mine("t", "2-1"), None)])


def _claim(here: Here) -> Call[Any]:
    seen = PendingRow(here.mine("u", "2-2"), OTHER, in_stream=True)
    return calls.claim(here.shard, ME, seen, FAILED, give_count=2, min_idle_ms=0)


def _replay(when: str) -> Build:
    return lambda here: operator_calls.replay(here.shard, [("dead", "4-1")], when, NOW_TEXT)


def _run_now(here: Here) -> Call[Any]:
    return operator_calls.run_now(here.shard, "later")


def _promote_due(here: Here) -> Call[Any]:
    _lease(here, TTL)
    return calls.promote(here.shard, INSTANCE, TTL, 10, str(FAR))


def _promote_a_free_shard(here: Here) -> Call[Any]:
    here.client.delete(here.keys.lease)
    return calls.promote(here.shard, INSTANCE, TTL, 10, str(FAR))


def _repair(here: Here) -> Call[Any]:
    here.client.hset(here.keys.payload, "lost", record("lost"))
    return calls.repair(here.shard, "0", NOW_TEXT, grace_ms=1)


def _pause(here: Here) -> Call[Any]:
    return operator_calls.pause(here.shard, paused=True)


def _take_turn(here: Here) -> Call[Any]:
    return calls.take_turn(here.shard, ME, TTL, NOW_TEXT)


def _begin_a_bulk(here: Here) -> Call[Any]:
    return bulk_calls.begin(here.shard, "b1", b"{}", NOW_TEXT)


def _bulk_step(here: Here, action: str, *asked: str, start: int = 0) -> Call[Any]:
    _lease(here, TTL)
    work = BulkStep("b1", "-", NOW, action, start, 0, 0.0, asked)
    return bulk_calls.step(here.shard, INSTANCE, work, NOW_TEXT)


def _bulk_replay(here: Here) -> Call[Any]:
    return _bulk_step(here, "replay")


def _bulk_replay_later(here: Here) -> Call[Any]:
    return _bulk_step(here, "replay", start=FAR)


def _renew_a_vanished_one(here: Here) -> Call[Any]:
    here.client.xdel(here.keys.stream, "2-1")
    return calls.renew(here.shard, ME, [here.mine("t", "2-1")], NOW_TEXT, hold_ms=1)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(_enqueue(""), id="enqueue"),
        pytest.param(_enqueue("+500"), id="enqueue later"),
        pytest.param(_retry(0), id="retry"),
        pytest.param(_retry(500), id="retry later"),
        pytest.param(_dead_letter, id="dead_letter"),
        pytest.param(_release, id="release"),
        pytest.param(_claim, id="claim"),
        pytest.param(_replay(""), id="replay"),
        pytest.param(_replay("+500"), id="replay later"),
        pytest.param(_run_now, id="run_now"),
        pytest.param(_promote_due, id="promote"),
        pytest.param(_promote_a_free_shard, id="promote a free shard"),
        pytest.param(_repair, id="repair"),
        pytest.param(_pause, id="pause"),
        pytest.param(_take_turn, id="take_turn"),
        pytest.param(_begin_a_bulk, id="begin a bulk"),
        pytest.param(_bulk_replay, id="bulk replay"),
        pytest.param(_bulk_replay_later, id="bulk replay later"),
        pytest.param(_renew_a_vanished_one, id="renew a vanished one"),
    ],
)
def test_what_needs_memory_is_refused_whole_and_works_later(here: Here, build: Build) -> None:
    here.seed(Running("t", "2-1"), Running("u", "2-2", owner=OTHER))
    call = build(here)
    before = here.world()

    with full_memory(here), pytest.raises(redis.ResponseError) as caught:
        here.run(call)

    assert faults.is_outage(caught.value)
    assert here.changes(before) == []
    assert here.heard() == []
    here.run(call)
    assert here.changes(before)


def test_a_task_can_be_acknowledged(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    before = here.world()
    ack = calls.ack(
        here.shard,
        ME,
        [here.mine("t", "2-1")],
        NOW_TEXT,
        retention="keep",
        cleanup="never",
    )

    with full_memory(here):
        assert here.run(ack) == [Settled.DONE]

    gone = {"entry t 2-1", "pending 2-1 me-1 1", "stream 2-1 id=t", f"payload t {record('t')}"}
    # After a first write that needs none, the server grants the rest of a script what it needs.
    assert here.world() == before - gone | {
        "meta done 1",
        f"done {NEXT_KEPT[0]} id=t entry=2-1",
        f"kept {NEXT_KEPT[0]} id=t payload={record('t')}",
    }


def test_tasks_are_delivered(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.hdel(here.keys.entry, "t")

    with full_memory(here):
        items = here.run(calls.fetch([here.shard], ME, 10, alone=False))

    assert [one.task_id for item in items for one in item.deliveries] == ["ready", "t"]
    assert "entry t 3-2" in here.world()


def test_tasks_are_delivered_after_the_group_was_destroyed(here: Here) -> None:
    here.seed(Ready("t", "3-2"), neighbours=False)
    here.client.xgroup_destroy(here.keys.stream, GROUP)

    with full_memory(here):
        items = here.run(calls.fetch([here.shard], ME, 10, alone=False))

    assert [one.task_id for item in items for one in item.deliveries] == ["t"]


def test_suspects_are_parked_and_taken(here: Here) -> None:
    here.seed(Ready("t", "3-1", state="1 1 2 - []"), neighbours=False)

    with full_memory(here):
        parked = here.run(calls.fetch([here.shard], ME, 10, alone=False))
        taken = here.run(calls.fetch([here.shard], ME, 10, alone=True))

    assert [item.parked_for for item in parked] == [0.0]
    assert [one.what for item in taken for one in item.deliveries] == ["suspect"]
    assert "pending 3-1 me-1 1" in here.world()


def test_ownership_is_kept_though_one_of_them_lost_its_entry(here: Here) -> None:
    here.seed(Running("t", "2-1", idle=3_600_000), Running("u", "2-2", idle=3_600_000))
    here.client.xdel(here.keys.stream, "2-2")
    held = [here.mine("u", "2-2"), here.mine("t", "2-1")]

    with full_memory(here):
        answer = here.run(calls.renew(here.shard, ME, held, NOW_TEXT, hold_ms=1))

    assert answer == [Renewed.KEPT, Renewed.KEPT]
    row = here.row("2-1")
    assert row is not None
    assert row[2] < 3_600_000


def test_a_lease_is_renewed_and_what_is_due_moves_on_then(here: Here) -> None:
    here.seed(Scheduled("t", NOW))
    _lease(here, TTL // 2)

    with full_memory(here):
        promotion = here.run(calls.promote(here.shard, INSTANCE, TTL, 10, NOW_TEXT))

    assert (promotion.held, promotion.moved) == (True, 1)
    assert here.client.pttl(here.keys.lease) > TTL // 2
    assert f"stream {NEXT[0]} id=t" in here.world()


def test_a_lease_is_held_where_nothing_is_due(here: Here) -> None:
    here.seed()
    _lease(here, TTL // 2)

    with full_memory(here):
        promotion = here.run(calls.promote(here.shard, INSTANCE, TTL, 10, NOW_TEXT))

    assert (promotion.held, promotion.moved) == (True, 0)
    assert here.client.pttl(here.keys.lease) > TTL // 2


def test_memory_can_be_freed_by_hand(here: Here) -> None:
    here.seed(Ready("t", "3-2"), Dead("u", "4-2"))
    here.client.xadd(here.keys.dlq, {"id": "x", "reason": "missing_payload"}, id="9000000000000-0")
    here.client.hset(here.keys.meta, mapping={"tombstones": 1, "paused": 1})

    with full_memory(here):
        assert here.run(operator_calls.cancel(here.shard, "t")) is True
        assert here.run(operator_calls.cancel(here.shard, "later")) is True
        letters = [("u", "4-2"), ("", "9000000000000-0")]
        assert here.run(operator_calls.discard(here.shard, letters)) == [True, True]
        assert here.run(operator_calls.pause(here.shard, paused=False)) is True

    assert "meta tombstones 0" in here.world()


@pytest.mark.parametrize(("kind", "number"), [("", 1), ("none", 0)])
def test_bulk_work_that_frees_memory_goes_on(here: Here, kind: str, number: int) -> None:
    here.seed()
    step = _bulk_step(here, "discard", "kind", kind)

    with full_memory(here):
        assert here.run(step) == "done"

    parts = here.run(bulk_calls.read(here.shard)).parts
    assert parts == {"b1": StoredPart("done", 1, number, 0, 0, NOW, NOW)}


def test_bulk_work_can_be_stopped(here: Here) -> None:
    here.seed()
    here.run(_begin_a_bulk(here))

    with full_memory(here):
        assert here.run(bulk_calls.end(here.shard, "b1", "stopped", NOW_TEXT)) == 1
        assert here.run(bulk_calls.halt(here.shard, "b1", NOW_TEXT)) is True

    found = here.run(bulk_calls.read(here.shard))
    assert found.records["b1"].state == found.parts["b1"].state == "stopped"


def test_a_consumers_name_is_forgotten_where_the_server_lets_it(here: Here) -> None:
    here.seed()
    here.client.xgroup_createconsumer(here.keys.stream, GROUP, "idle-4")
    before = here.world()
    call = calls.drop_consumers(here.shard, name="idle-4")

    with full_memory(here):
        if here.client.info("server")["redis_version"].startswith("6."):
            # Redis 6.2 refuses every form of XGROUP then.
            with pytest.raises(redis.ResponseError, match="OOM"):
                here.run(call)
            assert here.changes(before) == []
        else:
            assert here.run(call) == ["idle-4"]
            assert here.changes(before) == ["- consumer idle-4"]


def test_rows_leases_and_turns_can_be_given_up(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    _lease(here, TTL)

    with full_memory(here):
        assert here.run(calls.drop(here.shard, [(ME, "2-1")])) == 1
        assert here.run(calls.release_lease(here.shard, INSTANCE)) is True
        assert here.run(calls.take_turn(here.shard, ME, 0, NOW_TEXT)) is True


def test_questions_are_answered(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hdel(here.keys.meta, "suspects")
    before = here.world()

    with full_memory(here):
        assert here.run(operator_calls.inspect(here.shard, "t")) is not None
        assert here.run(calls.heads([here.shard], NOW_TEXT)).due == [FAR]
        # It could not note that something is parked, and goes on all the same.
        assert len(here.run(calls.pending_page(here.shard)).rows) == 2
        assert here.run(calls.repair(here.shard, "0", NOW_TEXT, grace_ms=1)).put_back == 0
        assert here.run(operator_calls.declare(here.shard, 4)).shards == "4"

    assert here.changes(before) == []

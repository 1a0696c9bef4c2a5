"""One call of every script, on a shard: for the tests that hold for all of them."""

from __future__ import annotations

from typing import Any

from django_redq.broker import (
    beats,
    bulk_calls,
    calls,
    dead_reading,
    dead_walk,
    inspector,
    meter,
    operator_calls,
    task_pages,
)
from django_redq.broker.calls import Call, Letter, Shard, Submission
from django_redq.broker.delivery import Delivery, PendingRow
from django_redq.broker.state import State
from django_redq.dead_letters import groups

ME = "me-1"
NOW = "5000000000000"


def every_call(shard: Shard) -> list[Call[Any]]:
    """The calls, two tasks each where a script takes several."""
    one = Delivery(shard.queue, shard.number, "t", "2-1", 1, None)
    two = Delivery(shard.queue, shard.number, "u", "2-2", 1, None)
    state = State(1, lost=False, allowed=3, came_from=b"2-1", failures=b"[]")
    letters = [("t", "4-1"), ("u", "")]
    return [
        *_of_the_engine(shard, one, two, state),
        calls.pending_page(shard),
        *(
            ask(shard, after, 10)
            for ask, after in zip(task_pages._ASK.values(), ("5:t", "1-1.0", None), strict=True)
        ),
        operator_calls.declare(shard, 4),
        operator_calls.cancel(shard, "t"),
        operator_calls.run_now(shard, "t"),
        operator_calls.pause(shard, paused=False),
        operator_calls.inspect(shard, "t"),
        operator_calls.replay(shard, letters, "", NOW),
        operator_calls.discard(shard, letters),
        operator_calls.replay_edited(shard, letters[0], b"{}", "", NOW),
        inspector.shard_stats(shard, NOW),
        meter.history(shard, meter.DAY, NOW),
        beats.beat(shard, ME, beats.About(host="h", running=(("t", "", 1),)), NOW),
        beats.leave(shard, ME),
        beats.seen(shard, NOW),
        dead_walk.bounds(shard),
        groups.dead_groups(shard),
        dead_reading.letters(shard, letters),
        _page_of_the_dead(shard),
        *_of_bulk_work(shard),
    ]


def _of_bulk_work(shard: Shard) -> list[Call[Any]]:
    work = bulk_calls.BulkStep("b1", "-", 2**45, "replay", 2**45, 1000, 0.5, ("kind", "welcome"))
    return [
        bulk_calls.begin(shard, "b1", b"{}", NOW),
        bulk_calls.end(shard, "b1", "done", NOW),
        bulk_calls.halt(shard, "b1", NOW),
        bulk_calls.read(shard),
        bulk_calls.drop(shard, ["b1"], records=True),
        bulk_calls.step(shard, "host-1", work, NOW),
    ]


def _page_of_the_dead(shard: Shard) -> Call[Any]:
    filters = dead_walk.Filters(kind="welcome", text="late", older_than_ms=1000)
    return dead_walk.dead_ids(
        shard, filters, newest_first=True, start="+", end="-", scan=100, limit=10, now=NOW
    )


def _of_the_engine(shard: Shard, one: Delivery, two: Delivery, state: State) -> list[Call[Any]]:
    new = [Submission(shard.queue, shard.number, name, "", b'"payload":1}') for name in "tu"]
    letter = Letter("exhausted", "", "error", "OSError", "", 1)
    seen = PendingRow(one, "other-2", in_stream=True)
    return [
        calls.enqueue(shard, new, NOW),
        calls.promote(shard, "host-1", 10_000, 100, NOW),
        calls.heads([shard], NOW),
        calls.fetch([shard], ME, 10, alone=False),
        calls.renew(shard, ME, [one, two], NOW, hold_ms=30_000),
        calls.retry(shard, ME, [(one, 0, state), (two, 500, state)], NOW),
        calls.dead_letter(shard, ME, one, state, letter, NOW),
        calls.release(shard, ME, [(one, None), (two, state)]),
        calls.claim(shard, ME, seen, state, give_count=2, min_idle_ms=30_000),
        calls.drop(shard, [(ME, "2-1"), (ME, "2-2")]),
        calls.drop_consumers(shard, name=ME),
        calls.take_turn(shard, ME, 30_000, NOW),
        calls.repair(shard, "0", NOW, grace_ms=30_000),
        calls.release_lease(shard, "host-1"),
        calls.ack(shard, ME, [one, two], NOW, retention="keep", cleanup="never"),
    ]

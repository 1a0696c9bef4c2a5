"""Every script that writes, sent a second time as it was: nothing more happens, and the answer does no harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from django_redq.broker import bulk_calls
from django_redq.broker.calls import Promotion, Repair, Settled
from django_redq.broker.keys import SUSPECTS_CONSUMER
from django_redq.broker.operator_calls import Replayed
from django_redq.broker.scripts import script, script_names
from tests.every_call import ME, NOW, every_call
from tests.integration.worlds import (
    GROUP,
    OTHER,
    Dead,
    Garbage,
    Here,
    Ready,
    Running,
    Scheduled,
    Seed,
    record,
)

READS = frozenset(
    [
        "EXISTS",
        "GET",
        "GETRANGE",
        "HEXISTS",
        "HGET",
        "HGETALL",
        "HLEN",
        "HMGET",
        "HRANDFIELD",
        "HSCAN",
        "HVALS",
        "PTTL",
        "PUBLISH",
        "TIME",
        "XINFO",
        "XLEN",
        "XPENDING",
        "XRANGE",
        "XREVRANGE",
        "ZCARD",
        "ZCOUNT",
        "ZRANGE",
        "ZRANGEBYSCORE",
        "ZSCORE",
    ]
)
"""What changes nothing; everything else counts as a write."""


def writes(name: str) -> bool:
    used = set(re.findall(r"redis\.p?call\('(\w+)'", script(name).source))
    return bool(used - READS)


@dataclass(frozen=True)
class Case:
    """A shard in which the calls of :func:`every_call` find something to do."""

    seeds: tuple[Seed, ...] = ()
    prepare: Callable[[Here], object] = lambda _: None
    again: Any = None
    """What is answered the second time; None: the same as the first time."""


def leased(here: Here) -> None:
    here.client.set(here.keys.lease, "host-1", px=600_000)


def begun(here: Here) -> None:
    leased(here)
    here.run(bulk_calls.begin(here.shard, "b1", b"{}", NOW))


def consumer_without_work(here: Here) -> None:
    here.client.xgroup_createconsumer(here.keys.stream, GROUP, ME)


def beaten(here: Here) -> None:
    here.client.hset(here.keys.consumers, ME, "1 {}")


def lost_its_place(here: Here) -> None:
    here.client.hset(here.keys.payload, "t", record("t"))


def lost_its_entry(here: Here) -> None:
    here.client.xdel(here.keys.stream, "2-1")


def paused(here: Here) -> None:
    here.client.hset(here.keys.meta, "paused", 1)


MINE = (Running("t", "2-1"), Running("u", "2-2"))
DEAD = (Dead("t", "4-1"), Dead("u", "4-2"))
BEFORE = [Settled.BEFORE, Settled.BEFORE]

CASES = {
    "ack": Case(MINE, again=[BEFORE]),
    "bulk_begin": Case(again=[0]),
    "bulk_drop": Case(prepare=begun, again=[0]),
    "bulk_end": Case(prepare=begun, again=[0]),
    "bulk_halt": Case(prepare=begun, again=[False]),
    "bulk_step": Case(DEAD, begun, again=["done"]),
    "cancel": Case((Scheduled("t"),), again=[False]),
    "claim": Case((Running("t", "2-1", OTHER, idle=60_000),)),
    "consumer_beat": Case(),
    "consumer_leave": Case(prepare=beaten, again=[False]),
    "dead_letter": Case(MINE, again=lambda first: [(Settled.BEFORE, first[0][1])]),
    "declare": Case(),
    "discard": Case(DEAD, again=[[False, False]]),
    "drop": Case((Garbage("2-1", (("a", "b"),), ME),), again=[0]),
    "drop_consumers": Case((Ready("t", "3-1"),), consumer_without_work, again=[[]]),
    "enqueue": Case(),
    "fetch": Case((Ready("t", "3-2"),), again=[[]]),
    "lease_release": Case(prepare=leased, again=[False]),
    "pause": Case(prepare=paused, again=[False]),
    "pending_page": Case((Running("t", "2-1", SUSPECTS_CONSUMER),)),
    "promote": Case((Scheduled("t", 5),), again=[Promotion(True, 0, None, None, float(NOW))]),
    "release": Case(MINE, again=[BEFORE]),
    "renew": Case(MINE, lost_its_entry),
    "repair": Case(prepare=lost_its_place, again=[Repair("0", 0)]),
    "replay": Case(DEAD, again=[[Replayed(None), Replayed(None)]]),
    "replay_edited": Case(DEAD, again=[Replayed(None)]),
    "retry": Case(MINE, again=[BEFORE]),
    "run_now": Case((Scheduled("t"),), again=[False]),
    "take_turn": Case(),
}
"""By the script. A fetch whose reply was lost brings no more the second time: what it delivered bears
the consumer's name, and is adopted by it (tests/chaos/test_reply_lost.py)."""


def test_every_script_that_writes_is_in_the_list() -> None:
    assert sorted(CASES) == [name for name in script_names() if writes(name)]


@pytest.mark.every_server
@pytest.mark.parametrize("name", CASES)
def test_a_resent_call_changes_nothing_more(here: Here, name: str) -> None:
    case = CASES[name]
    here.seed(*case.seeds, neighbours=False)
    case.prepare(here)
    calls = [call for call in every_call(here.shard) if call.script == name]
    before = here.world()
    first = [here.run(call) for call in calls]
    after, meter = here.world(), here.client.get(here.keys.meter)
    again = [here.run(call) for call in calls]
    assert here.world() == after
    assert here.client.get(here.keys.meter) == meter
    assert after != before
    if case.again is None:
        assert again == first
    else:
        assert again == (case.again(first) if callable(case.again) else case.again)

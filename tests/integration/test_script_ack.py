"""lua/ack.lua: a task that succeeded goes, whole."""

from __future__ import annotations

import pytest

from django_redq.broker import calls
from django_redq.broker.calls import Call, Settled
from django_redq.broker.delivery import Delivery
from tests.integration.worlds import (
    ME,
    NEXT_KEPT,
    NOW,
    Blow,
    Here,
    Ready,
    Running,
    not_mine,
    record,
    tampered,
)

pytestmark = pytest.mark.every_server

STATE = "1 0 3 1-9 []"
MINE = {
    "entry t 2-1",
    f"payload t {record('t')}",
    "pending 2-1 me-1 1",
    f"state t {STATE}",
    "stream 2-1 id=t",
}
"""All that there is of the running task."""


def ack(
    here: Here, *done: Delivery, retention: str = "delete_on_ack", cleanup: str = "on_success"
) -> Call[list[Settled]]:
    return calls.ack(here.shard, ME, done, str(NOW), retention=retention, cleanup=cleanup)


def test_ack_removes_every_trace_of_the_task(here: Here) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    before = here.world()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.DONE]

    assert here.world() == before - MINE | {"meta done 1"}
    assert here.heard() == []


def test_ack_leaves_a_drained_shard_with_counters_only(here: Here) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)

    here.run(ack(here, here.mine("t", "2-1")))

    assert here.world() == {"consumer me-1", "group default 2-9999", "meta done 1"}


@not_mine
def test_ack_changes_nothing_of_a_task_that_is_not_mine_any_more(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    blow(here)
    before = here.world()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.STALE]

    assert here.changes(before) == []


@tampered
def test_ack_removes_the_task_whatever_was_taken_from_it(here: Here, blow: Blow) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    blow(here)
    before = here.world()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.DONE]

    assert here.world() == before - MINE | {"meta done 1"}


def test_ack_does_without_a_payload(here: Here) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    here.client.hdel(here.keys.payload, "t")
    before = here.world()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.DONE]

    assert here.world() == before - MINE | {"meta done 1"}


def test_ack_sent_twice_finds_its_own_work_done(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.run(ack(here, here.mine("t", "2-1")))
    before = here.world()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.BEFORE]

    assert here.changes(before) == []


def test_ack_sent_twice_leaves_a_new_task_of_the_same_id_alone(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    before = here.world()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.STALE]

    assert here.changes(before) == []


def test_ack_after_everything_was_wiped_brings_nothing_back(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.wipe()

    assert here.run(ack(here, here.mine("t", "2-1"))) == [Settled.BEFORE]

    assert here.world() == set()


def test_ack_answers_for_each_task_of_a_batch(here: Here) -> None:
    here.seed(Running("t", "2-1", state=STATE), Running("u", "2-2", owner="other-2"))
    before = here.world()
    batch = here.mine("u", "2-2"), here.mine("t", "2-1"), here.mine("v", "2-3")

    assert here.run(ack(here, *batch)) == [Settled.STALE, Settled.DONE, Settled.BEFORE]

    assert here.world() == before - MINE | {"meta done 1"}


def test_ack_takes_as_many_as_a_call_may_carry(here: Here) -> None:
    many = [f"t{number}" for number in range(calls.MAX_SCRIPT_TASKS)]
    here.seed(*(Running(one, f"2-{at}") for at, one in enumerate(many, 1)), neighbours=False)
    batch = [here.mine(one, f"2-{at}") for at, one in enumerate(many, 1)]

    assert here.run(ack(here, *batch)) == [Settled.DONE] * len(many)

    assert here.world() == {"consumer me-1", "group default 2-9999", "meta done 500"}


def test_ack_under_keep_notes_what_was_done(here: Here) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    before = here.world()

    here.run(ack(here, here.mine("t", "2-1"), retention="keep"))

    assert here.world() == before - MINE | {
        "meta done 1",
        f"done {NEXT_KEPT[0]} id=t entry=2-1",
    }


def test_ack_under_keep_cuts_the_notes_to_their_number(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls.settle, "KEPT_DONE", 10)
    here.seed(Running("t", "2-1"))
    for number in range(1000):
        here.client.xadd(here.keys.done, {"id": str(number)})

    here.run(ack(here, here.mine("t", "2-1"), retention="keep"))

    # The server cuts whole blocks of entries only, so about.
    assert 10 <= here.client.xlen(here.keys.done) < 500


def test_ack_under_never_keeps_the_payload(here: Here) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    before = here.world()

    here.run(ack(here, here.mine("t", "2-1"), cleanup="never"))

    assert here.world() == before - MINE | {
        "meta done 1",
        f"kept {NEXT_KEPT[0]} id=t payload={record('t')}",
    }


def test_ack_under_never_does_without_a_payload(here: Here) -> None:
    here.seed(Running("t", "2-1"))
    here.client.hdel(here.keys.payload, "t")

    assert here.run(ack(here, here.mine("t", "2-1"), cleanup="never")) == [Settled.DONE]

    assert f"kept {NEXT_KEPT[0]} id=t payload=" in here.world()


def test_ack_under_never_lets_go_of_payloads_by_their_age(here: Here) -> None:
    here.seed(Running("t", "2-1"), neighbours=False)
    too_old = NOW - calls.KEPT_PAYLOAD_AGE - 1
    for number in range(1, 1000):
        here.client.xadd(here.keys.kept, {"id": "old"}, id=f"{too_old}-{number}")
    here.client.xadd(here.keys.kept, {"id": "young"}, id=f"{too_old + 2}-0")

    here.run(ack(here, here.mine("t", "2-1"), cleanup="never"))

    left = [fields[b"id"] for _, fields in here.client.xrange(here.keys.kept)]
    assert left[-2:] == [b"young", b"t"]
    assert len(left) < 500


@pytest.mark.parametrize("name", ["done", "kept", "meta"])
def test_ack_does_not_depend_on_keys_that_only_tell(here: Here, name: str) -> None:
    here.seed(Running("t", "2-1", state=STATE))
    here.client.set(here.redq.key("email", 0, name), "somebody's own", keepttl=False)
    before = here.world()

    done = ack(here, here.mine("t", "2-1"), retention="keep", cleanup="never")
    assert here.run(done) == [Settled.DONE]

    assert not here.world() & MINE
    assert before - MINE <= here.world()

"""lua/run_now.lua: a scheduled task becomes ready, whenever it is due."""

from __future__ import annotations

import pytest

from django_redq.broker import operator_calls
from tests.integration.worlds import FAR, NEXT, Dead, Here, Ready, Running, Scheduled

pytestmark = pytest.mark.every_server


def run_now(here: Here) -> bool:
    return here.run(operator_calls.run_now(here.shard, "t"))


def test_run_now_makes_the_task_ready(here: Here) -> None:
    here.seed(Scheduled("t", state="1 0 3 1-9 []"))
    before = here.world()

    assert run_now(here) is True

    assert here.world() == before - {f"delay t {FAR}"} | {
        f"stream {NEXT[0]} id=t",
        f"entry t {NEXT[0]}",
    }
    assert here.heard() == [("wake", "0")]


def test_run_now_sent_twice_makes_one_entry(here: Here) -> None:
    here.seed(Scheduled("t"))
    run_now(here)
    before = here.world()
    here.heard()

    assert run_now(here) is False

    assert here.changes(before) == []
    assert here.heard() == []


@pytest.mark.parametrize("seed", [Ready("t", "3-2"), Running("t", "2-1"), Dead("t", "4-2")])
def test_run_now_leaves_what_is_not_scheduled(here: Here, seed: Ready | Running | Dead) -> None:
    here.seed(seed)
    before = here.world()

    assert run_now(here) is False

    assert here.changes(before) == []


def test_run_now_of_an_unknown_id_changes_nothing(here: Here) -> None:
    assert run_now(here) is False

    assert here.world() == set()

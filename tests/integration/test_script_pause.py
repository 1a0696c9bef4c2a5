"""lua/pause.lua: one shard is paused or resumed, and its consumers are told."""

from __future__ import annotations

import pytest

from django_redq.broker import operator_calls
from tests.integration.worlds import Here

pytestmark = pytest.mark.every_server


def pause(here: Here, *, paused: bool) -> bool:
    return here.run(operator_calls.pause(here.shard, paused=paused))


def test_pause_notes_it_and_wakes_the_consumers(here: Here) -> None:
    here.seed()
    before = here.world()

    assert pause(here, paused=True) is True

    assert here.changes(before) == ["+ meta paused 1"]
    assert here.heard() == [("wake", "0")]


def test_resume_removes_the_note_and_wakes_the_consumers(here: Here) -> None:
    here.seed()
    before = here.world()
    pause(here, paused=True)
    here.heard()

    assert pause(here, paused=False) is True

    assert here.changes(before) == []
    assert here.heard() == [("wake", "0")]


def test_pause_sent_twice_changes_nothing_more(here: Here) -> None:
    pause(here, paused=True)
    before = here.world()

    assert pause(here, paused=True) is False

    assert here.changes(before) == []


def test_resume_of_what_is_not_paused_changes_nothing(here: Here) -> None:
    assert pause(here, paused=False) is False

    assert here.world() == set()

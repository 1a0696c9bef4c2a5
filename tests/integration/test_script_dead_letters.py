"""lua/dead_letters.lua: reads dead letters whole, with their tasks."""

from __future__ import annotations

import pytest

from django_redq.broker import dead_reading, dead_walk
from django_redq.broker.dead_reading import StoredLetter
from tests.integration.worlds import Dead, Here, Ready, record

pytestmark = pytest.mark.every_server

FIELDS = {b"id": b"t", b"reason": b"exhausted", b"entry": b"1-9"}
STATE = b"3 0 3 1-9 []"
LETTER = StoredLetter(0, "4-2", FIELDS, True, record("t").encode(), True, STATE)


def read(here: Here, *names: tuple[str, str]) -> tuple[int, list[StoredLetter]]:
    return here.run(dead_reading.letters(here.shard, names))


@pytest.mark.parametrize("name", [("t", "4-2"), ("t", ""), ("", "4-2")])
def test_dead_letters_reads_a_letter_by_task_or_entry(here: Here, name: tuple[str, str]) -> None:
    here.seed(Dead("t", "4-2"))
    before = here.world()

    assert read(here, name) == (1, [LETTER])

    assert here.changes(before) == []


@pytest.mark.parametrize(
    "name", [("u", ""), ("t", "4-3"), ("u", "4-2"), ("ready", ""), ("", "9-9")]
)
def test_dead_letters_has_no_row_for_what_is_not_there(here: Here, name: tuple[str, str]) -> None:
    here.seed(Dead("t", "4-2"))

    assert read(here, name) == (1, [])


def test_dead_letters_tells_a_tombstone_from_a_live_task_of_its_id(here: Here) -> None:
    here.seed(Ready("t", "3-2"))
    here.client.xadd(here.keys.dlq, {"id": "t", "reason": "missing_payload"}, id="9000000000000-0")

    looked_at, [found] = read(here, ("t", "9000000000000-0"))

    assert looked_at == 1
    assert (found.current, found.record) == (False, None)


def test_dead_letters_reads_what_somebody_else_wrote_there(here: Here) -> None:
    here.client.xadd(here.keys.dlq, {"colour": b"\xff"}, id="4-2")

    assert read(here, ("", "4-2")) == (
        1,
        [StoredLetter(0, "4-2", {b"colour": b"\xff"}, False, None, False)],
    )


def test_dead_letters_reads_a_letter_whose_payload_is_gone(here: Here) -> None:
    here.seed(Dead("t", "4-2"))
    here.client.hdel(here.keys.payload, "t")

    assert read(here, ("t", "")) == (1, [StoredLetter(0, "4-2", FIELDS, True, None, False, STATE)])


@pytest.mark.parametrize("place", ["rubbish", "dlq rubbish", ""])
def test_dead_letters_bears_a_garbled_place(here: Here, place: str) -> None:
    here.seed(Dead("t", "4-2"))
    here.client.hset(here.keys.entry, "t", place)

    assert read(here, ("t", ""), ("t", "4-2")) == (
        2,
        [StoredLetter(0, "4-2", FIELDS, False, None, False)],
    )


def test_dead_letters_counts_the_letters_own_size_too(here: Here) -> None:
    big = b"x" * 600 * 1024
    for number in range(1, 4):
        here.client.xadd(here.keys.dlq, {"id": "t", "traceback": big}, id=f"4-{number}")

    looked_at, found = read(here, *(("", f"4-{number}") for number in range(1, 4)))

    assert (looked_at, [letter.entry_id for letter in found]) == (2, ["4-1", "4-2"])


def test_dead_letters_leaves_the_rest_for_another_call_once_the_reply_is_big(here: Here) -> None:
    big = b"x" * 600 * 1024
    here.seed(*(Dead(f"t{number}", f"4-{number}") for number in range(2, 5)), neighbours=False)
    for number in range(2, 5):
        here.client.hset(here.keys.payload, f"t{number}", big)

    looked_at, found = read(here, *((f"t{number}", "") for number in range(2, 5)))

    assert looked_at == 2
    assert [letter.entry_id for letter in found] == ["4-2", "4-3"]
    places = [dead_walk.Place(here.shard, f"4-{number}", f"t{number}") for number in range(2, 5)]
    loaded = dead_reading.load(here.broker, places)
    assert [(letter.entry_id, letter.record) for _, letter in loaded] == [
        ("4-2", big),
        ("4-3", big),
        ("4-4", big),
    ]

"""``manage.py redq_dlq``'s bulk work."""

from __future__ import annotations

import json
import uuid

import pytest
from django.core.management import CommandError, call_command

from django_redq import BulkAction, BulkState, DeadLetterQueue, Scheduler
from tests.harness import Redq
from tests.integration.graves import QUEUE, SHARDS, Graveyard, configure


@pytest.fixture
def graves(redq: Redq) -> Graveyard:
    configure(redq)
    return Graveyard(redq)


@pytest.fixture
def letters(graves: Graveyard) -> DeadLetterQueue:
    return DeadLetterQueue(QUEUE)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The command in this process; the lines of its output."""
    call_command("redq_dlq", *arguments)
    return capsys.readouterr().out.splitlines()


def facts(lines: list[str]) -> dict[str, str]:
    """What ``bulk show`` prints."""
    return dict(line.strip().split(": ", 1) for line in lines)


def test_a_replay_in_the_background_from_its_beginning_to_its_end(
    redq: Redq, graves: Graveyard, letters: DeadLetterQueue
) -> None:
    graves.bury_many(1000, kind="a")
    graves.bury(1)

    begun = redq.manage(
        *("redq_dlq", "replay", QUEUE, "--kind", "a", "--background"),
        *("--delay", "1h", "--spread", "10m"),
    )
    assert begun.returncode == 0
    [bulk] = letters.bulks()
    assert begun.stdout.splitlines() == [
        f"bulk replay {bulk.id} begun, about 1000 letter(s)",
        f"see how far it is: redq_dlq bulk show {QUEUE} {bulk.id} --watch",
    ]
    assert (bulk.which, bulk.spread) == ({"kind": "a"}, 600.0)
    assert bulk.run_at is not None
    assert bulk.by
    watching = redq.spawn("redq_dlq", "bulk", "show", QUEUE, bulk.id, "--watch")
    redq.spawn("redq_scheduler", QUEUE)

    assert watching.wait() == 0
    shown = facts(watching.output.splitlines()[1:])
    assert shown["state"] == "done"
    assert shown["replayed"] == "1000"
    assert shown["shards done"] == "3 of 3"
    assert graves.client.zcard(graves.key("delay", 0)) == 1000
    assert letters.count() == 1


def test_a_purge_in_the_background_discards(
    graves: Graveyard, letters: DeadLetterQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    graves.bury(0)

    [line] = run(capsys, "purge", QUEUE, "--all", "--background", "--json")

    bulk = letters.bulk(json.loads(line)["id"])
    assert (bulk.action, bulk.state) == (BulkAction.DISCARD, BulkState.WAITING)
    shown = facts(run(capsys, "bulk", "show", QUEUE, bulk.id))
    assert shown["state"] == "waiting: no scheduler has begun with it"
    assert shown["which"] == "all"
    assert shown["discarded"] == "0"
    assert "due" not in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("replay", "--background"), "say which dead letters"),
        (("purge", "--background"), "say which dead letters"),
        (("replay", "--all", "--spread", "10m"), "--spread needs --background"),
        (("replay", "t1", "--background"), "are for many"),
        (("replay", "t1", "--spread", "10m"), "are for many"),
        (("purge", "--all", "--background", "--count", "5"), "no --count"),
    ],
)
def test_what_makes_no_sense_begins_nothing(
    letters: DeadLetterQueue, arguments: tuple[str, ...], complaint: str
) -> None:
    action, *rest = arguments

    with pytest.raises(CommandError, match=complaint):
        call_command("redq_dlq", action, QUEUE, *rest)

    assert letters.bulks() == ()


def test_list_shows_a_line_each(
    graves: Graveyard, letters: DeadLetterQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    for shard in range(SHARDS):
        graves.bury(shard)
    one, two = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
    first = letters.start_replay(by="ann\x1b[2J\n", kind="x", bulk_id=one)
    scheduler = Scheduler(QUEUE)
    scheduler.run_once()
    scheduler.stop()
    second = letters.start_discard(by="bob", bulk_id=two)

    lines = run(capsys, "bulk", "list", QUEUE)

    assert len(lines) == 3
    assert lines[1].split()[:5] == [second.id, "discard", "waiting", "0", "3"]
    assert lines[2].split()[:5] == [first.id, "replay", "done", "0", "0"]
    assert "\x1b" not in lines[2]
    [document] = run(capsys, "bulk", "list", QUEUE, "--json")
    assert [one["state"] for one in json.loads(document)] == ["waiting", "done"]


def test_stop_ends_one_and_says_how_far_it_was(
    letters: DeadLetterQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    bulk = letters.start_replay()

    assert facts(run(capsys, "bulk", "stop", QUEUE, bulk.id))["state"] == "stopped"

    call_command("redq_dlq", "bulk", "stop", QUEUE, bulk.id, "--json")
    shown = capsys.readouterr()
    assert shown.err == "it was over before\n"
    assert json.loads(shown.out)["state"] == "stopped"


@pytest.mark.parametrize("doing", ["show", "stop"])
def test_what_never_began_is_not_found(letters: DeadLetterQueue, doing: str) -> None:
    for bulk_id in (str(uuid.uuid4()), "b1"):
        with pytest.raises(CommandError, match=f"has no bulk '{bulk_id}'"):
            call_command("redq_dlq", "bulk", doing, QUEUE, bulk_id)


def test_a_watch_ends_when_one_has_seen_enough(redq: Redq, letters: DeadLetterQueue) -> None:
    bulk = letters.start_replay()
    watching = redq.spawn("redq_dlq", "bulk", "show", QUEUE, bulk.id, "--watch")

    watching.wait_for("goes on")
    assert watching.terminate() == 0

    assert facts(watching.output.splitlines()[1:])["state"].startswith("waiting")

"""``manage.py redq_dlq``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redq import DeadLetterQueue, TaskState, get_task
from django_redq.dead_letters import steps
from tests.harness import ROOT, Redq
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure


@pytest.fixture
def graves(redq: Redq) -> Graveyard:
    configure(redq)
    return Graveyard(redq)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    """The command in this process; the lines of both its outputs."""
    call_command("redq_dlq", *arguments)
    shown = capsys.readouterr()
    return shown.out.splitlines(), shown.err.splitlines()


def failure(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[str, list[str], list[str]]:
    """What it complains of, and the lines of both its outputs."""
    with pytest.raises(CommandError) as raised:
        call_command("redq_dlq", *arguments)
    shown = capsys.readouterr()
    return str(raised.value), shown.out.splitlines(), shown.err.splitlines()


def test_a_dead_letter_from_list_to_replay(redq: Redq, graves: Graveyard) -> None:
    task_id = graves.bury(
        0,
        "1-0",
        at=BORN,
        payload={"to": "Ада"},
        type="ValueError",
        error="no\nsuch address",
        traceback="Traceback ...\nValueError: no\nsuch address\n",
        kind="welcome",
    )

    shown = redq.manage("redq_dlq", "list", QUEUE)
    assert shown.returncode == 0
    assert shown.stdout == (
        f"2023-11-14 22:13:20+00:00  {task_id}  exhausted, kind welcome, attempts 3  "
        "ValueError: no such address\n"
    )
    shown = redq.manage("redq_dlq", "show", QUEUE, task_id)
    assert shown.returncode == 0
    assert '        payload: {"to": "Ада"}\n' in shown.stdout
    assert shown.stdout.endswith("\nTraceback ...\nValueError: no\nsuch address\n")
    shown = redq.manage("redq_dlq", "replay", QUEUE, task_id)
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"{task_id} replayed, due 20")
    assert get_task(QUEUE, task_id).state is TaskState.READY
    shown = redq.manage("redq_dlq", "replay", QUEUE, task_id)
    assert shown.returncode == 1
    assert shown.stderr.splitlines() == [
        f"{QUEUE!r} holds no dead letter {task_id!r}",
        "CommandError: 1 dead letter(s) not replayed",
    ]


def test_list_goes_on_where_a_page_ended(
    graves: Graveyard, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [graves.bury(at % SHARDS, f"{10 + at}-0") for at in range(3)]

    first, more = run(capsys, "list", QUEUE, "--count", "2")
    assert [line.split()[2] for line in first] == [ids[2], ids[1]]
    assert more == ["more: --after 11-0.1"]
    rest, more = run(capsys, "list", QUEUE, "--after", more[0].split()[-1])
    assert [line.split()[2] for line in rest] == [ids[0]]
    assert more == []
    up, _ = run(capsys, "list", QUEUE, "--oldest-first")
    assert [line.split()[2] for line in up] == ids


def test_list_filters(graves: Graveyard, capsys: pytest.CaptureFixture[str]) -> None:
    seconds, _ = graves.client.time()
    failed = {"type": "ValueError", "error": "No luck"}
    long_ago, just_now = (seconds - 7200) * 1000, seconds * 1000
    old = graves.bury(0, f"{long_ago}-0", at=long_ago, kind="a", **failed)
    new = graves.bury(1, f"{just_now}-0", at=just_now, reason="rejected", key="k")
    noon = datetime.fromtimestamp(seconds - 3600, UTC).isoformat()

    for arguments, expected in (
        (("--older-than", "1h"), [old]),
        (("--reason", "rejected"), [new]),
        (("--kind", "a"), [old]),
        (("--kind", ""), [new]),
        (("--shard", "1"), [new]),
        (("--exception-type", "ValueError"), [old]),
        (("--exception-type", ""), [new]),
        (("--text", "NO luck"), [old]),
        (("--idempotency-key", "k"), [new]),
        (("--since", noon), [new]),
        (("--until", noon), [old]),
    ):
        lines, _ = run(capsys, "list", QUEUE, *arguments)
        assert [line.split()[2] for line in lines] == expected


def test_what_redis_holds_cannot_act_on_the_terminal(
    graves: Graveyard, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x07\u202e\r"
    task_id = graves.bury(error=evil, traceback=evil, kind=evil, reason=evil, payload=evil)
    graves.litter(1, "7-0", {"id": evil, "error": evil})

    shown = [*run(capsys, "list", QUEUE)[0], *run(capsys, "show", QUEUE, task_id)[0]]
    shown += run(capsys, "show", QUEUE, "--entry-id", "7-0")[0]

    assert len(shown) > 20
    assert not set("".join(shown)) & set(evil.replace("[2J", ""))


def test_json_is_for_programs(graves: Graveyard, capsys: pytest.CaptureFixture[str]) -> None:
    task_id = graves.bury(0, "1-0", at=BORN, payload={"to": "Ада"})

    def read(*arguments: str) -> Any:
        return json.loads("".join(run(capsys, *arguments, "--json")[0]))

    page = read("list", QUEUE)
    assert page["cursor"] is None
    [letter] = page["letters"]
    assert letter == read("show", QUEUE, task_id)
    assert letter["task_id"] == task_id
    assert letter["failed_at"] == "2023-11-14T22:13:20+00:00"
    assert letter["task"]["payload"] == {"to": "Ада"}
    [result] = read("replay", QUEUE, task_id)
    assert result["replayed"]
    graves.bury()
    assert read("replay", QUEUE, "--all") == {"replayed": 1, "not_replayed": 0}
    other = graves.bury(1)
    assert read("discard", QUEUE, other) == {"discarded": [other]}
    graves.bury()
    assert read("purge", QUEUE, "--all") == {"removed": 1}


def test_replay_of_many_needs_to_be_told_which(
    graves: Graveyard, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [graves.bury(0, f"{10 + at}-0", kind="ab"[at % 2]) for at in range(4)]

    for action in ("replay", "purge"):
        complaint, _, _ = failure(capsys, action, QUEUE)
        assert complaint.startswith("say which dead letters: --all, or --kind")
    complaint, _, _ = failure(capsys, "replay", QUEUE, ids[0], "--all")
    assert complaint.endswith("not both")
    assert DeadLetterQueue(QUEUE).count() == 4

    lines, _ = run(capsys, "replay", QUEUE, "--kind", "a", "--count", "1", "--delay", "1h")
    assert lines == ["1 replayed"]
    assert get_task(QUEUE, ids[0]).state is TaskState.SCHEDULED
    lines, _ = run(capsys, "replay", QUEUE, "--all", "--run-at", "2100-01-01T00:00:00")
    assert lines == ["3 replayed"]


def test_a_letter_is_edited_and_replayed(
    graves: Graveyard, capsys: pytest.CaptureFixture[str]
) -> None:
    task_id = graves.bury(0, "1-0", payload={"to": "nobody"})
    edit = ("replay", QUEUE, task_id)

    with pytest.raises(CommandError, match=r"--payload: must be JSON"):
        call_command("redq_dlq", *edit, "--payload", "{", "--entry-id", "1-0")
    with pytest.raises(CommandError, match="entry_id: is needed with payload"):
        call_command("redq_dlq", *edit, "--payload", "{}")
    with pytest.raises(CommandError, match="--payload is for one TASK_ID"):
        call_command("redq_dlq", *edit, "another", "--payload", "{}", "--entry-id", "1-0")
    assert graves.left() == ["1-0"]

    run(capsys, *edit, "--payload", '{"to": "ada"}', "--entry-id", "1-0")
    stored = json.loads(graves.client.hget(graves.key("payload", 0), task_id))
    assert stored["payload"] == {"to": "ada"}


def test_a_payload_may_become_null(graves: Graveyard, capsys: pytest.CaptureFixture[str]) -> None:
    task_id = graves.bury(0, "1-0", payload={"to": "nobody"})

    run(capsys, "replay", QUEUE, task_id, "--payload", "null", "--entry-id", "1-0")

    stored = json.loads(graves.client.hget(graves.key("payload", 0), task_id))
    assert stored["payload"] is None


def test_groups_are_counted(graves: Graveyard, capsys: pytest.CaptureFixture[str]) -> None:
    def count(shard: int, group: str, count: str) -> None:
        graves.client.hset(graves.key("groups", shard), group, count)

    for shard in (0, 1):
        for _ in range(3):
            graves.bury(shard)
        count(shard, "a ValueError", f"2 {BORN} {BORN + 60_000}")
    count(0, "*", "1 1 1")

    lines, _ = run(capsys, "groups", QUEUE)

    assert lines[1].split() == [
        *("a", "ValueError", "4"),
        *("2023-11-14", "22:13:20+00:00", "2023-11-14", "22:14:20+00:00"),
    ]
    assert lines[2:] == [
        "1 more are of groups that are not counted apart",
        "1 more were not counted",
    ]
    document = json.loads("".join(run(capsys, "groups", QUEUE, "--json")[0]))
    assert [(group["kind"], group["count"]) for group in document["groups"]] == [("a", 4)]


def test_tombstones_are_told_of_and_left(
    graves: Graveyard, capsys: pytest.CaptureFixture[str]
) -> None:
    graves.entomb(1, "5-0", task_id="lost")
    graves.bury()

    lines, errors = run(capsys, "replay", QUEUE, "--all")
    assert (lines, errors) == (["1 replayed, 1 not"], ["lost not replayed: gone"])
    lines, _ = run(capsys, "list", QUEUE)
    assert lines[0].endswith("--entry-id 5-0 --shard 1")
    complaint, _, errors = failure(capsys, "replay", QUEUE, "lost", "--entry-id", "5-0")
    assert complaint == "1 dead letter(s) not replayed"
    complaint, _, errors = failure(capsys, "discard", QUEUE, "lost")
    assert errors == [
        f"{QUEUE!r} holds no dead letter 'lost'; a tombstone is named by its --entry-id"
    ]
    lines, _ = run(capsys, "discard", QUEUE, "--entry-id", "5-0", "--shard", "1")
    assert lines == ["5-0 discarded"]
    assert graves.left(1) == []


def test_discard_tells_of_each(graves: Graveyard, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = graves.bury(0), graves.bury(1)

    complaint, lines, errors = failure(capsys, "discard", QUEUE, one, "nobody", two)

    assert lines == [f"{one} discarded", f"{two} discarded"]
    assert len(errors) == 1
    assert complaint == "1 dead letter(s) not discarded"
    assert failure(capsys, "discard", QUEUE)[0] == "name a TASK_ID, or an --entry-id"


def test_show_of_an_unknown_letter(graves: Graveyard, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="holds no dead letter 'nobody'"):
        call_command("redq_dlq", "show", QUEUE, "nobody")


def test_purge_removes_what_is_asked_for(
    graves: Graveyard, capsys: pytest.CaptureFixture[str]
) -> None:
    for at in range(5):
        graves.bury(at % SHARDS, kind="ab"[at % 2])

    assert run(capsys, "purge", QUEUE, "--kind", "a", "--count", "2") == (["2 removed"], [])
    assert run(capsys, "purge", QUEUE, "--all") == (["3 removed"], [])


def test_long_work_shows_how_far_it_is(
    graves: Graveyard, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redq.management.output.Progress.EVERY", 1000)
    graves.bury_many(2100)

    assert run(capsys, "purge", QUEUE, "--all") == (
        ["2100 removed"],
        ["1,000 removed", "2,000 removed"],
    )


def test_a_signal_ends_long_work_after_the_step_it_is_in(
    graves: Graveyard, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 2)
    for _ in range(6):
        graves.bury()
    discard = steps.discard

    def interrupted(*arguments: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return discard(*arguments)

    monkeypatch.setattr(steps, "discard", interrupted)

    assert (
        failure(capsys, "purge", QUEUE, "--all")[0]
        == "stopped by SIGINT: 2 removed, the rest stays"
    )
    assert DeadLetterQueue(QUEUE).count() == 4


def test_who_reads_no_further_gets_no_traceback(redq: Redq, graves: Graveyard) -> None:
    for _ in range(20):
        graves.bury(payload="x" * 250_000)
    command = [sys.executable, "-m", "django", "redq_dlq", "list", QUEUE, "--json"]
    # Unbuffered, Python takes a write that was cut short for a whole one.
    environ = redq.environ(PYTHONUNBUFFERED="")

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # It writes 5 MB, more than a pipe holds, so it still writes when nobody reads any more.
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1

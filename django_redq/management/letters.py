"""Dead letters as a person reads them in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from django_redq.dead_letters import DeadGroups, DeadLetter, ReplayResult
from django_redq.management.output import as_json, one_line, printable, table


def name_of(letter: DeadLetter | ReplayResult) -> str:
    return one_line(letter.task_id, 256) or f"entry {letter.entry_id} of shard {letter.shard}"


def line_of(letter: DeadLetter) -> str:
    """The letter on one line; what has no payload bears the name by which it can be discarded."""
    at = letter.failed_at.isoformat(sep=" ", timespec="seconds")
    facts = [letter.reason or "-", f"kind {letter.kind}" if letter.kind else ""]
    facts.append(f"attempts {letter.attempts}")
    said = f"{letter.exception_type}: {letter.error}".removeprefix(": ")
    name = "" if letter.replayable else f"  --entry-id {letter.entry_id} --shard {letter.shard}"
    about = one_line(", ".join(filter(None, facts)))
    return f"{at}  {one_line(letter.task_id, 256) or '-'}  {about}  {one_line(said)}{name}"


def lines_of(letter: DeadLetter) -> Iterator[str]:
    """The letter whole."""
    task = letter.task
    rows = {
        "task ID": letter.task_id or "-",
        "queue": f"{letter.queue}, shard {letter.shard}, entry {letter.entry_id}",
        "reason": letter.reason,
        "kind": letter.kind or "-",
        "attempts": f"{letter.attempts}" + (f" of {task.max_attempts}" if task else ""),
        "died": letter.failed_at.isoformat(sep=" "),
        "enqueued": task.enqueued_at.isoformat(sep=" ") if task else "-",
        "idempotency key": (task.idempotency_key if task else "") or "-",
        "metadata": as_json(dict(task.metadata), readable=True) if task else "-",
        "replayable": "yes" if letter.replayable else "no: there is no payload",
        "payload": as_json(task.payload, readable=True) if task else "-",
        "error": f"{letter.exception_type}: {letter.error}".removeprefix(": "),
    }
    for name, value in rows.items():
        yield f"{name:>15}: {printable(value)}"
    if letter.traceback:
        yield printable(letter.traceback)


def lines_of_groups(found: DeadGroups) -> Iterator[str]:
    """Letters counted by what they have in common, the most frequent first."""
    yield from table(
        ("kind, exception", "letters", "first", "last"),
        [
            (
                one_line(f"{group.kind or '-'}  {group.exception_type or '-'}"),
                group.count,
                group.first_at.isoformat(sep=" ", timespec="seconds"),
                group.last_at.isoformat(sep=" ", timespec="seconds"),
            )
            for group in found.groups
        ],
    )
    if found.others:
        yield f"{found.others} more are of groups that are not counted apart"
    if found.uncounted:
        yield f"{found.uncounted} more were not counted"

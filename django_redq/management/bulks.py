"""``manage.py redq_dlq``'s bulk work: begun, watched, stopped."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from django_redq.dead_letters import Bulk, BulkAction, BulkState, DeadLetterQueue
from django_redq.management.dlq_arguments import filters_of
from django_redq.management.output import Progress, as_json, one_line, printable, table
from django_redq.management.serving import exit_at_once
from django_redq.service import os_signals

WATCH_INTERVAL = 1.0
"""Seconds between looks at one that goes on."""


def begin(
    letters: DeadLetterQueue, action: BulkAction, options: dict[str, Any], out: OutputWrapper
) -> None:
    """Leaves a replay or purge to the queue's schedulers."""
    if options["count"] is not None:
        raise CommandError("--background takes all that is asked for, and no --count")
    by, which = _operator(), filters_of(options)
    if action is BulkAction.REPLAY:
        due = {name: options[name] for name in ("run_at", "delay", "spread")}
        bulk = letters.start_replay(by=by, **due, **which)
    else:
        bulk = letters.start_discard(by=by, **which)
    if options["json"]:
        out.write(as_json(bulk))
        return
    out.write(f"bulk {bulk.action} {bulk.id} begun, about {_expected(bulk)} letter(s)")
    out.write(f"see how far it is: redq_dlq bulk show {letters.queue} {bulk.id} --watch")


def _operator() -> str:
    # In a container there may be no name for the user's number.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return ""


def run(
    letters: DeadLetterQueue, options: dict[str, Any], out: OutputWrapper, err: OutputWrapper
) -> None:
    """``redq_dlq bulk ...``."""
    if options["doing"] == "list":
        _list(letters.bulks(), options, out)
    elif options["doing"] == "stop":
        stopped = letters.stop_bulk(options["bulk_id"])
        _show(letters.bulk(options["bulk_id"]), options, out)
        if not stopped:
            err.write("it was over before")
    else:
        bulk = letters.bulk(options["bulk_id"])
        _show(_watched(letters, bulk, err) if options["watch"] else bulk, options, out)


def _list(bulks: tuple[Bulk, ...], options: dict[str, Any], out: OutputWrapper) -> None:
    if options["json"]:
        out.write(as_json(bulks))
        return
    for line in table(
        ("bulk", "action", "state", "changed", "of", "begun", "by"),
        [
            (
                bulk.id,
                bulk.action,
                bulk.state,
                bulk.changed,
                _expected(bulk),
                bulk.begun_at.isoformat(sep=" ", timespec="seconds"),
                one_line(bulk.by, 30),
            )
            for bulk in bulks
        ],
    ):
        out.write(line)


def _show(bulk: Bulk, options: dict[str, Any], out: OutputWrapper) -> None:
    out.write(as_json(bulk) if options["json"] else "\n".join(_lines(bulk)))


def _watched(letters: DeadLetterQueue, bulk: Bulk, err: OutputWrapper) -> Bulk:
    """As it is when it is over, or when somebody has seen enough."""
    signals: SimpleQueue[str] = SimpleQueue()
    shown = Progress(err, f"of {_expected(bulk)} {_done(bulk)}")
    with os_signals(signals.put, exit_at_once):
        if not bulk.is_over:
            err.write("it goes on, whether it is watched or not; Ctrl-C ends the watch")
        while not bulk.is_over:
            shown(bulk.changed)
            with suppress(Empty):
                signals.get(timeout=WATCH_INTERVAL)
                break
            bulk = letters.bulk(bulk.id)
    shown.close()
    return bulk


def _expected(bulk: Bulk) -> str:
    if bulk.expected is None:
        return "?"
    return str(bulk.expected) if bulk.expected_exact else f"at least {bulk.expected}"


def _done(bulk: Bulk) -> str:
    return "replayed" if bulk.action is BulkAction.REPLAY else "discarded"


def _lines(bulk: Bulk) -> Iterator[str]:
    rows = {
        "bulk": f"{bulk.action} {bulk.id}",
        "state": bulk.state.value,
        "which": as_json(dict(bulk.which), readable=True) if bulk.which else "all",
        "begun": bulk.begun_at.isoformat(sep=" ") + (f" by {bulk.by}" if bulk.by else ""),
        "ended": bulk.ended_at.isoformat(sep=" ") if bulk.ended_at else "-",
        "due": bulk.run_at.isoformat(sep=" ") if bulk.run_at else "at once",
        "spread": f"over {bulk.spread:g} s" if bulk.spread else "-",
        "expected": f"{_expected(bulk)} letter(s)",
        _done(bulk): str(bulk.changed),
        "without payload": str(bulk.missing),
        "of no task": str(bulk.gone),
        "looked at": str(bulk.looked_at),
        "shards done": f"{bulk.shards_done} of {bulk.shards}",
        "unreachable": ", ".join(map(str, bulk.unreachable)) or "-",
    }
    if bulk.action is BulkAction.DISCARD:
        for name in ("due", "spread", "without payload", "of no task"):
            del rows[name]
    if bulk.state is BulkState.WAITING:
        rows["state"] += ": no scheduler has begun with it"
    for name, value in rows.items():
        yield f"{name:>15}: {one_line(printable(value), 300)}"

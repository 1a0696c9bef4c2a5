"""Consumers as a person reads them in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django_redq.management.output import duration, one_line
from django_redq.queue_stats import SeenConsumer


def consumer_rows(consumers: Iterable[SeenConsumer]) -> list[tuple[object, ...]]:
    """A row of a table each: name, running, host, pid, version, when it was heard of."""
    return [
        (
            one_line(one.name),
            one.running,
            one_line(one.host) or "-",
            "-" if one.pid is None else one.pid,
            one_line(one.version) or "-",
            f"{duration(one.last_seen)} ago" + ("" if one.alive else ", not alive"),
        )
        for one in consumers
    ] or [("none", "", "", "", "", "")]


def tasks_of(consumers: Iterable[SeenConsumer]) -> Iterator[str]:
    """A line for each task that a consumer told of."""
    for one in consumers:
        for task in one.tasks:
            since = task.started_at.isoformat(sep=" ", timespec="seconds")
            kind = f"  kind {one_line(task.kind)}" if task.kind else ""
            yield f"{one_line(one.name)} runs {one_line(task.task_id)}{kind}  since {since}"

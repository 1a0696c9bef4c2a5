"""All queues at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from django_redq.admin.charts import Chart, sparkline
from django_redq.admin.pages import Admin, page, queue_url, render, url
from django_redq.admin.warnings import warnings_of
from django_redq.broker import faults
from django_redq.broker.patience import operator_broker
from django_redq.conf import get_config
from django_redq.errors import ConfigurationError
from django_redq.queue import Queue
from django_redq.queue_stats import QueueStats


@dataclass(frozen=True, slots=True)
class Row:
    """One queue of the list."""

    name: str
    stats: QueueStats | None
    """None where it cannot be read; ``warnings`` say why."""
    alive: int
    """Consumers of which something was heard lately."""
    warnings: list[str]
    spark: Chart | None
    links: dict[str, str]


@page("view")
def changelist(admin: Admin, request: HttpRequest) -> HttpResponse:
    """The queues: what is in them, who works on them, and what needs a person."""
    rows = [*_rows(admin)]
    return render(
        admin,
        request,
        "queues.html",
        title=_("Queues"),
        rows=rows,
        troubled=sum(bool(row.warnings) for row in rows),
        search=url(admin, "task"),
        dead=url(admin, "dead"),
        groups=url(admin, "groups"),
        bulks=url(admin, "bulks"),
    )


def _rows(admin: Admin) -> Iterator[Row]:
    answered = False
    for name in get_config().queues:
        links = links_of(admin, name)
        try:
            stats = Queue(name, broker=operator_broker()).stats(partial=True)
        except ConfigurationError as error:
            yield Row(name, None, 0, [str(error)], None, links)
        except faults.REDIS_ERRORS as error:
            if faults.is_outage(error) and not answered:
                raise
            yield Row(name, None, 0, [faults.in_words(error)], None, links)
        else:
            answered = True
            alive = sum(one.alive for one in stats.consumers)
            yield Row(name, stats, alive, warnings_of(stats), sparkline(stats.last_hour), links)


def links_of(admin: Admin, queue: str) -> dict[str, str]:
    """The pages of a queue."""
    return {
        "queue": queue_url(admin, queue),
        "history": queue_url(admin, queue, "history"),
        "dead": url(admin, "dead", {"queue": queue}),
        **{
            state: url(admin, "tasks", {"queue": queue, "state": state})
            for state in ("scheduled", "ready", "running")
        },
    }

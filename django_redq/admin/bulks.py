"""Bulk work: what was begun, how far it is, and stop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redq.admin import audit, results
from django_redq.admin.filters import LetterFilter, Text, in_words
from django_redq.admin.letters import crumbs, tabs
from django_redq.admin.pages import Admin, may, page, render, url
from django_redq.broker.patience import operator_broker
from django_redq.dead_letters import Bulk, BulkAction, BulkState, DeadLetterQueue
from django_redq.errors import BulkNotFound
from django_redq.queue import Queue

REFRESH = 3
"""Seconds between two looks at work that goes on."""
STATES: dict[str, Text] = {
    BulkState.WAITING: gettext_lazy("waiting"),
    BulkState.RUNNING: gettext_lazy("running"),
    BulkState.STOPPED: gettext_lazy("stopped"),
    BulkState.DONE: gettext_lazy("done"),
}
ACTIONS: dict[str, Text] = {
    BulkAction.REPLAY: gettext_lazy("Replay"),
    BulkAction.DISCARD: gettext_lazy("Discard"),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """Bulk work as the pages show it."""

    bulk: Bulk
    action: Text
    state: Text
    goes_on: bool
    choices: list[tuple[str, Text, Text]]
    """What it is about, in words."""
    result: str
    done: int
    """Letters dealt with."""
    total: int | None
    """Out of these; None where nobody knows."""
    left: float | None
    """Seconds that it will take, at its pace so far."""
    link: str


def shown(admin: Admin, bulk: Bulk) -> Shown:
    done = bulk.changed + bulk.gone + bulk.missing
    goes_on = not bulk.is_over
    total = max(bulk.expected, done) if bulk.expected is not None else None
    return Shown(
        bulk=bulk,
        action=ACTIONS[bulk.action],
        state=STATES[bulk.state],
        goes_on=goes_on,
        choices=[*in_words(bulk.which)],
        result=results.in_words(bulk.action, results.of_bulk(bulk)),
        done=done,
        total=total,
        left=_left(bulk.begun_at, done, total) if goes_on and bulk.expected_exact else None,
        link=url(admin, "bulk", {"queue": bulk.queue, "id": bulk.id}),
    )


def _left(begun_at: datetime, done: int, total: int | None) -> float | None:
    spent = (datetime.now(UTC) - begun_at).total_seconds()
    # Of a first handful nothing can be foretold.
    if total is None or done < 100 or spent < 1:
        return None
    return (total - done) * spent / done


@page("view")
def bulks(admin: Admin, request: HttpRequest) -> HttpResponse:
    """All that goes on, and what ended lately, newest first."""
    form = LetterFilter({"queue": request.GET.get("queue", "")})
    if not form.is_valid():
        return render(admin, request, "bulks.html", title=_("Bulk work"), form=form, status=400)
    chosen = form.chosen()
    found = [
        bulk
        for name in chosen.queues
        for bulk in DeadLetterQueue(name, broker=operator_broker()).bulks()
    ]
    found.sort(key=lambda bulk: bulk.begun_at, reverse=True)
    return render(
        admin,
        request,
        "bulks.html",
        title=_("Bulk work"),
        form=form,
        rows=[shown(admin, bulk) for bulk in found],
        **tabs(admin, chosen),
    )


@page("view")
def bulk(admin: Admin, request: HttpRequest) -> HttpResponse:
    """How far it is; looks again by itself while it goes on."""
    queue, bulk_id = request.GET.get("queue", ""), request.GET.get("id", "")
    try:
        found = DeadLetterQueue(queue, broker=operator_broker()).bulk(bulk_id)
    except BulkNotFound:
        return render(
            admin,
            request,
            "bulk_gone.html",
            title=_("No such bulk work"),
            crumbs=crumbs(admin),
            status=404,
            links={"bulks": url(admin, "bulks", {"queue": queue})},
        )
    seen = shown(admin, found)
    query = {"queue": queue, "id": bulk_id}
    return render(
        admin,
        request,
        "bulk.html",
        title=f"{seen.action}: {found.queue}",
        crumbs=crumbs(admin),
        seen=seen,
        bulk=found,
        unattended=seen.goes_on and not _attended(queue),
        refresh=REFRESH if seen.goes_on and request.GET.get("refresh") != "off" else None,
        may_stop=seen.goes_on and may(request, found.action),
        links={
            "bulks": url(admin, "bulks", {"queue": queue}),
            "stop": url(admin, "bulk_stop"),
            "dead": url(admin, "dead", {"queue": queue}),
            "hold": url(admin, "bulk", {**query, "refresh": "off"}),
            "follow": url(admin, "bulk", query),
        },
    )


def _attended(queue: str) -> bool:
    """Whether a scheduler is there to carry the work on."""
    return bool(Queue(queue, broker=operator_broker()).stats(partial=True).lease_holders)


@page("view", methods=("POST",))
def stop(admin: Admin, request: HttpRequest) -> HttpResponse:
    """Ends it where it is; what was done stays done."""
    name, bulk_id = request.POST.get("queue", ""), request.POST.get("id", "")
    queue = DeadLetterQueue(name, broker=operator_broker())
    back = HttpResponseRedirect(url(admin, "bulk", {"queue": name, "id": bulk_id}))
    try:
        found = queue.bulk(bulk_id)
    except BulkNotFound:
        return back
    if not may(request, found.action):
        raise PermissionDenied
    if queue.stop_bulk(bulk_id):
        audit.log(request, name, _("Stopped bulk work %s") % found.id)
        messages.success(request, _("It was stopped. What was done until then stays done."))
    else:
        messages.warning(request, _("It had ended already."))
    return back

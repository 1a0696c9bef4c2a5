"""Replay and discard: what a form asks for, and the page that asks whether it is meant.

What was ticked is done at once, for it is a page at most. All that match a filter is bulk work,
which the scheduler carries on. ``doing`` does both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redq.admin import doing
from django_redq.admin.filters import Chosen, LetterFilter, in_words
from django_redq.admin.letters import crumbs
from django_redq.admin.pages import Admin, may, page, render, url
from django_redq.admin.when import WhenForm
from django_redq.broker.patience import operator_broker
from django_redq.conf import LATEST_MS, get_config, to_epoch_ms
from django_redq.dead_letters import BulkAction, DeadLetterQueue, LetterRef
from django_redq.errors import InvalidArgument
from django_redq.task import new_task_id

MAX_SCAN = 5000
"""Letters that the question looks at to count those that match; beyond, it says "at least"."""


@page("view", methods=("GET", "POST"))
def deed(admin: Admin, request: HttpRequest) -> HttpResponse:
    """Asks whether it is meant, and on the answer does it."""
    if request.method != "POST":
        # A log-in on the way has swallowed the form.
        return HttpResponseRedirect(url(admin, "dead"))
    asked = _asked(request)
    if not may(request, asked.action):
        raise PermissionDenied
    if asked.selected and not asked.refs:
        messages.warning(request, _("Nothing was selected, so nothing was done."))
        return HttpResponseRedirect(url(admin, "dead", asked.chosen.query))
    confirmed = "confirmed" in request.POST
    form = WhenForm(request.POST if confirmed else None)
    if not confirmed or (asked.replays and not form.is_valid()):
        return _ask(admin, request, asked, form)
    return HttpResponseRedirect(doing.do(admin, request, asked, form))


def _asked(request: HttpRequest) -> doing.Deed:
    """What the form says.

    Raises:
        InvalidArgument: it is none of ours.
        UnknownQueue: nor is a queue that it names.
    """
    action, _dash, scope = request.POST.get("act", "").partition("-")
    form = LetterFilter(request.POST)
    if action not in set(BulkAction) or scope not in {"selected", "matching"}:
        raise InvalidArgument("act", _("This is none of the actions."))
    if not form.is_valid():
        raise InvalidArgument("filter", _("The filter is none that the list offers."))
    refs: dict[str, list[LetterRef]] = defaultdict(list)
    for value in request.POST.getlist("letter") if scope == "selected" else ():
        queue, _colon, ref = value.partition(":")
        refs[get_config().queue(queue).name].append(LetterRef.parse(ref))
    return doing.Deed(BulkAction(action), scope == "selected", refs, form.chosen())


# --- the question ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """What the question says of one queue."""

    queue: str
    count: int
    exact: bool
    """False: at least so many."""
    oldest: datetime | None
    newest: datetime | None


def _ask(admin: Admin, request: HttpRequest, asked: doing.Deed, form: WhenForm) -> HttpResponse:
    parts = [*(_of_refs(asked.refs) if asked.selected else _of_surveys(asked.chosen))]
    count, exact = sum(part.count for part in parts), all(part.exact for part in parts)
    return render(
        admin,
        request,
        "confirm.html",
        title=_title(asked, count, exact=exact),
        crumbs=crumbs(admin),
        status=400 if form.is_bound else 200,
        asked=asked,
        form=form,
        parts=parts,
        names=asked.names(),
        exact=exact,
        nothing=exact and not count,
        button=_button(asked, count, exact=exact),
        choices=[*in_words(asked.chosen.which)],
        hidden=[*_hidden(request, asked, parts)],
        back=url(admin, "dead", asked.chosen.query),
    )


def _title(asked: doing.Deed, count: int, *, exact: bool) -> str:
    if asked.replays:
        sure = ngettext("Replay %(n)s dead letter?", "Replay %(n)s dead letters?", count)
        unsure = ngettext(
            "Replay at least %(n)s dead letter?", "Replay at least %(n)s dead letters?", count
        )
    else:
        sure = ngettext("Discard %(n)s dead letter?", "Discard %(n)s dead letters?", count)
        unsure = ngettext(
            "Discard at least %(n)s dead letter?", "Discard at least %(n)s dead letters?", count
        )
    return (sure if exact else unsure) % {"n": number_format(count, force_grouping=True)}


def _button(asked: doing.Deed, count: int, *, exact: bool) -> str:
    if not exact:
        return _("Yes, replay them") if asked.replays else _("Yes, discard them")
    if asked.replays:
        said = ngettext("Replay %(n)s letter", "Replay %(n)s letters", count)
    else:
        said = ngettext("Discard %(n)s letter", "Discard %(n)s letters", count)
    return said % {"n": number_format(count, force_grouping=True)}


def _of_refs(by_queue: Mapping[str, list[LetterRef]]) -> Iterator[Part]:
    for queue, refs in sorted(by_queue.items()):
        died = sorted(map(_died, refs))
        yield Part(queue, len(refs), exact=True, oldest=died[0], newest=died[-1])


def _died(ref: LetterRef) -> datetime:
    """By the entry ID, which Redis' clock made at the death."""
    ms = int(ref.entry_id.partition("-")[0])
    return datetime.fromtimestamp(min(ms, LATEST_MS) / 1000, UTC)


def _of_surveys(chosen: Chosen) -> Iterator[Part]:
    for name in chosen.queues:
        queue = DeadLetterQueue(name, broker=operator_broker())
        found = queue.survey(max_scan=MAX_SCAN, partial=True, **chosen.which)
        if found.count or not found.exact:
            yield Part(name, found.count, found.exact, found.oldest, found.newest)


def _hidden(
    request: HttpRequest, asked: doing.Deed, parts: list[Part]
) -> Iterator[tuple[str, str]]:
    """What the answer has to carry, to mean the same letters and to be done once."""
    yield from asked.chosen.query.items()
    yield "act", request.POST["act"]
    yield "confirmed", "yes"
    if asked.selected:
        yield from (("letter", value) for value in request.POST.getlist("letter"))
        return
    yield "bulk_id", request.POST.get("bulk_id") or new_task_id()
    yield from (("part", part.queue) for part in parts)
    newest = [part.newest for part in parts if part.newest is not None]
    if newest and all(part.exact for part in parts):
        # What dies after the question was not in its number.
        yield "counted_until", str(to_epoch_ms(max(newest)))

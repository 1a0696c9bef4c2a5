"""The dead letters: the list with its filter, and what they died of, in groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from django_redq.admin.filters import (
    LABELS,
    REASONS,
    WITHOUT,
    Chosen,
    LetterFilter,
    Text,
    as_field,
    can_ask_for,
    in_words,
)
from django_redq.admin.pages import Admin, page, render, url
from django_redq.broker.patience import operator_broker
from django_redq.dead_letters import (
    DeadGroup,
    DeadGroups,
    DeadLetter,
    DeadLetterPage,
    DeadLetterQueue,
    browse,
)
from django_redq.errors import InvalidArgument

PAGE = 50
"""Letters on a page."""
MAX_SCAN = 5000
"""Letters that one request looks at for those that match: some 50 ms of Redis' time."""


@dataclass(frozen=True, slots=True)
class Row:
    """One letter of the list."""

    letter: DeadLetter
    value: str
    """Names the letter in the form."""
    link: str
    reason: Text


@dataclass(frozen=True, slots=True)
class Chip:
    """A choice of the filter, and the list without it."""

    label: Text
    value: Text
    link: str


def value_of(letter: DeadLetter) -> str:
    """What names the letter in a form; a queue's name has no colon."""
    return f"{letter.queue}:{letter.ref}"


def link_to(admin: Admin, letter: DeadLetter) -> str:
    """The letter's own page."""
    return url(
        admin,
        "letter",
        {
            "queue": letter.queue,
            "task": letter.task_id,
            "entry": letter.entry_id,
            "shard": str(letter.shard),
        },
    )


# --- the list ----------------------------------------------------------------------------------


@page("view")
def letters(admin: Admin, request: HttpRequest) -> HttpResponse:
    """The list: newest first, a page at a time."""
    form = LetterFilter(request.GET)
    found, chosen = None, None
    if form.is_valid():
        chosen = form.chosen()
        try:
            found = _find(request, chosen)
        except InvalidArgument as error:
            form.blame(error)
    context: dict[str, Any] = {
        "form": form,
        "found": found,
        "status": 400 if found is None else 200,
    }
    if chosen is not None and found is not None:
        context |= _listed(admin, request, chosen, found)
    return render(admin, request, "letters.html", title=_("Dead letters"), **context)


def _find(request: HttpRequest, chosen: Chosen) -> DeadLetterPage:
    return browse(
        chosen.queues,
        newest_first=not _oldest_first(request),
        after=request.GET.get("after") or None,
        count=PAGE,
        brief=True,
        max_scan=MAX_SCAN,
        partial=True,
        broker=operator_broker(),
        **chosen.which,
    )


def _oldest_first(request: HttpRequest) -> bool:
    return request.GET.get("order") == "oldest"


def _listed(
    admin: Admin, request: HttpRequest, chosen: Chosen, found: DeadLetterPage
) -> dict[str, Any]:
    """What the list shows beside the form."""
    order = {"order": "oldest"} if _oldest_first(request) else {}
    query = {**chosen.query, **order}
    return {
        "rows": [_row(admin, one) for one in found],
        "chips": [*_chips(admin, chosen, order)],
        "query": chosen.query,
        "oldest_first": bool(order),
        "total": None if found.unreachable else _count(chosen),
        "all_picked": request.GET.get("pick") == "page",
        "links": {
            "first": url(admin, "dead", query) if request.GET.get("after") else "",
            "next": url(admin, "dead", {**query, "after": found.cursor}) if found.cursor else "",
            "turn": url(admin, "dead", chosen.query if order else query | {"order": "oldest"}),
            "pick": url(admin, "dead", {**query, **_place(request), "pick": "page"}),
            "unpick": url(admin, "dead", {**query, **_place(request)}),
            "clear": url(admin, "dead", order),
            "act": url(admin, "dead_action"),
            "again": url(admin, "dead", {**query, **_place(request)}),
        },
        "times": [*_times(admin, chosen, order)],
        **tabs(admin, chosen),
    }


def _row(admin: Admin, one: DeadLetter) -> Row:
    return Row(one, value_of(one), link_to(admin, one), REASONS.get(one.reason, one.reason))


def _place(request: HttpRequest) -> dict[str, str]:
    after = request.GET.get("after")
    return {"after": after} if after else {}


def _chips(admin: Admin, chosen: Chosen, order: dict[str, str]) -> Iterator[Chip]:
    if "queue" in chosen.query:
        link = url(admin, "dead", chosen.without("queue") | order)
        yield Chip(LABELS["queue"], chosen.query["queue"], link)
    for name, label, value in in_words(chosen.which):
        yield Chip(label, value, url(admin, "dead", chosen.without(name) | order))


def _times(admin: Admin, chosen: Chosen, order: dict[str, str]) -> Iterator[Chip]:
    """Links to the deaths of the last hour, day and week."""
    rest = {key: value for key, value in chosen.query.items() if key not in {"since", "until"}}
    now = datetime.now(UTC)
    for label, past in (
        (_("last hour"), timedelta(hours=1)),
        (_("last 24 hours"), timedelta(days=1)),
        (_("last 7 days"), timedelta(days=7)),
    ):
        yield Chip(label, "", url(admin, "dead", {**rest, **order, "since": as_field(now - past)}))


def _count(chosen: Chosen) -> int | None:
    """How many letters match, where that is known without looking at them."""
    if not set(chosen.which) <= {"kind", "exception_type"} or len(chosen.which) == 1:
        return None
    surveys = [
        DeadLetterQueue(queue, broker=operator_broker()).survey(
            max_scan=1, partial=True, **chosen.which
        )
        for queue in chosen.queues
    ]
    return sum(one.count for one in surveys) if all(one.exact for one in surveys) else None


def tabs(admin: Admin, chosen: Chosen) -> dict[str, Any]:
    """The pages of all queues; those of dead letters keep the queue that was chosen."""
    queue = {"queue": chosen.query["queue"]} if "queue" in chosen.query else {}
    return {
        "queues_url": url(admin, "changelist"),
        "list_url": url(admin, "dead", queue),
        "groups_url": url(admin, "groups", queue),
        "bulks_url": url(admin, "bulks", queue),
    }


def crumbs(admin: Admin) -> list[tuple[str, str]]:
    """What lies between the queues and a page about dead letters."""
    return [(_("Dead letters"), url(admin, "dead"))]


# --- groups ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group, with the share of the largest that its bar has."""

    group: DeadGroup
    share: str
    """A number as SVG wants it, whatever the language."""
    link: str
    query: dict[str, str]
    """The filter that finds its letters, as a form's hidden fields; empty where none can."""


@page("view")
def groups(admin: Admin, request: HttpRequest) -> HttpResponse:
    """What the letters died of, the most frequent first."""
    form = LetterFilter({"queue": request.GET.get("queue", "")})
    if not form.is_valid():
        return render(
            admin, request, "groups.html", title=_("Dead letters by cause"), form=form, status=400
        )
    chosen = form.chosen()
    found = [
        DeadLetterQueue(queue, broker=operator_broker()).groups(partial=True)
        for queue in chosen.queues
    ]
    return render(
        admin,
        request,
        "groups.html",
        title=_("Dead letters by cause"),
        form=form,
        rows=_group_rows(admin, found),
        others=sum(one.others for one in found),
        uncounted=sum(one.uncounted for one in found),
        exact=all(one.exact for one in found),
        unreachable=any(one.unreachable for one in found),
        act_url=url(admin, "dead_action"),
        **tabs(admin, chosen),
    )


def _group_rows(admin: Admin, found: Iterable[DeadGroups]) -> list[GroupRow]:
    every = sorted((one for of in found for one in of.groups), key=lambda one: -one.count)
    most = every[0].count if every else 1
    return [_group_row(admin, one, most) for one in every]


def _group_row(admin: Admin, group: DeadGroup, most: int) -> GroupRow:
    share = f"{group.count / max(most, 1):.3f}"
    if not can_ask_for(group.kind, group.exception_type):
        return GroupRow(group, share, "", {})
    query = {
        "queue": group.queue,
        "kind": group.kind or WITHOUT,
        "exception_type": group.exception_type or WITHOUT,
    }
    return GroupRow(group, share, url(admin, "dead", query), query)

"""Does to dead letters what a person has confirmed, logs it, and says what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from django_redq.admin import audit, results
from django_redq.admin.filters import Chosen, in_words
from django_redq.admin.pages import Admin, url
from django_redq.admin.when import WhenForm
from django_redq.broker.patience import operator_broker
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS
from django_redq.dead_letters import Bulk, BulkAction, DeadLetterQueue, LetterRef
from django_redq.errors import RedqError


@dataclass(frozen=True, slots=True)
class Deed:
    """What a person wants done, and to which letters."""

    action: BulkAction
    selected: bool
    """To those that were ticked; else to all that match."""
    refs: Mapping[str, list[LetterRef]]
    """What was ticked, by queue."""
    chosen: Chosen
    """What matches; of what was ticked, the list where that was."""

    @property
    def replays(self) -> bool:
        return self.action == BulkAction.REPLAY

    def names(self, queue: str | None = None) -> list[str]:
        """What was ticked, by task ID where there is one; of one queue or of all."""
        found = [self.refs.get(queue, [])] if queue is not None else self.refs.values()
        return [ref.task_id or ref.entry_id for refs in found for ref in refs]


def do(admin: Admin, request: HttpRequest, asked: Deed, form: WhenForm) -> str:
    """Does it; the address to go on at."""
    when = form.arguments() if asked.replays else {}
    if asked.selected:
        _do_at_once(request, asked, when)
        return url(admin, "dead", asked.chosen.query)
    begun = [*filter(None, (_begin(request, asked, name, when) for name in _parts(request, asked)))]
    if len(begun) == 1:
        return url(admin, "bulk", {"queue": begun[0].queue, "id": begun[0].id})
    return url(admin, "bulks")


# --- what was ticked ---------------------------------------------------------------------------


def _do_at_once(request: HttpRequest, asked: Deed, when: Mapping[str, Any]) -> None:
    total = results.Counts()
    for name, refs in asked.refs.items():
        listed = ", ".join(asked.names(name))
        with audit.noted(request, name, listed):
            counts = _counts(name, refs, asked, when)
        audit.log(request, name, f"{results.in_words(asked.action, counts)}: {listed}")
        total += counts
    level = messages.SUCCESS if set(total) == {"changed"} else messages.WARNING
    messages.add_message(request, level, f"{results.in_words(asked.action, total)}.")


def _counts(
    name: str, refs: list[LetterRef], asked: Deed, when: Mapping[str, Any]
) -> results.Counts:
    queue = DeadLetterQueue(name, broker=operator_broker())
    if asked.replays:
        return results.of_replay(queue.replay_letters(refs, **when))
    return results.of_discard(len(refs), queue.discard_letters(refs))


# --- all that match ----------------------------------------------------------------------------


def _parts(request: HttpRequest, asked: Deed) -> list[str]:
    """The queues in which the question found something."""
    named = set(request.POST.getlist("part"))
    return [name for name in asked.chosen.queues if name in named]


def _begin(request: HttpRequest, asked: Deed, name: str, when: Mapping[str, Any]) -> Bulk | None:
    queue = DeadLetterQueue(name, broker=operator_broker())
    start = queue.start_replay if asked.replays else queue.start_discard
    try:
        bulk = start(
            bulk_id=request.POST.get("bulk_id"),
            by=request.user.get_username(),
            **when,
            **_which(request, asked.chosen),
        )
    except RedqError as error:
        messages.error(request, f"{name}: {error}")
        return None
    audit.log(request, name, _said(asked, bulk))
    return bulk


def _which(request: HttpRequest, chosen: Chosen) -> dict[str, Any]:
    """The filter, and nothing that died after it was counted."""
    which, counted = dict(chosen.which), request.POST.get("counted_until", "")
    if counted.isascii() and counted.isdigit() and len(counted) <= 15:
        until = from_ms(min(int(counted), LATEST_MS))
        which["until"] = min(which.get("until", until), until)
    return which


def _said(asked: Deed, bulk: Bulk) -> str:
    chosen = "; ".join(f"{label}: {value}" for _name, label, value in in_words(bulk.which))
    if asked.replays:
        said = _("Began to replay all dead letters that match: %(chosen)s. Bulk work %(id)s.")
    else:
        said = _("Began to discard all dead letters that match: %(chosen)s. Bulk work %(id)s.")
    return said % {"chosen": chosen or _("no filter"), "id": bulk.id}

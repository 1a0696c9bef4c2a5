"""One dead letter: all that is known of it, and its payload to be changed and replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redq.admin import audit, payloads
from django_redq.admin.filters import REASONS, Inert, Text, inert
from django_redq.admin.letters import crumbs, link_to, value_of
from django_redq.admin.pages import Admin, may, page, queue_url, render, url
from django_redq.admin.when import StartField
from django_redq.broker.patience import operator_broker
from django_redq.codec.records import from_ms
from django_redq.conf import LATEST_MS
from django_redq.dead_letters import DeadLetter, DeadLetterQueue
from django_redq.errors import DeadLetterNotFound, InvalidArgument
from django_redq.outcome import Failure
from django_redq.queue import Queue
from django_redq.task import TaskState

STATES: dict[TaskState, Text] = {
    TaskState.SCHEDULED: gettext_lazy("scheduled"),
    TaskState.READY: gettext_lazy("ready"),
    TaskState.RUNNING: gettext_lazy("running"),
    TaskState.DEAD: gettext_lazy("dead"),
}
LONGEST_SHOWN = 100_000
"""Characters of a payload on the page."""
LONGEST_EDITED = 1_000_000
"""Characters of a payload that can be edited: Django takes 2.5 MB of a form, if it is not told else."""


@page("view")
def letter(admin: Admin, request: HttpRequest) -> HttpResponse:
    """The letter, or where its task has gone."""
    try:
        found = _find(request)
    except DeadLetterNotFound as error:
        return _gone(admin, request, error)
    payload = None if found.task is None else payloads.pretty(found.task.payload)
    return render(
        admin,
        request,
        "letter.html",
        title=_("Dead letter"),
        crumbs=crumbs(admin),
        letter=found,
        value=value_of(found),
        task=found.task,
        reason=REASONS.get(found.reason, found.reason),
        payload=None if payload is None else payload[:LONGEST_SHOWN],
        cut=payload is not None and len(payload) > LONGEST_SHOWN,
        limit=LONGEST_SHOWN,
        size=len(payload or ""),
        timeline=[*_timeline(found)],
        links={
            "edit": _link(admin, "letter_edit", request) if _may_edit(request, found) else "",
            "dead": url(admin, "dead", {"queue": found.queue}),
            "queue": queue_url(admin, found.queue),
            "act": url(admin, "dead_action"),
        },
    )


def _find(request: HttpRequest) -> DeadLetter:
    """The letter that the address names.

    Raises:
        DeadLetterNotFound: it is not there, or not any more.
        InvalidArgument: the address is none of ours.
        UnknownQueue: nor is the queue.
    """
    given = request.GET
    shard = given.get("shard", "")
    return DeadLetterQueue(given.get("queue", ""), broker=operator_broker()).get(
        given.get("task", ""),
        entry_id=given.get("entry") or None,
        shard=int(shard) if shard.isascii() and shard.isdigit() and len(shard) < 5 else None,
    )


def _link(admin: Admin, name: str, request: HttpRequest) -> str:
    """Another page on the same letter."""
    return url(admin, name, {key: request.GET[key] for key in request.GET})


def _may_edit(request: HttpRequest, found: DeadLetter) -> bool:
    return found.replayable and found.task is not None and may(request, "replay")


def _gone(admin: Admin, request: HttpRequest, error: DeadLetterNotFound) -> HttpResponse:
    """Most often somebody else was faster; then it helps to know where the task is now."""
    task_id = request.GET.get("task", "")
    now = Queue(error.queue, broker=operator_broker()).get(task_id) if task_id else None
    return render(
        admin,
        request,
        "letter_gone.html",
        title=_("This dead letter is gone"),
        crumbs=crumbs(admin),
        status=404,
        queue=error.queue,
        task_id=task_id,
        now=STATES[now.state] if now is not None else "",
        typed=inert(request.POST.get("payload", "")),
        links={
            "dead": url(admin, "dead", {"queue": error.queue}),
            "task": url(admin, "task", {"queue": error.queue, "task": task_id}),
        },
    )


# --- the timeline ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """A moment in the life of the task."""

    at: datetime
    what: Text
    failure: Failure | None = None


def _timeline(found: DeadLetter) -> Iterator[Event]:
    """From first to last; each attempt is timed by the clock of where it ran."""
    task = found.task
    if task is not None:
        yield Event(task.enqueued_at, _("Enqueued"))
        if task.run_at > task.enqueued_at:
            yield Event(task.run_at, _("Due"))
    yield from failed(found.failures)
    yield Event(found.failed_at, _("Dead: %s") % REASONS.get(found.reason, _("for another reason")))


def failed(failures: Iterable[Failure]) -> Iterator[Event]:
    """The attempts that came to nothing."""
    for failure in failures:
        what = _("Attempt %(attempt)d failed") % {"attempt": failure.attempt}
        yield Event(from_ms(min(failure.at, LATEST_MS)), what, failure)


# --- edit and replay ---------------------------------------------------------------------------


class PayloadField(Inert, forms.CharField):
    """JSON, in lines."""

    widget = forms.Textarea(attrs={"rows": 20, "spellcheck": "false", "autocomplete": "off"})


class EditForm(forms.Form):
    """The payload as text, and when to run it."""

    use_required_attribute = False

    payload = PayloadField(label=gettext_lazy("Payload, as JSON"), strip=False)
    run_at = StartField()

    def clean_payload(self) -> Any:
        try:
            return payloads.parse(self.cleaned_data["payload"])
        except InvalidArgument as error:
            raise forms.ValidationError(error.reason) from None

    def blame(self, error: InvalidArgument) -> None:
        """Puts the error beside the field that it is about, with the path inside the payload."""
        name = error.field.partition(".")[0].partition("[")[0]
        about = error.reason if error.field == name else str(error)
        self.add_error(name if name in self.fields else None, about)


@page("view", "replay", methods=("GET", "POST"))
def edit(admin: Admin, request: HttpRequest) -> HttpResponse:
    """Changes the payload and replays the letter, in one step."""
    try:
        found = _find(request)
        before = payloads.pretty(found.task.payload) if found.task is not None else ""
        if not before or len(before) > LONGEST_EDITED:
            messages.error(request, _uneditable(before))
            return HttpResponseRedirect(_link(admin, "letter", request))
        form = EditForm(request.POST or None, initial={"payload": before})
        if form.is_valid() and _replay(request, found, form, before):
            return HttpResponseRedirect(url(admin, "dead", {"queue": found.queue}))
    except DeadLetterNotFound as error:
        return _gone(admin, request, error)
    return render(
        admin,
        request,
        "letter_edit.html",
        title=_("Edit and replay"),
        crumbs=crumbs(admin),
        status=400 if form.errors else 200,
        letter=found,
        form=form,
        links={"letter": link_to(admin, found)},
    )


def _uneditable(payload: str) -> str:
    if payload:
        return _("Its payload is too large to be edited here.")
    return _("It cannot be edited: there is no payload that decodes.")


def _replay(request: HttpRequest, found: DeadLetter, form: EditForm, before: str) -> bool:
    """As edited; False where the payload is refused, which the form says then."""
    queue = DeadLetterQueue(found.queue, broker=operator_broker())
    after = form.cleaned_data["payload"]
    try:
        queue.replay(
            found.task_id,
            entry_id=found.entry_id,
            run_at=form.cleaned_data["run_at"],
            payload=after,
        )
    except InvalidArgument as error:
        form.blame(error)
        return False
    said = _("Edited and replayed %s. Its payload was:") % found.task_id
    audit.log(request, found.queue, f"{said}\n{before}")
    messages.success(request, _("1 replayed, as edited."))
    return True

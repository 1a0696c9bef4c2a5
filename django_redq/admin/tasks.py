"""The tasks of a queue by state, one task, and what may be done to them."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_redq.admin import audit, payloads
from django_redq.admin.filters import Text
from django_redq.admin.letter import LONGEST_SHOWN, STATES, failed
from django_redq.admin.pages import Admin, may, page, queue_url, render, url
from django_redq.admin.queues import links_of
from django_redq.broker.patience import operator_broker
from django_redq.conf import get_config
from django_redq.errors import InvalidArgument
from django_redq.queue import Queue
from django_redq.task import TaskInfo, TaskState
from django_redq.templatetags.redq_admin import number, shown

PAGE = 50
"""Tasks on a page."""
TITLES: dict[TaskState, Text] = {
    TaskState.SCHEDULED: gettext_lazy("Scheduled tasks"),
    TaskState.READY: gettext_lazy("Ready tasks"),
    TaskState.RUNNING: gettext_lazy("Running tasks"),
}


@page("view")
def tasks(admin: Admin, request: HttpRequest) -> HttpResponse:
    """A page of the tasks in one state."""
    found = Queue(request.GET.get("queue", ""), broker=operator_broker())
    state = _state(request.GET.get("state", TaskState.SCHEDULED))
    listed = found.tasks(state, after=request.GET.get("after") or None, count=PAGE, partial=True)
    query = {"queue": found.name, "state": str(state)}
    picked = "pick" in request.GET
    return render(
        admin,
        request,
        "tasks.html",
        title=str(TITLES[state]),
        crumbs=[(found.name, queue_url(admin, found.name))],
        queue=found.name,
        state=str(state),
        found=listed,
        total=_total(found, state),
        picked=picked,
        may_act=may(request, "cancel") and state is not TaskState.RUNNING,
        links={
            **links_of(admin, found.name),
            "act": url(admin, "task_action"),
            "task": url(admin, "task", {"queue": found.name}),
            "first": url(admin, "tasks", query) if request.GET.get("after") else "",
            "next": url(admin, "tasks", {**query, "after": listed.cursor}) if listed.cursor else "",
            "pick": _pick(admin, request, query, picked=picked),
        },
        search=url(admin, "task"),
    )


def _state(text: str) -> TaskState:
    if text not in set(TITLES):
        raise InvalidArgument("state", _("There is no list of tasks in this state."))
    return TaskState(text)


def _total(queue: Queue, state: TaskState) -> int:
    return int(getattr(queue.stats(partial=True), state))


def _pick(admin: Admin, request: HttpRequest, query: dict[str, str], *, picked: bool) -> str:
    """The same page with everything ticked, or nothing: there is no script that could do it."""
    after = {"after": request.GET["after"]} if request.GET.get("after") else {}
    return url(admin, "tasks", {**query, **after, **({} if picked else {"pick": "all"})})


# --- one task ----------------------------------------------------------------------------------


@page("view")
def task(admin: Admin, request: HttpRequest) -> HttpResponse:
    """Where a task is, found by its ID in one queue or in all."""
    task_id = request.GET.get("task", "").strip()
    asked = request.GET.get("queue", "")
    names = [get_config().queue(asked).name] if asked else [*get_config().queues]
    found = _find(names, task_id) if task_id else []
    if len(found) != 1:
        return _several(admin, request, task_id, asked, found)
    [(queue, info)] = found
    if info.state is TaskState.DEAD:
        return HttpResponseRedirect(url(admin, "letter", {"queue": queue, "task": task_id}))
    return _shown(admin, request, queue, info)


def _find(names: Iterable[str], task_id: str) -> list[tuple[str, TaskInfo]]:
    asked = ((name, Queue(name, broker=operator_broker()).get(task_id)) for name in names)
    return [(name, info) for name, info in asked if info is not None]


def _several(
    admin: Admin,
    request: HttpRequest,
    task_id: str,
    queue: str,
    found: list[tuple[str, TaskInfo]],
) -> HttpResponse:
    """None, or the same ID in more than one queue."""
    return render(
        admin,
        request,
        "task_search.html",
        title=_("Find a task"),
        status=200 if found or not task_id else 404,
        task_id=task_id,
        queue=queue,
        search=url(admin, "task"),
        found=[
            (name, STATES[info.state], url(admin, "task", {"queue": name, "task": task_id}))
            for name, info in found
        ],
    )


def _shown(admin: Admin, request: HttpRequest, queue: str, info: TaskInfo) -> HttpResponse:
    payload = None if info.task is None else payloads.pretty(info.task.payload)
    waits = info.state in {TaskState.SCHEDULED, TaskState.READY}
    return render(
        admin,
        request,
        "task.html",
        title=_("Task"),
        crumbs=[(queue, queue_url(admin, queue))],
        info=info,
        task=info.task,
        state=STATES[info.state],
        attempts=[*failed(info.errors)],
        payload=None if payload is None else payload[:LONGEST_SHOWN],
        cut=payload is not None and len(payload) > LONGEST_SHOWN,
        limit=LONGEST_SHOWN,
        size=len(payload or ""),
        may_cancel=waits and may(request, "cancel"),
        may_run_now=info.state is TaskState.SCHEDULED and may(request, "cancel"),
        links={"queue": queue_url(admin, queue), "act": url(admin, "task_action")},
    )


# --- cancel, run now ---------------------------------------------------------------------------


@page("view", "cancel", methods=("POST",))
def act(admin: Admin, request: HttpRequest) -> HttpResponse:
    """Cancels tasks, once it was asked whether that is meant, or has scheduled ones run now."""
    found = Queue(request.POST.get("queue", ""), broker=operator_broker())
    state = _state(request.POST.get("state", TaskState.SCHEDULED))
    ids = [*dict.fromkeys(request.POST.getlist("task"))]
    back = url(admin, "tasks", {"queue": found.name, "state": str(state)})
    wanted = request.POST.get("act")
    if wanted not in {"cancel", "run-now"}:
        raise InvalidArgument("act", _("This is none of the actions."))
    if len(ids) > PAGE:
        raise PermissionDenied
    if not ids:
        messages.warning(request, _("Nothing was selected, so nothing was done."))
    elif wanted == "cancel" and "confirmed" not in request.POST:
        return _ask(admin, request, found.name, str(state), ids, back)
    else:
        cancel = wanted == "cancel"
        with audit.noted(request, found.name, ", ".join(shown(one, 256) for one in ids)):
            done = sum(map(found.cancel if cancel else found.run_now, ids))
        _tell(request, found.name, ids, done, cancel=cancel)
    return HttpResponseRedirect(back)


def _ask(
    admin: Admin, request: HttpRequest, queue: str, state: str, ids: list[str], back: str
) -> HttpResponse:
    title = ngettext("Cancel %(n)s task?", "Cancel %(n)s tasks?", len(ids))
    return render(
        admin,
        request,
        "cancel.html",
        title=title % {"n": number(len(ids))},
        crumbs=[(queue, queue_url(admin, queue)), (str(TITLES[TaskState(state)]), back)],
        queue=queue,
        state=state,
        ids=ids,
        back=back,
    )


def _tell(request: HttpRequest, queue: str, ids: list[str], done: int, *, cancel: bool) -> None:
    """Says what became of them, and writes it down where something did."""
    if cancel:
        said = ngettext("%(n)s task canceled", "%(n)s tasks canceled", done)
    else:
        said = ngettext("%(n)s task made ready", "%(n)s tasks made ready", done)
    parts = [said % {"n": number(done)}]
    if left := len(ids) - done:
        parts.append(
            ngettext(
                "%(n)s is running, done or gone by now",
                "%(n)s are running, done or gone by now",
                left,
            )
            % {"n": number(left)}
        )
    words = f"{', '.join(parts)}."
    if done:
        audit.log(request, queue, "\n".join([words, *(shown(one, 256) for one in ids)]))
    (messages.success if done == len(ids) else messages.warning)(request, words)

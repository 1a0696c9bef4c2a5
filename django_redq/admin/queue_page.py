"""One queue: its charts, consumers and shards; pause and resume; what people did to it."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.contenttypes.models import ContentType
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from django_redq.admin import audit, charts
from django_redq.admin.pages import Admin, page, queue_url, render, url
from django_redq.admin.queues import links_of
from django_redq.admin.warnings import warnings_of
from django_redq.broker.patience import operator_broker
from django_redq.conf import get_config
from django_redq.errors import InvalidArgument
from django_redq.models import Queue as QueueModel
from django_redq.queue import Queue
from django_redq.templatetags.redq_admin import short

LOG_PAGE = 50
"""Lines of the history on a page."""


@page("view")
def queue(admin: Admin, request: HttpRequest, object_id: str) -> HttpResponse:
    """How the queue is."""
    found = Queue(unquote(object_id), broker=operator_broker())
    span = "day" if request.GET.get("span") == "day" else "hour"
    stats = found.stats(partial=True)
    lately = stats.last_hour if span == "hour" else found.history(span, partial=True)
    words = _("the last hour") if span == "hour" else _("the last 24 hours")
    return render(
        admin,
        request,
        "queue.html",
        title=found.name,
        stats=stats,
        alive=sum(one.alive for one in stats.consumers),
        warnings=warnings_of(stats),
        span=span,
        charts=[
            charts.throughput(lately, words),
            charts.time_to_start(lately, words, short),
        ],
        links=links_of(admin, found.name),
        act=url(admin, "queue_action"),
        search=url(admin, "task"),
        task_link=url(admin, "task", {"queue": found.name}),
    )


@page("view", "pause", methods=("POST",))
def act(admin: Admin, request: HttpRequest) -> HttpResponse:
    """Pauses or resumes a queue: what it takes is one button, and the other undoes it."""
    found = Queue(request.POST.get("queue", ""), broker=operator_broker())
    wanted = request.POST.get("act")
    if wanted == "pause":
        change, done = found.pause, _("Paused.")
        said = _("%(queue)s is paused: consumers take nothing more from it.")
    elif wanted == "resume":
        change, done, said = found.resume, _("Resumed."), _("%(queue)s goes on.")
    else:
        raise InvalidArgument("act", _("This is none of the actions."))
    with audit.noted(request, found.name, done):
        changed = change()
    if changed:
        audit.log(request, found.name, done)
        messages.success(request, said % {"queue": found.name})
    else:
        messages.info(request, _("It was so already; nothing was changed."))
    return HttpResponseRedirect(queue_url(admin, found.name))


@page("view")
def history(admin: Admin, request: HttpRequest, object_id: str) -> HttpResponse:
    """What people did to this queue here."""
    name = get_config().queue(unquote(object_id)).name
    of_queues = ContentType.objects.get_for_model(QueueModel, for_concrete_model=False)
    entries = LogEntry.objects.filter(content_type=of_queues, object_id=name)
    pages = Paginator(entries.select_related("user").order_by("-action_time", "-pk"), LOG_PAGE)
    return render(
        admin,
        request,
        "history.html",
        title=_("History of %(queue)s") % {"queue": name},
        crumbs=[(name, queue_url(admin, name))],
        links=links_of(admin, name),
        found=pages.get_page(request.GET.get("page")),
    )

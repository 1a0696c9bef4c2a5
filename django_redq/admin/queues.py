"""The queues, and one queue."""

from __future__ import annotations

from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from django_redq.admin.pages import Admin, page, render
from django_redq.broker.patience import operator_broker
from django_redq.queue import Queue


@page("view")
def changelist(admin: Admin, request: HttpRequest) -> HttpResponse:
    return render(admin, request, "base.html", title=_("Queues"))


@page("view")
def queue(admin: Admin, request: HttpRequest, object_id: str) -> HttpResponse:
    found = Queue(unquote(object_id), broker=operator_broker())
    return render(admin, request, "base.html", title=found.name)


@page("view")
def task(admin: Admin, request: HttpRequest) -> HttpResponse:
    return render(admin, request, "base.html", title=_("Task"))

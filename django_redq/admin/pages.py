"""What every page shares: who may see it, how long it waits for Redis, and what it says in bad times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate

from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_redq.broker import faults
from django_redq.broker.patience import within
from django_redq.errors import ConfigurationError, RedqError, UnknownQueue
from django_redq.lines import get_logger

if TYPE_CHECKING:
    Admin = ModelAdmin[Any]
else:
    Admin = ModelAdmin

logger = get_logger("django_redq.admin")

PATIENCE = 4.0
"""Seconds that a page waits for Redis, so that it answers within 5 whatever Redis does."""
ACTIONS = ("view", "replay", "discard", "cancel", "pause")
"""What there are permissions for."""

View = Callable[Concatenate[Admin, HttpRequest, ...], HttpResponse]


def may(request: HttpRequest, action: str) -> bool:
    """Whether this person may do this: one of :data:`ACTIONS`."""
    return request.user.has_perm(f"django_redq.{action}_queue")


def page(*permissions: str, methods: Iterable[str] = ("GET",)) -> Callable[[View], View]:
    """Makes a view a page: permissions and methods checked, Redis not waited for too long, and
    what goes wrong told in the admin's frame.
    """
    allowed = {*methods} | ({"HEAD"} if "GET" in methods else set())

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def answer(admin: Admin, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method not in allowed:
                return HttpResponseNotAllowed(sorted(allowed))
            if not all(may(request, permission) for permission in permissions):
                raise PermissionDenied
            try:
                with within(PATIENCE):
                    return view(admin, request, *args, **kwargs)
            except UnknownQueue as error:
                return _fault(admin, request, _("No such queue"), str(error), status=404)
            except ConfigurationError as error:
                return _fault(admin, request, _("The settings are wrong"), str(error), status=503)
            except RedqError as error:
                return _fault(admin, request, _("This cannot be done"), str(error), status=400)
            except faults.REDIS_ERRORS as error:
                logger.warning("%s: %s", request.path, faults.in_words(error))
                return _outage(admin, request, error)

        return answer

    return decorate


def render(
    admin: Admin,
    request: HttpRequest,
    template: str,
    *,
    title: str,
    status: int = 200,
    crumbs: Iterable[tuple[str, str]] = (),
    **context: Any,
) -> TemplateResponse:
    """The page in the admin's frame.

    Args:
        admin: whose site it is.
        request: the request.
        template: its name below ``admin/django_redq/``.
        title: the heading, and the last of the breadcrumbs.
        status: of the answer.
        crumbs: (label, address) of what lies between the queues and this page.
        context: for the template.
    """
    request.current_app = admin.admin_site.name
    whole = {
        **admin.admin_site.each_context(request),
        **{f"can_{action}": may(request, action) for action in ACTIONS},
        "opts": admin.opts,
        "title": title,
        "crumbs": crumbs,
        **context,
    }
    return TemplateResponse(request, f"admin/django_redq/{template}", whole, status=status)


def url(admin: Admin, name: str, query: Mapping[str, str] | None = None) -> str:
    """The address of one of our pages on this site."""
    path = reverse(f"admin:django_redq_queue_{name}", current_app=admin.admin_site.name)
    return f"{path}?{urlencode(query)}" if query else path


def queue_url(admin: Admin, queue: str, name: str = "change") -> str:
    """The address of a queue's own page."""
    return reverse(
        f"admin:django_redq_queue_{name}",
        args=(quote(queue),),
        current_app=admin.admin_site.name,
    )


def _fault(
    admin: Admin, request: HttpRequest, title: str, why: str, *, status: int
) -> HttpResponse:
    return render(admin, request, "fault.html", title=title, status=status, why=why)


def _outage(admin: Admin, request: HttpRequest, error: Exception) -> HttpResponse:
    return render(
        admin,
        request,
        "fault.html",
        title=_("Redis does not answer"),
        status=503,
        why=faults.in_words(error),
        outage=True,
        unsure=request.method == "POST",
        again=request.get_full_path() if request.method != "POST" else "",
    )

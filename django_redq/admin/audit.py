"""Who did what, in the admin's own log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest
from django.utils.translation import gettext as _

from django_redq.models import Queue


@contextmanager
def noted(request: HttpRequest, queue: str, what: str) -> Iterator[None]:
    """Writes down what breaks off: part of it may be done, and that must not be missing."""
    try:
        yield
    except Exception:
        log(request, queue, _("Broke off, done in part or not at all: %s") % what)
        raise


def log(request: HttpRequest, queue: str, message: str) -> None:
    """Writes down what this person did to a queue; the first line says it, more may follow."""
    LogEntry.objects.create(
        user_id=cast("int", request.user.pk),
        content_type=ContentType.objects.get_for_model(Queue, for_concrete_model=False),
        object_id=queue,
        object_repr=queue,
        action_flag=CHANGE,
        change_message=message,
    )

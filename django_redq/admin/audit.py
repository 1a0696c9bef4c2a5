"""Who did what, in the admin's own log."""

from __future__ import annotations

from typing import cast

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest

from django_redq.models import Queue


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

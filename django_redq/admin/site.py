"""The queues' place in an admin site: who may see it, and the addresses of its pages."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path

from django_redq.admin import bulks, deeds, letter, letters, queue_page, queues, tasks
from django_redq.admin.pages import View, may
from django_redq.models import Queue


class QueueAdmin(ModelAdmin):  # type: ignore[type-arg]
    """Pages of our own under the admin's roof: there is no table, so nothing of its usual ones."""

    actions = None

    def get_urls(self) -> list[URLPattern]:
        def at(route: str, view: View, name: str) -> URLPattern:
            bound = self.admin_site.admin_view(partial(view, self))
            return path(route, bound, name=f"django_redq_queue_{name}")

        return [
            at("", queues.changelist, "changelist"),
            at("queue/action/", queue_page.act, "queue_action"),
            at("tasks/", tasks.tasks, "tasks"),
            at("task/", tasks.task, "task"),
            at("task/action/", tasks.act, "task_action"),
            at("dead/", letters.letters, "dead"),
            at("dead/causes/", letters.groups, "groups"),
            at("dead/letter/", letter.letter, "letter"),
            at("dead/letter/edit/", letter.edit, "letter_edit"),
            at("dead/action/", deeds.deed, "dead_action"),
            at("bulk/", bulks.bulks, "bulks"),
            at("bulk/work/", bulks.bulk, "bulk"),
            at("bulk/stop/", bulks.stop, "bulk_stop"),
            at("<path:object_id>/change/", queue_page.queue, "change"),
            at("<path:object_id>/history/", queue_page.history, "history"),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # The proxied table is that of the site's real content types.
        return Queue.objects.none()

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request, "view")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, "view")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

"""The queues in Django's admin; it is found by autodiscovery, and needs no table.

An AdminSite of your own calls :func:`register` with itself.
"""

from __future__ import annotations

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

if not apps.is_installed("django.contrib.admin"):
    raise ImproperlyConfigured(
        "django_redq.admin needs 'django.contrib.admin' in INSTALLED_APPS; "
        "everything else works without it"
    )

from django.contrib import admin

from django_redq.admin.site import QueueAdmin
from django_redq.models import Queue

__all__ = ["QueueAdmin", "register"]


def register(site: admin.AdminSite) -> None:
    """Shows the queues on this site."""
    site.register(Queue, QueueAdmin)


register(admin.site)

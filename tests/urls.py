"""The admin, where it is installed; tests that need other pages have a URL configuration of their
own.
"""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)] if apps.is_installed("django.contrib.admin") else []

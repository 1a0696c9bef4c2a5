"""No pages: tests that need some name a URL configuration of their own."""

from __future__ import annotations

urlpatterns: list[object] = []

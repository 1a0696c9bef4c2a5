"""The proxy that the admin's permissions hang on; makes no table.

Empty where ``django.contrib.contenttypes`` is not installed: there is nothing to be a proxy of,
and a dependency on its migrations would stop ``migrate``.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import migrations

_dependencies: list[tuple[str, str]] = []
_operations: list[Any] = []

if apps.is_installed("django.contrib.contenttypes"):
    from django.contrib.contenttypes.models import ContentTypeManager

    _dependencies = [("contenttypes", "0002_remove_content_type_name")]
    _operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": (
                    ("view_queue", "Can view queues and their tasks"),
                    ("replay_queue", "Can replay dead letters"),
                    ("discard_queue", "Can discard dead letters"),
                    ("cancel_queue", "Can cancel tasks"),
                    ("pause_queue", "Can pause and resume queues"),
                ),
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("contenttypes.contenttype",),
            managers=[("objects", ContentTypeManager())],
        ),
    ]


class Migration(migrations.Migration):
    initial = True
    dependencies = _dependencies
    operations = _operations

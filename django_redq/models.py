"""What the admin and its permissions hang on; no table.

A proxy of ContentType, so that neither ``migrate`` nor ``dumpdata`` needs a table for it. Without
``django.contrib.contenttypes`` there is none, and the app does without.
"""

from __future__ import annotations

from django.apps import apps
from django.utils.translation import gettext_lazy as _

if apps.is_installed("django.contrib.contenttypes"):
    from django.contrib.contenttypes.models import ContentType

    class Queue(ContentType):
        """The queues, as something that permissions can be given for."""

        class Meta:
            proxy = True
            default_permissions = ()
            permissions = (
                ("view_queue", "Can view queues and their tasks"),
                ("replay_queue", "Can replay dead letters"),
                ("discard_queue", "Can discard dead letters"),
                ("cancel_queue", "Can cancel tasks"),
                ("pause_queue", "Can pause and resume queues"),
            )
            verbose_name = _("queue")
            verbose_name_plural = _("queues")

"""The app: finds the handlers of the other apps, and has its settings checked."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _

from django_redq import registry
from django_redq.conf import get_config
from django_redq.errors import ConfigurationError


class RedqConfig(AppConfig):
    """Nothing here asks Redis: a project starts, and is checked, without it."""

    name = "django_redq"
    verbose_name = _("Task queues")

    def ready(self) -> None:
        # Only now: what the checks import may need the models of other apps.
        from django_redq import checks

        for check in checks.CHECKS:
            register(check, checks.TAG)
        try:
            config = get_config()
        except ConfigurationError:
            return  # told by the checks, all faults at once, and by the first call that needs it
        registry.autodiscover(config)

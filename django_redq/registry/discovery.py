"""Imports the handler modules of the installed apps."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

from django_redq.conf import Config
from django_redq.errors import ConfigurationError


def autodiscover(config: Config) -> None:
    """Imports each of ``HANDLER_MODULES`` that an installed app has; Django's own are not asked.

    Raises:
        ConfigurationError: one cannot be imported; it names app and module, the cause is chained.
    """
    for app in apps.get_app_configs():
        if _may_have_handlers(app):
            for name in config.handler_modules:
                _import(app, name)


def _may_have_handlers(app: AppConfig) -> bool:
    return not app.name.startswith("django.") and app.name != "django_redq"


def _import(app: AppConfig, name: str) -> None:
    if app.module is None or not module_has_submodule(app.module, name):
        return
    path = f"{app.name}.{name}"
    try:
        import_module(path)
    except Exception as error:
        raise ConfigurationError(
            f"app {app.label!r}: its handler module {path} cannot be imported "
            f"({type(error).__name__}: {error})"
        ) from error

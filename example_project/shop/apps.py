"""The shop as a Django app."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "shop"

    def ready(self) -> None:
        from shop import signals  # noqa: F401 - importing it connects the receivers

"""Tells the ledger who is there."""

import os

from django.apps import AppConfig

from soaking.ledger import Ledger


class WorkConfig(AppConfig):
    name = "soaking.work"
    label = "soaking_work"

    def ready(self) -> None:
        """In every process of a soak, so that its memory can be asked for."""
        Ledger.here().note("up", str(os.getpid()))

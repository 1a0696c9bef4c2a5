"""Waits for SIGTERM."""

from __future__ import annotations

from tests.integration.impostors.child import Impostor


class Command(Impostor):
    name = "scheduling"

"""Waits for SIGTERM, and needs Redis once more then."""

from __future__ import annotations

from tests.integration.impostors.child import Impostor


class Command(Impostor):
    name = "consuming"

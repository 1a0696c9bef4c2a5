"""Fixtures beside those of ``tests/conftest.py``."""

from __future__ import annotations

from tests.engine import engine, ledger, own_engine
from tests.integration.worlds import here

__all__ = ["engine", "here", "ledger", "own_engine"]

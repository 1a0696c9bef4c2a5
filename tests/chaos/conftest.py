"""Fixtures beside those of ``tests/conftest.py``."""

from __future__ import annotations

from tests.chaos.proxy import proxied
from tests.engine import engine, ledger, own_engine

__all__ = ["engine", "ledger", "own_engine", "proxied"]

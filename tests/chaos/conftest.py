"""Fixtures beside those of ``tests/conftest.py``."""

from __future__ import annotations

from tests.chaos.proxy import own_proxied, proxied
from tests.engine import engine, ledger, own_engine

__all__ = ["engine", "ledger", "own_engine", "own_proxied", "proxied"]

"""Fixtures beside those of ``tests/conftest.py``."""

from __future__ import annotations

from tests.engine import engine, own_engine

__all__ = ["engine", "own_engine"]

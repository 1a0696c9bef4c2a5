"""Fixtures beside those of ``tests/conftest.py``."""

from __future__ import annotations

from tests.chaos.proxy import losing, own_proxied, proxied
from tests.clusters import cluster, cluster_engine, watched, watched_engine
from tests.engine import engine, ledger, own_engine
from tests.integration.worlds import here

__all__ = [
    "cluster",
    "cluster_engine",
    "engine",
    "here",
    "ledger",
    "losing",
    "own_engine",
    "own_proxied",
    "proxied",
    "watched",
    "watched_engine",
]

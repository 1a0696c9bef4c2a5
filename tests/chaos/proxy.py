"""A wire between clients and a server that loses a reply, or falls silent, when it is told to."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Self

import pytest

from django_redq.broker import aio, sync
from django_redq.broker.calls import Call
from django_redq.broker.scripts import script, script_names
from django_redq.devserver import HOST
from tests.engine import Engine
from tests.harness import PATIENCE

_SHA = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")


class _Wire:
    """One connection of a client, and the one to the server that it is passed on by."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._loses_reply = threading.Event()
        self.is_dead = False
        self._tail = b""
        for pump in (self._ask, self._answer):
            threading.Thread(target=pump, daemon=True).start()

    def close(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _ask(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(65_536):
                self._proxy.wait_flowing()
                if self.is_dead:
                    continue
                # Cut off behind a line, so that a SHA in two parts is seen once.
                known, _, self._tail = (self._tail + data).rpartition(b"\r\n")
                if self._proxy.takes(known):
                    self._loses_reply.set()
                self._server.sendall(data)
        self.close()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(65_536):
                self._proxy.wait_flowing()
                if self.is_dead:
                    continue
                if not self._loses_reply.is_set():
                    self._client.sendall(data)
                elif self._proxy.loses():
                    break
        self.close()


class Proxy:
    """Listens on a port of its own and passes everything on to ``port``."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._listening = socket.create_server((HOST, 0))
        self._wires: list[_Wire] = []
        self._lock = threading.Lock()
        self._wanted: bytes | None = None
        self._is_lost = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._asked: Counter[str] = Counter()
        self._names = {script(name).sha.encode(): name for name in script_names()}
        self.closes = True
        """Whether a connection goes with the reply; else it is open, and says nothing any more."""
        self.connections = 0
        """How many it has taken."""
        self.lost = threading.Semaphore(0)
        """Released at each reply that was lost."""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for wire in self._wires:
            wire.close()
        self._flowing.set()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listening.getsockname()[1]}/0"

    @property
    def asked(self) -> Counter[str]:
        """How often each script was asked for by its SHA."""
        with self._lock:
            return self._asked.copy()

    def lose_reply_of(self, name: str) -> None:
        """Loses the reply of the next call of this script."""
        with self._lock:
            self._wanted, self._is_lost = script(name).sha.encode(), False

    def wait_lost(self) -> None:
        """Waits until that has happened."""
        assert self.lost.acquire(timeout=PATIENCE)

    def silence(self) -> None:
        """Passes nothing on and closes nothing, new connections included, until :meth:`speak`."""
        self._flowing.clear()

    def speak(self) -> None:
        """Passes on what was held back, and what comes."""
        self._flowing.set()

    @property
    def has_lost(self) -> bool:
        """Whether it has lost a reply, and all that it was told to."""
        return self._is_lost and self._wanted is None

    def forget_all(self) -> None:
        """Never passes on anything by the connections that there are, and closes none of them."""
        for wire in self._wires:
            wire.is_dead = True

    def wait_flowing(self) -> None:
        self._flowing.wait()

    def takes(self, data: bytes) -> bool:
        """Whether this request is the one whose reply is to be lost."""
        found = _SHA.findall(data)
        with self._lock:
            self._asked.update(self._names[sha] for sha in found if sha in self._names)
            if self._wanted not in found:
                return False
            self._wanted = None
            return True

    def loses(self) -> bool:
        """Notes a reply that the server gave and the client will never see; whether that is all."""
        if not self._is_lost:
            self._is_lost = True
            self.lost.release()
        return self.closes

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                try:
                    server = socket.create_connection((HOST, self.target))
                except OSError:
                    client.close()
                    continue
                self._wires.append(_Wire(self, client, server))


def through_proxy(engine: Engine) -> Iterator[Proxy]:
    """Has the engine reach its server by a proxy; the test's own client goes straight there."""
    for name in script_names():
        # Known to the server, so that the reply that is lost is not NOSCRIPT.
        engine.client.script_load(script(name).source)
    with Proxy(engine.redq.server.port) as proxy:
        engine.through(proxy.url)
        yield proxy


@pytest.fixture
def proxied(engine: Engine) -> Iterator[Proxy]:
    """A proxy before the shared server."""
    yield from through_proxy(engine)


@pytest.fixture(params=["closed", pytest.param("swallowed", marks=pytest.mark.long)])
def losing(
    engine: Engine, proxied: Proxy, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    """A proxy that loses replies, with the connection or without, and lets nobody send again in secret."""
    proxied.closes = request.param == "closed"
    engine.through(proxied.url, socket_timeout=0.5)
    sent: Counter[str] = Counter()
    build = sync.command_of

    def command_of(call: Call[Any]) -> tuple[Any, ...]:
        sent[call.script] += 1
        return build(call)

    monkeypatch.setattr(sync, "command_of", command_of)
    monkeypatch.setattr(aio, "command_of", command_of)
    yield proxied
    arrived = proxied.asked
    # What could not connect was sent, and did not arrive.
    assert {name: n for name, n in arrived.items() if n > sent[name]} == {}
    assert proxied.has_lost


@pytest.fixture
def own_proxied(own_engine: Engine) -> Iterator[Proxy]:
    """A proxy before a server of the test's own."""
    yield from through_proxy(own_engine)

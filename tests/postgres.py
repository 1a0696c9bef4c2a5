"""A real PostgreSQL for one module of tests: fixture ``postgres``."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_redq.devserver import HOST, free_port
from django_redq.keeper import Kept
from tests.harness import until

USER = "redq"
ONLOOKER = "the test itself"


def find_programs() -> Path | None:
    """The directory of the newest ``postgres`` there is; Debian has it beside the PATH."""
    on_path = shutil.which("postgres")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return Path(on_path).resolve().parent if on_path else found[-1].parent if found else None


class Postgres:
    """One server with a directory of its own, which goes with it.

    Args:
        programs: where ``initdb`` and ``postgres`` are.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.port = free_port()
        self._home = Path(tempfile.mkdtemp(prefix="django-redq-postgres-"))
        self._server: Kept | None = None
        # It refuses to run as root.
        self._as: list[str] = []
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._home, nobody.pw_uid, nobody.pw_gid)
            self._as = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}"]
            self._as += ["--clear-groups", "--"]
        initdb = [*self._as, str(programs / "initdb"), "-D", str(self._data), "-U", USER]
        subprocess.run(
            [*initdb, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            check=True,
            capture_output=True,
            cwd=self._home,
        )

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def settings(self) -> dict[str, Any]:
        """Of ``DATABASES``."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": USER,
            "HOST": HOST,
            "PORT": self.port,
        }

    def start(self) -> None:
        """Starts it and waits until it answers."""
        options = {"port": self.port, "listen_addresses": HOST, "unix_socket_directories": ""}
        options |= {"fsync": "off", "max_connections": 30}
        lines = [f"{name}={value}" for name, value in options.items()]
        settings = [word for line in lines for word in ("-c", line)]
        command = [*self._as, str(self._programs / "postgres"), "-D", str(self._data), *settings]
        with (self._home / "log").open("ab") as log:
            self._server = Kept(command, output=log, cwd=self._home)
        until(self._answers)

    def _answers(self) -> bool:
        import psycopg

        try:
            return bool(self.ask("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def stop(self) -> None:
        """Ends it at once, as a crash would, its connections cut."""
        if self._server is not None:
            self._server.signal(signal.SIGQUIT)
            self._server.wait(30)
            self._server.close()
            self._server = None

    def remove(self) -> None:
        """Ends it for good."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def ask(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Runs a query over a connection that nobody else uses."""
        import psycopg

        with psycopg.connect(
            host=HOST,
            port=self.port,
            user=USER,
            dbname="postgres",
            application_name=ONLOOKER,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(query, arguments)
            return cursor.fetchall() if cursor.description else []

    def sessions(self) -> list[int]:
        """The process IDs of its clients' sessions but those that ask here."""
        query = (
            "SELECT pid FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND application_name <> %s"
        )
        return [pid for (pid,) in self.ask(query, ONLOOKER)]

    def cut(self) -> int:
        """Ends every session from the server's side; how many."""
        cut = [pid for pid in self.sessions() if self.ask("SELECT pg_terminate_backend(%s)", pid)]
        until(lambda: not set(cut) & set(self.sessions()))
        return len(cut)


@pytest.fixture(scope="module")
def running_postgres() -> Iterator[Postgres]:
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server; on Debian: apt install postgresql")
    pytest.importorskip("psycopg", reason="psycopg is not installed; pip install 'psycopg[binary]'")
    made = Postgres(programs)
    made.start()
    yield made
    made.remove()


@pytest.fixture
def postgres(running_postgres: Postgres) -> Iterator[Postgres]:
    """A server that answers, with one empty table, ``note``."""
    running_postgres.ask("CREATE TABLE note (text text)")
    yield running_postgres
    running_postgres.ask("DROP TABLE note")

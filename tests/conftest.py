"""Fixtures on real servers; ``pytest --fixtures tests`` lists them.

Ask for ``redq`` and the test has a running Valkey, a namespace of its own, and settings that point
there (see :class:`tests.harness.Redq`):

    def test_something(redq):
        redq.configure(queues={"email": {"SHARDS": 2}})         # QUEUES of this test
        enqueue("email", {"to": "a@example.org"})               # goes to the real server
        assert redq.keys() == [redq.key("email", 0, "entry"), ...]
        assert redq.world()["{email:0}:stream"] == [...]        # every key, with what it holds
        redq.client.xadd(...)                                   # a plain redis-py client
        shown = redq.manage("redq_stats", "--json")             # a command as a process, to its end
        consumer = redq.spawn("redq_consume", "email", apps=("tests.integration.shop",))
        consumer.wait_for("consuming")                          # a line of its output
        assert consumer.terminate() == 0

* ``@pytest.mark.every_server`` runs the test once on each flavour: Valkey, the installed Redis,
  and Redis 6.2. One that is not here is skipped with the reason.
* ``@pytest.mark.every_setup`` runs it once more on a Cluster, and under Sentinels by make chaos; ``pytest --setup
  cluster`` has every test that asks for ``redq`` run there.
* ``own_server(**options)`` starts a server for this test alone, to be killed, restarted or paused
  (see :class:`django_redq.devserver.DevServer`); ``own_redq`` is ``redq`` on such a server, with
  an append-only file, so that ``own_redq.server.restart()`` keeps the data.
* Add pytest-django's ``db`` or ``transactional_db`` where the test needs the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from django_redq.devserver import DevServer
from tests.clusters import OnCluster, OnSentinels
from tests.harness import Redq
from tests.servers import FLAVOURS, Servers, report

SETUPS = ("server", "sentinels", "cluster")
_SERVERS = pytest.StashKey[Servers]()
_FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SERVERS] = Servers()
    config.stash[_FIGURES] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--setup",
        choices=SETUPS,
        default="server",
        help="what the tests that ask for redq run on: one server, Sentinels, or a Cluster",
    )


def pytest_report_header() -> list[str]:
    return report()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say it at the end, too, where those look who did not watch."""
    if config.stash[_FIGURES]:
        terminalreporter.section("figures")
        for line in config.stash[_FIGURES]:
            terminalreporter.line(line)
    used = config.stash[_SERVERS].started()
    terminalreporter.section("servers used")
    for line, name in zip(report(), FLAVOURS, strict=True):
        note = "used" if name in used else "not used by the tests that ran"
        terminalreporter.line(f"{line}: {note}" if FLAVOURS[name].binary else line)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SERVERS in config.stash:
        config.stash[_SERVERS].stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    wanted = {mark.name for mark in metafunc.definition.iter_markers()}
    servers = list(FLAVOURS) if "every_server" in wanted else ["valkey"]
    if "every_setup" in wanted and "setup" in metafunc.fixturenames:
        # Not each server in each setup. A client that Sentinels lead differs in whom it connects to only.
        pairs = [*(("server", one) for one in servers), ("cluster", "valkey")]
        pairs.append(pytest.param("sentinels", "valkey", marks=pytest.mark.long))
        metafunc.parametrize(("setup", "server"), pairs, indirect=True)
    elif "every_server" in wanted and "server" in metafunc.fixturenames:
        metafunc.parametrize("server", servers, indirect=True)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Has what a test measured printed at the end, for people: no test is about it."""

    def note(what: str) -> None:
        request.config.stash[_FIGURES].append(f"{request.node.name}: {what}")

    return note


@pytest.fixture
def server(request: pytest.FixtureRequest) -> DevServer:
    """A running server that all tests share: do not stop, flush or reconfigure it."""
    flavour = FLAVOURS[getattr(request, "param", "valkey")]
    if flavour.binary is None:
        pytest.skip(f"no server {flavour.name!r}: {flavour.about}")
    return request.config.stash[_SERVERS].shared(flavour.name)


@pytest.fixture
def redis_url(server: DevServer) -> str:
    """Where the shared server is, database 0."""
    return server.url


@pytest.fixture
def setup(request: pytest.FixtureRequest) -> str:
    """How Redis is set up: ``server``, or under ``every_setup`` ``sentinels`` and ``cluster``, too."""
    return str(getattr(request, "param", request.config.getoption("--setup")))


@pytest.fixture
def redq(request: pytest.FixtureRequest, setup: str, server: DevServer) -> Iterator[Redq]:
    """The test's own namespace on the shared server, and settings that point there."""
    servers = request.config.stash[_SERVERS]
    corner = {
        "server": lambda: Redq(server),
        "sentinels": lambda: OnSentinels(servers.watched),
        "cluster": lambda: OnCluster(servers.cluster),
    }[setup]()
    yield corner
    corner.close()


@pytest.fixture
def own_server() -> Iterator[Callable[..., DevServer]]:
    """Starts servers for this test alone: ``own_server(append_only=True, options={...})``."""
    with ExitStack() as stack:

        def start(**options: Any) -> DevServer:
            return stack.enter_context(DevServer(**options))

        yield start


@pytest.fixture
def own_redq(own_server: Callable[..., DevServer]) -> Iterator[Redq]:
    """``redq`` on a server of its own, which may be killed, restarted and paused."""
    corner = Redq(own_server(append_only=True))
    yield corner
    corner.close()

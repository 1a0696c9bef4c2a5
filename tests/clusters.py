"""Real Clusters and Sentinels, started for one test: fixtures ``cluster`` and ``watched``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from django_redq.devserver import HOST, DevServer, find_binary
from tests.engine import Engine, engine_on
from tests.harness import Redq, connect, until

SLOTS = 16384
NODE_TIMEOUT_MS = 2000
"""After which the others call a node failed."""


class Cluster:
    """Some masters, each with an equal share of the slots, and for each as many replicas.

    Args:
        masters: how many.
        replicas: how many each has.
    """

    def __init__(self, masters: int = 3, replicas: int = 1) -> None:
        self.masters = masters
        self.nodes: list[DevServer] = []
        """The masters first, then a replica of each, and so on."""
        self._stack = ExitStack()
        try:
            self._start(masters, replicas)
        except BaseException:
            self.stop()
            raise

    @property
    def addresses(self) -> list[str]:
        return [f"{HOST}:{node.port}" for node in self.nodes]

    @property
    def connection(self) -> dict[str, Any]:
        """``REDQ["CONNECTION"]``; a test need not wait for redis-py's five seconds."""
        return {"CLUSTER": self.addresses, "OPTIONS": {"socket_timeout": 1}}

    def client_of(self, node: DevServer) -> Any:
        """A plain client of one node."""
        return self._stack.enter_context(connect(node.url))

    def owner_of(self, key: str) -> DevServer:
        """The node that serves a key, as those that live see it."""
        for asked in self.nodes:
            if asked.is_running:
                slot = self.client_of(asked).execute_command("CLUSTER", "KEYSLOT", key)
                for first, last, master, *_ in self.client_of(asked).execute_command(
                    "CLUSTER", "SLOTS"
                ):
                    if first <= slot <= last:
                        return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"nobody serves {key}")

    def move_slot(self, key: str, source: DevServer, target: DevServer) -> None:
        """Gives the slot of a key, with all that is in it, to another master, key by key."""
        leaves, takes = self.client_of(source), self.client_of(target)
        slot = leaves.execute_command("CLUSTER", "KEYSLOT", key)
        takes.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        leaves.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        while keys := leaves.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1):
            leaves.execute_command("MIGRATE", HOST, target.port, keys[0], 0, 5000)
        for client in (takes, leaves):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def id_of(self, node: DevServer) -> str:
        """Its name among the nodes."""
        return str(self.client_of(node).execute_command("CLUSTER", "MYID").decode())

    def stop(self) -> None:
        """Ends all nodes."""
        self._stack.close()
        for node in self.nodes:
            node.stop()

    def _start(self, masters: int, replicas: int) -> None:
        options = {
            "cluster-enabled": "yes",
            "cluster-require-full-coverage": "no",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "cluster-replica-validity-factor": "0",
            "repl-diskless-sync-delay": "0",
        }
        for _ in range(masters * (1 + replicas)):
            node = DevServer(options=options)
            self.nodes.append(node)
            node.start()
        clients = [self.client_of(node) for node in self.nodes]
        for at, client in enumerate(clients):
            if at < masters:
                first, last = at * SLOTS // masters, (at + 1) * SLOTS // masters - 1
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            client.execute_command("CLUSTER", "MEET", HOST, self.nodes[0].port)
        for client in clients:
            until(lambda one=client: self._is_whole(one))
        for at, client in enumerate(clients[masters:]):
            client.execute_command("CLUSTER", "REPLICATE", self.id_of(self.nodes[at % masters]))
        for at, client in enumerate(clients[masters:]):
            until(lambda one=client: one.info("replication")["master_link_status"] == "up")
            master = self.nodes[at % masters].port
            for one in clients:
                # All know whom it follows, or they would not let it take over.
                until(lambda one=one, master=master: self._replicas(one, master) == replicas)

    def _is_whole(self, client: Any) -> bool:
        info = client.execute_command("CLUSTER", "INFO")
        known = f"cluster_known_nodes:{len(self.nodes)}".encode()
        return all(one in info for one in (b"cluster_state:ok", known, b"cluster_slots_ok:16384"))

    def _replicas(self, client: Any, master: int) -> int:
        slots = client.execute_command("CLUSTER", "SLOTS")
        return next(len(row) - 3 for row in slots if row[2][1] == master)


class OnCluster(Redq):
    """A test's corner of a Cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(cluster.nodes[0])

    @property
    def client(self) -> Any:
        if self._client is None:
            self._client = redis.RedisCluster.from_url(
                self.url, protocol=2, require_full_coverage=False
            )
        return self._client

    def configure(self, *, queues: dict[str, Any] | None = None, **redq: Any) -> None:
        super().configure(queues=queues, **{"CONNECTION": self.cluster.connection, **redq})

    @property
    def servers(self) -> list[DevServer]:
        return self.cluster.nodes


def start_sentinel(folder: Path, watches: str, **options: str) -> DevServer:
    """A running Sentinel.

    Args:
        folder: where its binary gets the name by which it knows what it is.
        watches: what follows ``sentinel monitor``: name, host, port, and how many have to agree.
        options: further lines of its configuration.
    """
    binary = folder / "valkey-sentinel"
    if not binary.exists():
        binary.symlink_to(find_binary())
    sentinel = DevServer(binary=binary, options={"sentinel monitor": watches, **options})
    sentinel.start()
    return sentinel


class Watched:
    """A master, a replica of it, and three Sentinels that watch over them."""

    SERVICE = "redq"

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._folder = folder
        self.servers = [DevServer(append_only=True) for _ in range(2)]
        self.sentinels: list[DevServer] = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def connection(self) -> dict[str, Any]:
        """``REDQ["CONNECTION"]``."""
        addresses = [f"{HOST}:{sentinel.port}" for sentinel in self.sentinels]
        return {
            "SENTINELS": addresses,
            "SERVICE": self.SERVICE,
            "OPTIONS": {"socket_timeout": 1},
        }

    @property
    def master(self) -> DevServer:
        """Whom the Sentinels call the master."""
        for sentinel in self.sentinels:
            if sentinel.is_running:
                client = self._stack.enter_context(connect(sentinel.url))
                _, port = client.execute_command(
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.SERVICE
                )
                return next(one for one in self.servers if one.port == int(port))
        raise AssertionError("no Sentinel lives")

    def fail_over(self) -> None:
        """Has the Sentinels change the master, which lives on as a replica."""
        client = self._stack.enter_context(connect(self.sentinels[0].url))
        client.execute_command("SENTINEL", "FAILOVER", self.SERVICE)

    def role_of(self, server: DevServer) -> bytes:
        """``master`` or ``slave``, as it sees itself."""
        client = self._stack.enter_context(connect(server.url))
        return bytes(client.execute_command("ROLE")[0])

    def stop(self) -> None:
        """Ends all of them."""
        self._stack.close()
        for one in (*self.sentinels, *self.servers):
            one.stop()

    def _start(self) -> None:
        for one in self.servers:
            one.start()
        master, replica = (self._stack.enter_context(connect(one.url)) for one in self.servers)
        replica.execute_command("REPLICAOF", HOST, self.servers[0].port)
        until(lambda: replica.info("replication")["master_link_status"] == "up")
        until(lambda: master.info("replication")["connected_slaves"] == 1)
        for _ in range(3):
            self.sentinels.append(self._sentinel())
        for sentinel in self.sentinels:
            client = self._stack.enter_context(connect(sentinel.url))
            until(lambda one=client: self._knows_all(one))

    def _sentinel(self) -> DevServer:
        name = self.SERVICE
        return start_sentinel(
            self._folder,
            f"{name} {HOST} {self.servers[0].port} 2",
            **{
                "sentinel down-after-milliseconds": f"{name} {NODE_TIMEOUT_MS}",
                "sentinel failover-timeout": f"{name} 10000",
            },
        )

    def _knows_all(self, sentinel: Any) -> bool:
        state = sentinel.execute_command("SENTINEL", "MASTER", self.SERVICE)
        pairs = (
            dict(zip(state[::2], state[1::2], strict=True)) if isinstance(state, list) else state
        )
        wanted = {b"num-slaves": b"1", b"num-other-sentinels": b"2"}
        return all(pairs.get(key) == value for key, value in wanted.items())


class OnSentinels(Redq):
    """A test's corner of a server that Sentinels watch; its own client follows the master, too."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        super().__init__(watched.servers[0])

    @property
    def client(self) -> redis.Redis:
        if self._client is None:
            sentinels = [(HOST, one.port) for one in self.watched.sentinels]
            self._client = redis.Sentinel(sentinels).master_for(self.watched.SERVICE, protocol=2)
        return self._client

    def configure(self, *, queues: dict[str, Any] | None = None, **redq: Any) -> None:
        super().configure(queues=queues, **{"CONNECTION": self.watched.connection, **redq})

    @property
    def servers(self) -> list[DevServer]:
        return self.watched.servers


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three masters and a replica of each, for this test alone."""
    made = Cluster()
    yield made
    made.stop()


@pytest.fixture
def cluster_engine(cluster: Cluster) -> Iterator[Engine]:
    """``engine`` on that Cluster, with eight shards."""
    corner = OnCluster(cluster)
    with engine_on(corner) as made:
        made.configure(SHARDS=8)
        yield made
    corner.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A master, its replica and three Sentinels, for this test alone."""
    made = Watched(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def watched_engine(watched: Watched) -> Iterator[Engine]:
    """``engine`` on what these Sentinels watch."""
    corner = OnSentinels(watched)
    with engine_on(corner) as made:
        yield made
    corner.close()

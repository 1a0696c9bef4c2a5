"""The admin on a cluster of three nodes, one of which goes away: the rest is shown, within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from django_redq import enqueue
from django_redq.broker import faults, operator_calls
from django_redq.broker.keys import shard_of
from django_redq.broker.sync import get_broker, shard_for
from django_redq.devserver import DevServer
from tests.harness import until
from tests.integration.admin.visitors import Visitor, address
from tests.integration.test_connection import Start

SLOTS = 16384
SHARDS = 8


class Cluster:
    """Three nodes, each with a third of the slots and without a replica."""

    def __init__(self, nodes: list[DevServer]) -> None:
        self.nodes = nodes

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{node.port}" for node in self.nodes]


@pytest.fixture
def cluster(own_server: Start) -> Iterator[Cluster]:
    options = {
        "cluster-enabled": "yes",
        "cluster-require-full-coverage": "no",
        "cluster-node-timeout": "2000",
    }
    nodes = [own_server(options=options) for _ in range(3)]
    with ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        for at, client in enumerate(clients):
            slots = range(at * SLOTS // 3, (at + 1) * SLOTS // 3)
            client.execute_command("CLUSTER", "ADDSLOTS", *slots)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        for client in clients:
            until(lambda one=client: _is_whole(one))
        cluster = Cluster(nodes)
        redq = {
            **settings.REDQ,
            "CONNECTION": {"CLUSTER": cluster.addresses},
            "QUEUES": {"email": {"SHARDS": SHARDS}},
        }
        with override_settings(REDQ=redq):
            yield cluster


def _is_whole(client: Any) -> bool:
    info = client.execute_command("CLUSTER", "INFO")
    wanted = (b"cluster_state:ok", b"cluster_known_nodes:3", b"cluster_slots_ok:16384")
    return all(one in info for one in wanted)


def test_a_node_that_is_away_hides_its_shards_and_no_others(
    cluster: Cluster, boss: Visitor
) -> None:
    ids = [f"t{number}" for number in range(40)]
    for task_id in ids:
        enqueue("email", 1, delay=600, task_id=task_id, mode="immediate")
    assert boss.get("changelist").rows()[0][1] == "40"

    cluster.nodes[1].kill()

    page = boss.open(address("change", "email"))
    assert page.status == 200
    assert "not answer" in page.content
    listed = boss.get("tasks", queue="email", state="scheduled")
    shown = {*listed.values("task")} & {*ids}
    gone = {shard_of(task_id, SHARDS) for task_id in {*ids} - shown}
    assert shown
    assert gone
    assert gone.isdisjoint({shard_of(task_id, SHARDS) for task_id in shown})
    assert boss.get("changelist").status == 200
    assert boss.get("dead").status == 200
    assert boss.get("groups").status == 200


def test_a_cluster_that_is_away_is_told(cluster: Cluster, boss: Visitor) -> None:
    boss.get("changelist")
    for node in cluster.nodes:
        node.kill()

    assert boss.get("changelist").status == 503
    assert boss.client.get("/admin/").status_code == 200


def test_a_cluster_without_a_node_left_is_an_outage(cluster: Cluster) -> None:
    """What redis-py raises then is no RedisError."""
    broker = get_broker()
    call = operator_calls.declare(shard_for(broker.config, broker.config.queue("email"), 0), SHARDS)
    broker.run(call)
    for node in cluster.nodes:
        node.kill()

    for _ in range(3):
        with pytest.raises(faults.REDIS_ERRORS) as raised:
            broker.run(call)
        assert faults.is_outage(raised.value)

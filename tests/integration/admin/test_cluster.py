"""The admin on a cluster of three nodes, one of which goes away: the rest is shown, within seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import override_settings

from django_redq import enqueue
from django_redq.broker import faults, operator_calls
from django_redq.broker.keys import shard_of
from django_redq.broker.sync import get_broker, shard_for
from tests.clusters import Cluster
from tests.integration.admin.visitors import Visitor, address

SHARDS = 8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(replicas=0)
    redq = {
        **settings.REDQ,
        "CONNECTION": {"CLUSTER": made.addresses},
        "QUEUES": {"email": {"SHARDS": SHARDS}},
    }
    with override_settings(REDQ=redq):
        yield made
    made.stop()


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

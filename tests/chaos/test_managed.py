"""A hosted Redis: its user has no admin rights, and no other keys than the namespace's."""

from __future__ import annotations

import json
import re

import pytest
import redis
from django.conf import settings

from django_redq import DeadLetterQueue, Queue, TaskSpec, cancel, enqueue_many, get_task
from django_redq.broker import health
from django_redq.broker.sync import get_broker
from django_redq.handlers import handler
from django_redq.task import TaskState
from tests.harness import ROOT, connect
from tests.integration.admin.visitors import Visitor
from tests.life import whole_life

RULES = ("on", ">pw", "+@all", "-@admin", "-@dangerous", "resetchannels")
MISSING = "this user may not use the channels"


@pytest.fixture(params=["without channels", "with channels"])
def hosted(request, engine, server):
    """All but ``engine.client`` goes by a user with few rights."""
    name = engine.redq.namespace
    channels = [f"&{name}:wake:*"] if request.param == "with channels" else []
    engine.client.execute_command("ACL", "SETUSER", name, *RULES, f"~{name}:*", *channels)
    engine.configure(
        SHARDS=2,
        PENDING_MIN_IDLE=0.5,
        RECOVERY_INTERVAL=0.1,
        BLOCK_TIMEOUT=0.2,
        RETRY={"POLICY": "fixed", "INTERVAL": 0.05},
    )
    engine.through(f"redis://{name}:pw@127.0.0.1:{server.port}/0")
    return engine


def may_hear(engine):
    with connect(settings.REDQ["CONNECTION"]["URL"]) as weak:
        for command in (("INFO",), ("KEYS", "*"), ("CONFIG", "GET", "*"), ("GET", "other")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                weak.execute_command(*command)
        try:
            weak.publish(f"{engine.redq.namespace}:wake:default", "")
        except redis.exceptions.NoPermissionError:
            return False
    return True


@pytest.mark.every_server
@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_task_lives_its_whole_life(hosted, face):
    whole_life(hosted, face)


@pytest.mark.every_server
def test_whatever_else_an_application_does_works(hosted):
    queue, letters, runs = Queue("default"), DeadLetterQueue("default"), []

    @handler("default")
    def work(task):
        runs.append(task.payload)
        if task.payload == "bad":
            raise ValueError

    sent = enqueue_many("default", [TaskSpec(n, delay=3600) for n in range(4)], mode="immediate")
    first, second, *_ = (one.task_id for one in sent)
    assert cancel("default", first).canceled
    assert queue.run_now(second)
    assert len(queue.tasks(TaskState.SCHEDULED).tasks) == 2
    bad = [hosted.enqueue("bad", max_attempts=2) for _ in range(3)]
    hosted.abandon(shard=0)
    hosted.abandon(shard=1)
    assert queue.pause()
    consumer = hosted.start()
    hosted.scheduler().start()
    assert queue.stats().paused
    assert queue.resume()
    hosted.wait_until(lambda: letters.count() == 3)
    hosted.wait_until(lambda: 1 in runs)
    assert [group.count for group in letters.groups().groups] == [3]
    assert letters.discard(bad[0])
    bulk = letters.start_replay()
    hosted.wait_until(lambda: letters.bulk(bulk.id).is_over)
    assert letters.bulk(bulk.id).changed == 2
    hosted.wait_until(lambda: letters.count() == 2)
    assert letters.purge() == 2
    hosted.wait_until(lambda: get_task("default", bad[1]) is None)
    assert consumer.fatal is None


def test_processes_work_and_say_once_which_right_is_missing(hosted, ledger, db):
    hears = may_hear(hosted)
    consumer = hosted.spawn(ledger, "redq_consume", "default", "--with-scheduler")
    consumer.wait_for("not looked at: the server's version")
    hosted.enqueue()
    hosted.enqueue(kind="flaky", delay=0.05)
    dead = hosted.enqueue(kind="bad", max_attempts=1)
    ledger.wait_for("done", 2)
    hosted.wait_until(lambda: DeadLetterQueue("default").count())
    boss = Visitor(superuser=True)
    for page in ("changelist", "dead", "groups", "bulks"):
        assert boss.get(page).status == 200
    shown = hosted.redq.manage("redq_stats", "--check", "--json")
    told = json.loads(shown.stdout)
    assert [MISSING in one for one in told["problems"]] == ([] if hears else [True])
    assert ["NoPermissionError" in one for one in told["unseen"]] == [True]
    assert (shown.returncode == 0) == hears
    assert consumer.terminate() == 0
    said = [line for line in consumer.lines if "may not" in line]
    grant = f"ACL SETUSER <user> &{hosted.redq.namespace}:wake:*"
    assert [line.endswith(grant) for line in said] == ([] if hears else [True])
    assert dead in consumer.output


@pytest.mark.long
def test_every_command_works_as_a_process(hosted):
    dead = hosted.enqueue(max_attempts=1)
    later = hosted.enqueue(delay=3600)
    burst = ("redq_consume", "default", "--burst")
    for command in (
        ("check",),
        burst,
        ("redq_scheduler", "--once"),
        ("redq_stats", "-v", "2"),
        ("redq_enqueue", "default", "1"),
        ("redq_queue", "list", "default", "--state", "scheduled"),
        ("redq_queue", "consumers", "default"),
        ("redq_queue", "pause", "default"),
        ("redq_queue", "resume", "default"),
        ("redq_queue", "run-now", "default", later),
        ("redq_queue", "cancel", "default", later),
        ("redq_dlq", "list", "default"),
        ("redq_dlq", "groups", "default"),
        ("redq_dlq", "show", "default", dead),
        ("redq_dlq", "replay", "default", dead),
        burst,
        ("redq_dlq", "replay", "default", "--all", "--background"),
        ("redq_dlq", "bulk", "list", "default"),
        ("redq_scheduler", "--once"),
        burst,
        ("redq_dlq", "purge", "default", "--all"),
    ):
        shown = hosted.redq.manage(*command)
        assert (command, shown.returncode) == (command, 0), shown.stderr
        assert "NOPERM" not in shown.stderr
    assert DeadLetterQueue("default").count() == 0


def test_each_master_of_a_cluster_is_looked_at(cluster_engine, cluster):
    with cluster.client_of(cluster.nodes[1]) as one:
        one.config_set("maxmemory-policy", "allkeys-lru")
    [problem] = health.look(get_broker(), ["default"]).problems
    assert "allkeys-lru" in problem
    assert problem.endswith(f" (node 127.0.0.1:{cluster.nodes[1].port})")


@pytest.mark.every_server
def test_the_rules_of_the_docs_are_enough(engine, server):
    text = (ROOT / "docs" / "managed.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^ACL SETUSER app .*$", text, re.MULTILINE)
    name = engine.redq.namespace
    engine.configure(BLOCK_TIMEOUT=0.2, RETRY={"POLICY": "fixed", "INTERVAL": 0.05})
    rules = line.replace("redq:", f"{name}:").replace(" app ", f" {name} ")
    engine.client.execute_command(*rules.split())
    engine.through(f"redis://{name}:secret@127.0.0.1:{server.port}/0")
    found = health.look(get_broker(), ["default"])
    assert (found.problems, found.missing) == ((), ())
    whole_life(engine, "sync")

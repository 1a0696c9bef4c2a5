"""``manage.py redq_scheduler``."""

from __future__ import annotations

import signal

import pytest

from django_redq import Queue, TaskState, enqueue, get_task
from tests.harness import Redq, until


def delayed(delay: float, queue: str = "email") -> str:
    return enqueue(queue, None, delay=delay, mode="immediate").task_id


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_moves_what_is_due_until_a_signal_and_gives_its_leases_up(
    redq: Redq, number: signal.Signals
) -> None:
    scheduler = redq.spawn("redq_scheduler")
    scheduler.wait_for("holds the leases of 7 of 7 shards")
    task_id = delayed(0.05)
    until(lambda: get_task("email", task_id).state is TaskState.READY)
    assert Queue("email").stats().lease_holders

    scheduler.send(number)

    assert scheduler.wait() == 0
    scheduler.wait_for(f"{number.name}: stopping; a second signal stops at once")
    assert scheduler.lines[-1].endswith(" stopped")
    assert Queue("email").stats().lease_holders == ()
    assert "Traceback" not in scheduler.output


def test_it_may_serve_some_queues_under_a_name(redq: Redq) -> None:
    scheduler = redq.spawn("redq_scheduler", "webhook", "--instance-id", "standby")

    assert " scheduler standby-" in scheduler.wait_for("serves webhook")
    scheduler.wait_for("holds the leases of 2 of 2 shards")
    [holder] = Queue("webhook").stats().lease_holders
    assert holder.startswith("standby-")
    assert Queue("email").stats().lease_holders == ()
    assert scheduler.terminate() == 0


def test_options_beat_the_settings(redq: Redq) -> None:
    scheduler = redq.spawn("redq_scheduler", "default", "--lease-ttl", "1h")
    scheduler.wait_for("holds the leases of 1 of 1 shards")

    assert redq.client.pttl(redq.key("default", 0, "lease")) > 3_000_000
    assert scheduler.terminate() == 0


@pytest.mark.parametrize(
    ("option", "value", "key"),
    [("--lease-ttl", "0", "lease_ttl"), ("--tick", "2h", "tick"), ("--instance-id", "a b", "inst")],
)
def test_an_option_that_breaks_its_rule_is_told(
    redq: Redq, option: str, value: str, key: str
) -> None:
    shown = redq.manage("redq_scheduler", option, value)

    assert shown.returncode == 1
    last = shown.stderr.splitlines()[-1]
    assert last.startswith("CommandError: ")
    assert key in last.lower()


def test_once_moves_what_is_due_in_batches_and_ends(redq: Redq) -> None:
    redq.client.zadd(redq.key("default", 0, "delay"), {f"t{at}": at + 1 for at in range(25)})
    later = delayed(3600)

    shown = redq.manage("redq_scheduler", "--once", "--batch-size", "10")

    assert (shown.returncode, shown.stdout) == (0, "25 task(s) moved\n")
    assert get_task("email", later).state is TaskState.SCHEDULED
    assert Queue("default").stats().ready == 25
    assert Queue("default").stats().lease_holders == ()


def test_a_redis_that_is_away_is_waited_for(own_redq: Redq) -> None:
    own_redq.server.kill()
    scheduler = own_redq.spawn("redq_scheduler")
    scheduler.wait_for("Redis does not answer as it should, retrying: ConnectionError")
    own_redq.server.restart()

    scheduler.wait_for("holds the leases of 7 of 7 shards")

    assert scheduler.terminate() == 0
    assert "Traceback" not in scheduler.output


def test_it_stops_while_redis_is_away(own_redq: Redq) -> None:
    own_redq.server.kill()
    scheduler = own_redq.spawn("redq_scheduler")
    scheduler.wait_for("Redis does not answer")

    assert scheduler.terminate() == 0
    assert "Traceback" not in scheduler.output


def test_settings_that_turn_out_to_disagree_once_redis_is_back_end_it(own_redq: Redq) -> None:
    layout = {"layout": 1, "shards": 5, "group": "default"}
    own_redq.client.hset(own_redq.key("default", 0, "meta"), mapping=layout)
    own_redq.server.kill()
    scheduler = own_redq.spawn("redq_scheduler", "default")
    scheduler.wait_for("Redis does not answer")
    own_redq.server.restart()

    assert scheduler.wait() == 1
    [line] = [line for line in scheduler.lines if "CommandError" in line]
    assert line.startswith("CommandError: queue 'default': its SHARDS is '1' here and '5' in Redis")


def test_it_warns_of_a_server_that_loses_tasks(own_redq: Redq) -> None:
    own_redq.client.config_set("maxmemory-policy", "allkeys-lru")
    scheduler = own_redq.spawn("redq_scheduler")

    assert " WARNING " in scheduler.wait_for("maxmemory-policy is allkeys-lru")
    scheduler.wait_for("holds the leases")
    assert scheduler.terminate() == 0

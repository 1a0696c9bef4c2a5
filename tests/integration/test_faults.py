"""What real servers answer when something is wrong, and what the engine takes it for.

The wording differs from version to version, and inside a script once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import redis

from django_redq.broker import calls, faults
from django_redq.broker.calls import Call, Submission
from django_redq.broker.sync import Broker, command_of, full_command_of
from django_redq.conf import get_config
from django_redq.devserver import DevServer, free_port
from tests.harness import Redq, until
from tests.integration.worlds import NOW, Here

pytestmark = pytest.mark.every_server


@pytest.fixture(scope="module")
def bad_server() -> Iterator[Callable[[Path], DevServer]]:
    """One server a binary for the tests of this file, which set it wrong and right again."""
    with ExitStack() as stack:
        yield cache(lambda binary: stack.enter_context(DevServer(binary=binary)))


@pytest.fixture
def here(bad_server: Callable[[Path], DevServer], server: DevServer) -> Iterator[Here]:
    """A shard on a server of the flavour of the shared one."""
    corner = Redq(bad_server(server.binary))
    place = Here(corner)
    yield place
    place.close()
    corner.close()


def enqueue(here: Here) -> Call[list[bool]]:
    task = Submission("email", 0, "t", "", b'"payload":1}')
    return calls.enqueue(here.shard, [task], str(NOW))


def refused(here: Here) -> list[redis.ResponseError]:
    """What a script is answered, sent alone and in a pipeline."""
    with pytest.raises(redis.RedisError) as caught:
        here.run(enqueue(here))
    [in_a_batch] = here.broker.run_many([enqueue(here)])
    return [caught.value, in_a_batch]


def test_a_demoted_server_is_left_for_another_one(here: Here) -> None:
    here.client.execute_command("REPLICAOF", "127.0.0.1", free_port())
    try:
        errors = refused(here)
    finally:
        here.client.execute_command("REPLICAOF", "NO", "ONE")

    assert all(faults.is_outage(error) and faults.wants_new_connection(error) for error in errors)
    assert here.run(enqueue(here)) == [True]


def test_a_replica_that_lost_its_master_may_come_back(here: Here) -> None:
    here.client.config_set("replica-serve-stale-data", "no")
    here.client.execute_command("REPLICAOF", "127.0.0.1", free_port())
    try:
        errors = refused(here)
    finally:
        here.client.execute_command("REPLICAOF", "NO", "ONE")
        here.client.config_set("replica-serve-stale-data", "yes")

    assert all(faults.is_outage(error) for error in errors)


def test_too_few_replicas_is_a_state_that_passes(here: Here) -> None:
    here.client.config_set("min-replicas-to-write", 1)
    try:
        # Not by a script: Redis 6.2 lets those write.
        with pytest.raises(redis.ResponseError) as caught:
            here.client.set("a", "b")
    finally:
        here.client.config_set("min-replicas-to-write", 0)

    assert faults.is_outage(caught.value)
    assert not faults.wants_new_connection(caught.value)


def test_a_full_memory_is_a_state_that_passes(here: Here) -> None:
    here.client.config_set("maxmemory", 1)
    try:
        errors = refused(here)
    finally:
        here.client.config_set("maxmemory", 0)

    assert all(faults.is_outage(error) for error in errors)


def test_a_server_that_is_busy_with_a_script_is_a_state_that_passes(here: Here) -> None:
    here.client.config_set("lua-time-limit", 1)
    here.run(enqueue(here))
    ended: list[BaseException] = []

    def loop_for_ever() -> None:
        with redis.Redis.from_url(here.redq.url) as client:
            try:
                client.eval("while true do end", 0)
            except redis.RedisError as error:
                ended.append(error)

    thread = threading.Thread(target=loop_for_ever)
    thread.start()
    errors: list[BaseException] = []

    def is_busy() -> bool:
        try:
            here.run(enqueue(here))
        except redis.ResponseError as error:
            errors.append(error)
        return bool(errors)

    try:
        until(is_busy)
    finally:
        here.client.script_kill()
        thread.join()

    assert faults.is_outage(errors[0])
    assert ended


def test_a_user_without_the_right_is_told_apart(here: Here) -> None:
    here.client.acl_setuser("weak", enabled=True, nopass=True, keys=["*"], commands=["+ping"])
    try:
        weak = redis.Redis.from_url(here.redq.url, username="weak", password="", protocol=2)
        with pytest.raises(redis.ResponseError) as caught:
            weak.get("a")
        weak.close()
    finally:
        here.client.acl_deluser("weak")

    assert faults.lacks_permission(caught.value)
    assert not faults.is_outage(caught.value)


def test_so_is_one_who_lacks_a_command_that_only_a_script_calls(here: Here) -> None:
    rules = {"enabled": True, "nopass": True, "keys": ["*"], "channels": ["*"]}
    here.client.acl_setuser("weak", commands=["+@all", "-xadd"], **rules)
    try:
        weak = redis.Redis.from_url(here.redq.url, username="weak", password="", protocol=2)
        with pytest.raises(redis.ResponseError) as caught:
            weak.execute_command(*full_command_of(enqueue(here)))
        weak.close()
    finally:
        here.client.acl_deluser("weak")

    assert faults.lacks_permission(caught.value)
    assert not faults.is_outage(caught.value)


def test_a_user_without_the_right_to_the_channel_gets_its_work_done(here: Here) -> None:
    """PUBLISH goes through pcall, so what is lost is the hint."""
    here.seed()
    here.client.acl_setuser(
        "deaf",
        enabled=True,
        nopass=True,
        keys=["*"],
        commands=["+@all"],
        reset_channels=True,
    )
    mute = redis.Redis.from_url(here.redq.url, username="deaf", password="", protocol=2)
    try:
        with pytest.raises(redis.exceptions.NoPermissionError):
            mute.publish(here.shard.wake, "0")
        call = enqueue(here)
        here.run(call)
        here.wipe()
        here.heard()
        assert mute.execute_command(*command_of(call)) == [1]
    finally:
        mute.close()
        here.client.acl_deluser("deaf")

    assert here.client.xlen(here.keys.stream) == 1
    assert here.heard() == []


def test_a_key_of_another_type_is_a_fault_of_its_shard(here: Here) -> None:
    here.client.set(here.keys.payload, "somebody's own")

    errors = refused(here)

    assert not any(faults.is_outage(error) for error in errors)
    assert not any(faults.is_cross_slot(error) for error in errors)
    assert not any(faults.lacks_permission(error) for error in errors)


def test_a_server_that_is_away_is_an_outage(here: Here) -> None:
    here.redq.configure(CONNECTION={"URL": f"redis://127.0.0.1:{free_port()}/0"})
    broker = Broker(get_config())

    with pytest.raises(redis.ConnectionError) as caught:
        broker.run(enqueue(here))

    assert faults.is_outage(caught.value)
    assert not faults.wants_new_connection(caught.value)
    broker.close()


def test_an_error_is_told_in_one_short_line(here: Here) -> None:
    with pytest.raises(redis.ResponseError) as caught:
        here.client.eval("return redis.error_reply('a\tb' .. string.rep('x', 1000))", 0)

    told = faults.in_words(caught.value)
    assert told.startswith("ResponseError: a b")
    assert len(told) == 300


def test_a_cluster_that_does_not_serve_its_slots_is_a_state_that_passes(
    own_server: Callable[..., DevServer], server: DevServer
) -> None:
    options = {"cluster-enabled": "yes", "cluster-config-file": "nodes.conf"}
    corner = Redq(own_server(binary=server.binary, options=options))
    place = Here(corner)

    errors = refused(place)

    assert all(faults.is_outage(error) for error in errors)
    assert not any(faults.is_of_the_node(error) for error in errors)
    assert not any(faults.is_cross_slot(error) for error in errors)
    place.close()
    corner.close()

"""How a service takes a Redis that is away: once said, waited out, once said again."""

from __future__ import annotations

import logging
import threading

import pytest
import redis

from django_redq.errors import ConfigurationError
from django_redq.service import MAX_BACKOFF, Loop, Outage, QueueGroup, unique_name
from django_redq.task import is_name

DOWN = redis.ConnectionError("refused")


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "django_redq")
    return caplog


def test_the_beginning_and_the_end_are_said_once(log):
    outage = Outage("consumer c")
    for loop in ("consumer", "renewer", "consumer"):
        outage.begin(loop, DOWN)
    assert outage.over("consumer")
    assert outage.over("renewer")
    assert [record.levelname for record in log.records] == ["WARNING", "INFO"]
    assert "refused" in log.records[0].getMessage()
    assert "consumer c: Redis is back" in log.records[1].getMessage()


def test_it_is_over_for_a_loop_only_if_it_was_in_trouble(log):
    outage = Outage("consumer c")
    assert not outage.over("consumer")
    outage.begin("renewer", DOWN)
    assert not outage.over("consumer")
    assert outage.over("renewer")
    assert not outage.over("renewer")


def test_the_waits_grow_to_a_bound_and_begin_again_after_success():
    outage = Outage("consumer c")
    waits = [outage.begin("consumer", DOWN) for _ in range(60)]
    assert 0.5 <= waits[0] <= 0.65
    assert waits[0] < waits[8]
    assert MAX_BACKOFF <= waits[-1] <= MAX_BACKOFF * 1.3
    outage.over("consumer")
    assert outage.begin("consumer", DOWN) < 1


class Steps(Loop):
    """A loop that does what it is told, step by step; tells when it has done all."""

    name = "steps"

    def __init__(self, *steps):
        super().__init__(Outage("test"))
        self.steps = list(steps)
        self.reconnected = 0
        self.failures = 0
        self.done = threading.Event()

    def step(self):
        if not self.steps:
            self.done.set()
            return 60.0
        action = self.steps.pop(0)
        if isinstance(action, Exception):
            # Nobody waits in a test.
            self.wake()
            raise action
        return action

    def on_reconnect(self):
        self.reconnected += 1

    def on_failure(self):
        self.failures += 1


def test_a_loop_outlives_what_its_step_raises(log):
    loop = Steps(DOWN, OSError("no route"), 0.0, ValueError("a fault of ours"), 0.0)
    loop.start()
    assert loop.done.wait(60)
    assert loop.running
    assert loop.stop(60)
    assert not loop.running
    assert (loop.failures, loop.reconnected) == (3, 1)
    assert [record.levelname for record in log.records] == ["WARNING", "INFO", "ERROR"]


def test_a_loop_may_be_stopped_before_it_was_started():
    assert Steps().stop()


def test_a_loop_may_be_stopped_by_itself():
    class Suicidal(Steps):
        def step(self):
            self.stop()
            self.done.set()
            return 60.0

    loop = Suicidal()
    loop.start()
    assert loop.done.wait(60)
    assert loop.stop(60)


class Part:
    """A service that may refuse to start."""

    def __init__(self, log, name, error=None):
        self.log, self.name, self.error = log, name, error

    def start(self):
        if self.error:
            raise self.error
        self.log.append(f"start {self.name}")

    def stop(self):
        self.log.append(f"stop {self.name}")


def test_a_group_starts_in_order_and_stops_all():
    log = []
    group = QueueGroup([Part(log, "a"), Part(log, "b")])
    group.start()
    assert log == ["start a", "start b"]
    group.stop()
    assert sorted(log[2:]) == ["stop a", "stop b"]


def test_a_group_stops_its_parts_at_the_same_time():
    both = threading.Barrier(2)

    class Waiting(Part):
        def stop(self):
            both.wait(60)

    QueueGroup([Waiting([], "a"), Waiting([], "b")]).stop()


def test_a_group_that_cannot_start_stops_what_it_had_started():
    log = []
    group = QueueGroup([Part(log, "a"), Part(log, "b", ValueError("no")), Part(log, "c")])
    with pytest.raises(ValueError, match="no"):
        group.start()
    assert log == ["start a", "stop a"]


def test_a_unique_name_keeps_the_prefix_and_is_a_name():
    first, second = unique_name("web", "name"), unique_name("web", "name")
    assert first.startswith("web-")
    assert first != second
    assert is_name(first)
    assert is_name(unique_name(None, "name"))


@pytest.mark.parametrize("prefix", ["", "a b", "{x}", "-x", "x" * 128])
def test_a_prefix_that_is_no_name_is_refused(prefix):
    with pytest.raises(ConfigurationError, match="instance_id"):
        unique_name(prefix, "instance_id")


def test_a_host_whose_name_is_no_name_gets_one_all_the_same(monkeypatch):
    for host in ("", "-.-", "höst name", "h" * 300):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        assert is_name(unique_name(None, "name"))

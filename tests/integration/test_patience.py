"""The broker of web pages gives up in time, whatever Redis does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from django_redq import Queue
from django_redq.broker.patience import PatientBroker, operator_broker, within
from django_redq.broker.sync import get_broker
from tests.engine import Engine
from tests.harness import Redq


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A server that takes every connection and says nothing; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


def test_there_is_one_a_process_and_another_for_other_settings(redq: Redq) -> None:
    broker = operator_broker()

    assert isinstance(broker, PatientBroker)
    assert operator_broker() is broker
    assert get_broker() is not broker
    redq.configure(queues={"other": {}})
    assert operator_broker() is not broker


def test_it_does_what_the_engines_does(engine: Engine) -> None:
    engine.enqueue(1)

    with within(60):
        assert Queue("default", broker=operator_broker()).stats().ready == 1


def test_past_the_deadline_no_round_trip_begins(engine: Engine) -> None:
    queue = Queue("default", broker=operator_broker())
    queue.stats()
    before = engine.client.info("commandstats")

    with within(0):
        for act in (queue.stats, queue.pause, queue.history):
            with pytest.raises(redis.TimeoutError, match="too slowly"):
                act()

    after = engine.client.info("commandstats")
    calls = {name: stat["calls"] for name, stat in before.items() if "eval" in name}
    assert {name: after[name]["calls"] for name in calls} == calls
    # And it is over with the block.
    assert queue.pause()


def test_the_engines_own_broker_knows_no_deadline(engine: Engine) -> None:
    with within(0):
        assert Queue("default").stats().ready == 0


def test_a_deadline_is_that_of_one_page(engine: Engine) -> None:
    """Another thread, which serves another page, has its own."""
    queue = Queue("default", broker=operator_broker())
    seen: list[Any] = []

    with within(0):
        thread = threading.Thread(target=lambda: seen.append(queue.stats()))
        thread.start()
        thread.join()
        with within(60):
            seen.append(queue.stats())
        with pytest.raises(redis.TimeoutError):
            queue.stats()

    assert len(seen) == 2


def test_a_redis_that_says_nothing_is_given_up(engine: Engine, black_hole: str) -> None:
    engine.through(black_hole)

    # The engine's own connections would wait longer, and try again.
    with within(60), pytest.raises(redis.TimeoutError):
        Queue("default", broker=operator_broker()).stats()


def test_of_shards_that_all_say_nothing_one_is_asked_at_most_until_the_deadline(
    engine: Engine, black_hole: str
) -> None:
    engine.through(black_hole)
    queue = Queue("default", broker=operator_broker())

    with within(0.1), pytest.raises(redis.TimeoutError):
        queue.stats(partial=True)


def test_a_redis_that_is_away_is_told_at_once(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    engine.through(f"redis://127.0.0.1:{port}/0")

    with within(60), pytest.raises(redis.ConnectionError):
        Queue("default", broker=operator_broker()).stats()


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server that answers drop by drop, so that no read takes long and no answer ends; its URL."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"+")
            while not over.wait(0.05):
                connection.sendall(b"x")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=[listening.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        over.set()
        listening.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_never_ends_is_not_waited_for(redq: Redq, dripping: str) -> None:
    redq.configure(CONNECTION={"URL": dripping})

    with within(0.5), pytest.raises(redis.TimeoutError, match="too slowly"):
        Queue("default", broker=operator_broker()).stats()


def test_what_a_round_trip_raises_is_raised_where_it_is_waited_for(redq: Redq) -> None:
    queue = Queue("default", broker=operator_broker())
    queue.stats()
    redq.client.set(redq.key("default", 0, "delay"), "of another type")

    with within(60), pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        queue.stats()

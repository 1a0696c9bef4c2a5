"""The database of the handlers, in long-lived threads: cut, restarted, left in the middle of things."""

from __future__ import annotations

import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction

from django_redq.handlers import handler
from tests.harness import PATIENCE, until
from tests.postgres import postgres, running_postgres

__all__ = ["postgres", "running_postgres"]

ALIAS = "postgres"
KINDS = {
    "kept": {"CONN_MAX_AGE": None},
    "checked": {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True},
    "closed": {"CONN_MAX_AGE": 0},
    # A pool is Django's own, and without the check it hands broken connections out.
    "pooled": {
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 6}},
    },
}


@pytest.fixture(params=KINDS)
def database(request, postgres, django_db_blocker):
    """An alias for it, whose connections are kept, checked, closed after each run, or pooled."""
    if request.param == "pooled":
        pytest.importorskip("psycopg_pool", reason="psycopg-pool is not installed")
    connections.settings[ALIAS] = {
        **connections.settings["default"],
        **postgres.settings,
        **KINDS[request.param],
    }
    with django_db_blocker.unblock():
        yield postgres
        connections[ALIAS].close()
        if request.param == "pooled":
            connections[ALIAS].close_pool()
    until(lambda: not postgres.sessions())
    del connections[ALIAS]
    del connections.settings[ALIAS]


def write(text):
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("INSERT INTO note VALUES (%s)", [text])


def written(database):
    return sorted(text for (text,) in database.ask("SELECT text FROM note"))


@pytest.fixture
def run(engine):
    """Runs a body as a task, to its end, in the one thread that there is; its attempts."""
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 0}, MAX_ATTEMPTS=2)
    bodies, attempts = [], []

    @handler("default")
    def work(task):
        attempts.append(task.attempt)
        bodies[-1](task)

    @handler("default", kind="async")
    async def awork(task):
        attempts.append(task.attempt)
        await sync_to_async(bodies[-1])(task)

    consumer = engine.start("default", concurrency=1)

    def run(body, kind=""):
        attempts.clear()
        bodies.append(body)
        before = consumer.counts.get("Done", 0)
        engine.enqueue(kind=kind)
        until(lambda: consumer.counts.get("Done", 0) == before + 1)
        return list(attempts)

    return run


@pytest.mark.parametrize("kind", ["", "async"])
def test_a_connection_that_was_cut_meanwhile(database, run, kind):
    assert run(lambda _: write("before"), kind) == [1]
    database.cut()
    assert run(lambda _: write("after"), kind) == [1]
    assert written(database) == ["after", "before"]


def test_a_server_that_was_restarted_meanwhile(database, run):
    assert run(lambda _: write("before")) == [1]
    database.stop()
    database.start()
    assert run(lambda _: write("after")) == [1]
    assert written(database) == ["after", "before"]


def cut_inside_of_a_block(database, task):
    with transaction.atomic(using=ALIAS):
        write("lost")
        database.cut()
        write("lost, too")


def stop_inside_of_a_block(database, task):
    transaction.atomic(using=ALIAS).__enter__()
    write("lost")
    database.stop()
    database.start()
    raise ValueError


def break_a_transaction(database, task):
    """What a handler does that knows little of transactions."""
    transaction.atomic(using=ALIAS).__enter__()
    write("lost")
    with pytest.raises(DatabaseError):
        write("\0")
    with pytest.raises(DatabaseError), connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT 1 / 0")
    raise ValueError


def close_inside_of_a_block(database, task):
    transaction.atomic(using=ALIAS).__enter__()
    write("lost")
    connections[ALIAS].close()
    raise ValueError


def leave_autocommit_off(database, task):
    connections[ALIAS].set_autocommit(False)
    write("lost")
    raise ValueError


@pytest.mark.parametrize(
    "blow",
    [
        cut_inside_of_a_block,
        stop_inside_of_a_block,
        break_a_transaction,
        close_inside_of_a_block,
        leave_autocommit_off,
    ],
)
@pytest.mark.parametrize("kind", ["", "async"])
def test_a_run_that_ends_in_the_middle(database, run, blow, kind):
    """Its next attempt, in the same thread, works, and nothing of the first one is there."""

    def body(task):
        if task.attempt == 1:
            blow(database, task)
        with transaction.atomic(using=ALIAS, durable=True):
            write("kept")

    assert run(body, kind) == [1, 2]
    assert run(lambda _: write("the next"), kind) == [1]
    assert written(database) == ["kept", "the next"]


def test_a_database_that_is_away_when_a_run_ends(database, run):
    """The run has failed, and cleaning up after it fails, too; the thread lives on."""

    def body(task):
        if task.attempt == 1:
            transaction.atomic(using=ALIAS).__enter__()
            write("lost")
            database.stop()
            raise ValueError
        database.start()
        write("kept")

    assert run(body) == [1, 2]
    assert written(database) == ["kept"]


@pytest.mark.parametrize("kind", ["", "async"])
def test_as_many_connections_as_tasks_at_a_time(database, engine, kind):
    inside, gate, most = threading.Semaphore(0), threading.Event(), []

    def body():
        write("x")
        most.append(len(database.sessions()))
        inside.release()
        assert gate.wait(PATIENCE)

    @handler("default")
    def work(task):
        body()

    @handler("default", kind="async")
    async def awork(task):
        await sync_to_async(body)()

    for _ in range(24):
        engine.enqueue(kind=kind)
    consumer = engine.start("default", concurrency=4)
    for _ in range(4):
        assert inside.acquire(timeout=PATIENCE)
    gate.set()
    engine.wait_counts(consumer, Done=24)
    assert max(most) == 4
    consumer.stop()
    connections[ALIAS].close()


def test_who_uses_no_database_has_no_connection(database, run):
    for kind in ("", "async"):
        assert run(lambda _: None, kind) == [1]
    assert database.sessions() == []

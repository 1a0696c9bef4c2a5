"""Each run begins as a request does, whatever the run before it left behind."""

from __future__ import annotations

import contextvars
import threading

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache, caches
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone, translation

from django_redq.handlers import dead_letter_handler, handler
from tests.harness import PATIENCE

VARIABLE = contextvars.ContextVar("VARIABLE", default="clean")
both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def each_run(is_async, body):
    """A handler of either colour around ``body``, which returns what it saw."""
    seen = []

    if is_async:

        @handler("default")
        async def work(task):
            seen.append(body())

    else:

        @handler("default")
        def work(task):
            seen.append(body())

    return seen


def run_three(engine, **options):
    """Three runs, one after the other; begun by whoever made room for them."""
    for _ in range(3):
        engine.enqueue()
    consumer = engine.start("default", concurrency=1, prefetch=2, **options)
    engine.wait_until(lambda: consumer.counts.get("Done", 0) + consumer.counts.get("Dead", 0) == 3)
    consumer.stop()
    return consumer


@both
def test_context_variables_do_not_outlive_a_run(engine, is_async):
    def body():
        found = VARIABLE.get()
        VARIABLE.set("dirty")
        return found

    token = VARIABLE.set("the test's own")
    seen = each_run(is_async, body)
    run_three(engine)
    VARIABLE.reset(token)
    assert seen == ["clean"] * 3


@both
@override_settings(LANGUAGE_CODE="fr", TIME_ZONE="Asia/Tokyo")
def test_language_and_time_zone_are_those_of_the_settings(engine, is_async):
    def body():
        found = translation.get_language(), timezone.get_current_timezone_name()
        translation.activate("de")
        timezone.activate("Europe/Berlin")
        return found

    seen = each_run(is_async, body)
    with translation.override("en"), timezone.override("America/Lima"):
        run_three(engine)
    assert seen == [("fr", "Asia/Tokyo")] * 3


class Closable(LocMemCache):
    """Notes when it is closed."""

    closed = threading.Semaphore(0)

    def close(self, **kwargs):
        self.closed.release()


@pytest.fixture
def closable(engine, settings):
    settings.CACHES = {
        **settings.CACHES,
        "default": {"BACKEND": f"{__name__}.Closable", "LOCATION": "hygiene"},
    }
    Closable.closed = threading.Semaphore(0)
    return Closable.closed


def test_caches_are_closed_after_a_run_in_a_thread(engine, closable):
    each_run(False, lambda: cache.set("a", 1))
    run_three(engine)
    for _ in range(3):
        assert closable.acquire(blocking=False)


def test_caches_are_closed_after_a_run_on_the_loop(engine, closable):
    @handler("default")
    async def work(task):
        await caches["default"].aset("a", 1)

    run_three(engine)
    for _ in range(3):
        assert closable.acquire(blocking=False)


# --- databases ---------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path, django_db_blocker):
    """A database in a file, of which every thread gets a connection of its own; its alias."""
    alias = "file"
    connections.settings[alias] = {
        **connections.settings["default"],
        "NAME": str(tmp_path / "file.sqlite3"),
        "CONN_MAX_AGE": None,
    }
    with django_db_blocker.unblock():
        with connections[alias].cursor() as cursor:
            cursor.execute("CREATE TABLE note (text)")
        yield alias
        connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


def note(alias, text):
    with connections[alias].cursor() as cursor:
        cursor.execute("INSERT INTO note VALUES (%s)", [text])


def notes(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT text FROM note")
        return [text for (text,) in cursor.fetchall()]


def test_a_connection_that_may_live_on_is_kept_for_the_next_run(engine, database):
    seen = each_run(False, lambda: (note(database, "x"), id(connections[database].connection))[1])
    run_three(engine)
    assert len(set(seen)) == 1
    assert notes(database) == ["x"] * 3


def test_a_connection_without_an_age_is_closed_after_each_run(engine, database):
    connections.settings[database]["CONN_MAX_AGE"] = 0

    def body():
        found = connections[database].connection
        note(database, "x")
        return found

    seen = each_run(False, body)
    run_three(engine)
    assert seen == [None] * 3


def leave_an_atomic_block_open(alias):
    transaction.atomic(using=alias).__enter__()


def leave_autocommit_off(alias):
    connections[alias].set_autocommit(False)


@pytest.mark.parametrize("leave", [leave_an_atomic_block_open, leave_autocommit_off])
@pytest.mark.parametrize("failing", [False, True])
def test_a_transaction_that_a_run_left_open_is_rolled_back(engine, database, leave, failing):
    engine.configure(MAX_ATTEMPTS=1)

    def body():
        one = connections[database]
        found = (one.in_atomic_block, one.get_autocommit(), notes(database))
        leave(database)
        note(database, "lost")
        if failing:
            # What a handler that raises has seen is appended by nobody.
            states.append(found)
            raise ValueError
        return found

    states = each_run(False, body)
    run_three(engine)
    assert states == [(False, True, [])] * 3
    assert notes(database) == []


def test_a_transaction_that_an_async_run_left_open_is_rolled_back(engine, database):
    seen = []

    def body():
        seen.append(notes(database))
        leave_an_atomic_block_open(database)
        note(database, "lost")

    @handler("default")
    async def work(task):
        await sync_to_async(body)()

    run_three(engine)
    assert seen == [[]] * 3
    assert notes(database) == []


def test_each_run_begins_with_an_empty_query_log(engine, database, settings):
    settings.DEBUG = True

    def body():
        notes(database)
        return len(connections[database].queries)

    seen = each_run(False, body)
    run_three(engine)
    # The first one has opened the connection, which Django logs nothing of.
    assert seen == [1] * 3


def test_connections_are_closed_when_the_threads_end(engine, database):
    kept = []
    each_run(False, lambda: (note(database, "x"), kept.append(connections[database])))
    run_three(engine)
    engine.wait_until(lambda: kept[0].connection is None)


def test_async_runs_do_not_wait_for_each_others_database_threads(engine):
    meeting = threading.Barrier(2)

    @handler("default")
    async def work(task):
        # Were both in the same thread, the first would wait for ever.
        await sync_to_async(meeting.wait, thread_sensitive=True)(60)

    for _ in range(2):
        engine.enqueue()
    consumer = engine.start("default", concurrency=2)
    engine.wait_counts(consumer, Done=2)


@pytest.mark.django_db(transaction=True)
def test_the_orm_works_in_both_kinds_of_handlers(engine, django_user_model):
    @handler("default", kind="sync")
    def work(task):
        django_user_model.objects.create(username=task.id)

    @handler("default", kind="async")
    async def work_async(task):
        await django_user_model.objects.acreate(username=task.id)

    ids = {engine.enqueue(kind=kind) for kind in ("sync", "async")}
    consumer = engine.start("default")
    engine.wait_counts(consumer, Done=2)
    assert set(django_user_model.objects.values_list("username", flat=True)) == ids
    assert not connection.in_atomic_block


@both
def test_a_run_whose_cleaning_up_fails_has_done_its_work_all_the_same(
    engine, is_async, monkeypatch, caplog
):
    def refuse():
        raise OSError("the connection cannot be closed")

    def body():
        connections["default"]  # an async run's own thread is cleaned where it was used only

    if is_async:
        body = sync_to_async(body)
        seen = []

        @handler("default")
        async def work(task):
            seen.append(await body())

    else:
        seen = each_run(is_async, body)
    monkeypatch.setattr("django_redq.consumer.database.close_unfinished_transactions", refuse)
    consumer = run_three(engine)
    assert len(seen) == 3
    assert consumer.counts == {"Done": 3}
    assert "the connection cannot be closed" in caplog.text


def test_an_announcement_whose_cleaning_up_fails_is_not_the_last_one(engine, monkeypatch, caplog):
    engine.configure(MAX_ATTEMPTS=1)
    told = threading.Semaphore(0)

    def refuse():
        raise OSError("the connection cannot be closed")

    def fail():
        raise ValueError

    @dead_letter_handler("default")
    def tell(letter):
        told.release()

    each_run(False, fail)
    monkeypatch.setattr("django_redq.consumer.database.close_unfinished_transactions", refuse)
    consumer = run_three(engine)
    assert consumer.counts == {"Dead": 3}
    for _ in range(3):
        assert told.acquire(timeout=PATIENCE)
    assert "cleaning up after an announcement failed" in caplog.text

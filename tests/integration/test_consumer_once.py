"""``run_once()`` and ``recover_once()``: in the caller's thread, transaction and connections."""

from __future__ import annotations

import threading
from unittest import mock

import pytest
import redis
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core.cache import caches
from django.core.signals import request_finished, request_started
from django.db import connection, connections, transaction
from django.test import SimpleTestCase, TestCase

from django_redq.consumer.consumer import Consumer
from django_redq.handlers import handler
from django_redq.producer import Producer, enqueue
from django_redq.task import TaskState
from tests.engine import GHOST


@pytest.fixture(autouse=True)
def _registered(engine, request):
    """Handlers for all tests here, and the engine for those that are methods."""
    if request.instance is not None:
        request.instance.engine = engine

    @handler("default", kind="sync")
    def create(task):
        get_user_model().objects.create(username=task.payload)

    @handler("default", kind="async")
    async def acreate(task):
        await get_user_model().objects.acreate(username=task.payload)

    @handler("default", kind="fails")
    def fail(task):
        get_user_model().objects.create(username=task.payload)
        raise ValueError

    @handler("default", kind="atomic")
    def create_atomically(task):
        with transaction.atomic():
            get_user_model().objects.create(username=task.payload)
            raise ValueError


def usernames():
    return set(get_user_model().objects.values_list("username", flat=True))


def enqueue_now(username, kind="sync", **options):
    return Producer("default").enqueue(username, kind=kind, mode="immediate", **options).task_id


@pytest.mark.usefixtures("_registered")
class InATestCase(TestCase):
    """What a user's own test sees."""

    @classmethod
    def setUpTestData(cls):
        get_user_model().objects.create(username="set up")

    def test_a_handler_sees_and_changes_the_tests_own_transaction(self):
        before = connection.connection
        enqueue_now("sync")
        enqueue_now("async", kind="async")
        assert Consumer("default", concurrency=5).run_once() == 2
        assert usernames() == {"set up", "sync", "async"}
        assert connection.connection is before
        assert connection.in_atomic_block
        assert not connection.needs_rollback

    def test_nothing_of_the_other_tests_is_left(self):
        assert usernames() == {"set up"}

    def test_a_failed_handler_leaves_the_transaction_usable(self):
        enqueue_now("kept", kind="fails")
        enqueue_now("undone", kind="atomic")
        assert Consumer("default", concurrency=5).run_once() == 2
        assert usernames() == {"set up", "kept"}
        assert not connection.needs_rollback

    def test_what_is_enqueued_on_commit_runs_once_the_callbacks_are_captured(self):
        consumer = Consumer("default")
        with self.captureOnCommitCallbacks(execute=True):
            enqueue("default", "late", kind="sync")
            assert consumer.run_once() == 0
        assert consumer.run_once() == 1
        assert usernames() == {"set up", "late"}

    def test_a_recovered_task_runs_in_the_transaction_too(self):
        enqueue_now("recovered")
        self.engine.abandon()
        before = connection.connection
        assert Consumer("default").recover_once() == 1
        assert usernames() == {"set up", "recovered"}
        assert connection.connection is before
        assert connection.in_atomic_block

    def test_no_commit_hook_is_run_by_it(self):
        @handler("default", kind="hooks")
        def hook(task):
            transaction.on_commit(lambda: ran.append(task.id))

        ran = []
        enqueue_now("x", kind="hooks")
        with self.captureOnCommitCallbacks() as callbacks:
            Consumer("default").run_once()
        assert len(callbacks) == 1
        assert ran == []


@pytest.mark.usefixtures("_registered")
class WithoutADatabase(SimpleTestCase):
    """Nothing of the engine's own opens a connection."""

    def test_it_runs(self):
        @handler("default", kind="plain")
        def work(task):
            ran.append(task.payload)

        ran = []
        enqueue_now("x", kind="plain")
        assert Consumer("default").run_once() == 1
        assert ran == ["x"]


# --- whose thread ------------------------------------------------------------------------------


def test_sync_handlers_run_in_the_calling_thread(engine):
    threads = []

    @handler("default", kind="here")
    def work(task):
        threads.append(threading.current_thread())

    @handler("default", kind="there")
    async def work_async(task):
        await sync_to_async(lambda: threads.append(threading.current_thread()))()

    engine.enqueue(kind="here")
    engine.enqueue(kind="there")
    assert engine.consumer(concurrency=2).run_once() == 2
    assert threads == [threading.current_thread()] * 2


def test_connections_and_caches_are_left_open(engine):
    handler("default", kind="k")(nothing)
    engine.enqueue(kind="k")
    with (
        mock.patch.object(connections, "close_all") as close_all,
        mock.patch.object(caches, "close_all") as close_caches,
        mock.patch("django_redq.consumer.database.close_old_connections") as close_old,
    ):
        engine.consumer().run_once()
    for closing in (close_all, close_caches, close_old):
        closing.assert_not_called()


def test_no_request_signal_is_sent(engine):
    heard = []

    def receiver(signal, **facts):
        heard.append(signal)

    for one in (request_started, request_finished):
        one.connect(receiver)
    handler("default", kind="k")(nothing)
    engine.enqueue(kind="k")
    engine.consumer().run_once()
    assert heard == []


def nothing(task):
    """A handler that does nothing."""


# --- what it answers ---------------------------------------------------------------------------


def test_it_answers_how_many_it_settled(engine):
    handler("default", kind="ok")(nothing)
    consumer = engine.consumer(concurrency=10)
    assert consumer.run_once() == 0
    for kind in ("ok", "fails", "unknown", "ok"):
        engine.enqueue("u", kind=kind)
    assert consumer.run_once() == 4
    assert consumer.is_idle


def test_one_call_is_one_fetch(engine):
    handler("default", kind="k")(nothing)
    for _ in range(3):
        engine.enqueue(kind="k")
    consumer = engine.consumer(concurrency=1)
    assert [consumer.run_once() for _ in range(4)] == [1, 1, 1, 0]


def test_what_a_handler_enqueues_is_left_for_the_next_call(engine):
    @handler("default", kind="chain")
    def chain(task):
        if task.payload < 3:
            engine.enqueue(task.payload + 1, kind="chain")

    engine.enqueue(1, kind="chain")
    consumer = engine.consumer(concurrency=10)
    assert [consumer.run_once() for _ in range(4)] == [1, 1, 1, 0]


def test_a_scheduled_task_is_not_run_before_it_is_promoted(engine):
    handler("default", kind="k")(nothing)
    engine.enqueue(kind="k", delay=60)
    consumer = engine.consumer()
    assert consumer.run_once() == 0
    assert engine.promote() == 1
    assert consumer.run_once() == 1


def test_a_recovery_of_nothing_is_zero(engine):
    consumer = engine.consumer()
    assert consumer.recover_once() == 0
    engine.enqueue()
    assert consumer.recover_once() == 0


def test_long_handlers_are_renewed_meanwhile(engine):
    @handler("default", kind="long")
    def work(task):
        engine.wait_until(lambda: renewed(engine))

    engine.enqueue(kind="long")
    assert engine.consumer(pending_min_idle=0.3).run_once() == 1


def renewed(engine):
    """Makes the entry look old, once, and then waits for its renewal."""
    (row,) = engine.pending()
    if not hasattr(engine, "aged"):
        engine.aged = engine.age(idle=100_000)
        return False
    return row["idle"] < 50_000


def test_what_runs_beside_it_by_its_side_is_not_touched(engine):
    """A consumer that runs in threads and is asked for a turn of its own."""
    gate, inside = threading.Event(), threading.Event()

    @handler("default", kind="held")
    def hold(task):
        inside.set()
        assert gate.wait(60)

    handler("default", kind="k")(nothing)
    running = engine.start("default", concurrency=1)
    held = engine.enqueue(kind="held")
    assert inside.wait(60)
    engine.enqueue(kind="k")
    assert engine.consumer().run_once() == 1
    assert engine.task(held).state is TaskState.RUNNING
    gate.set()
    engine.wait_counts(running, Done=1)


# --- Redis away --------------------------------------------------------------------------------


def test_a_redis_that_is_away_is_told_at_once_and_costs_nothing(own_engine):
    engine = own_engine
    handler("default", kind="k")(nothing)
    consumer = engine.consumer()
    task_id = engine.enqueue(kind="k")
    engine.redq.server.kill()
    with pytest.raises(redis.ConnectionError):
        consumer.run_once()
    with pytest.raises(redis.ConnectionError):
        consumer.recover_once()
    engine.redq.server.start()
    assert consumer.run_once() == 1
    assert engine.task(task_id) is None
    engine.assert_drained()


def test_what_it_could_not_settle_is_settled_by_the_next_call(own_engine):
    engine = own_engine

    @handler("default", kind="kills")
    def kill(task):
        engine.redq.server.kill()

    consumer = engine.consumer()
    engine.enqueue(kind="kills")
    with pytest.raises(redis.ConnectionError):
        consumer.run_once()
    engine.redq.server.start()
    assert consumer.run_once() == 1
    engine.assert_drained()


def test_what_its_lost_reply_brought_is_run_by_the_next_call(engine):
    ran = []
    handler("default", kind="k")(lambda task: ran.append((task.id, task.attempt)))
    consumer = engine.consumer()
    task_id = engine.enqueue(kind="k")
    once = consumer._inline()[0]
    run_many = once._broker.run_many

    def lose(batch):
        run_many(batch)
        raise redis.ConnectionError("the reply was lost")

    with mock.patch.object(once._broker, "run_many", lose), pytest.raises(redis.ConnectionError):
        consumer.run_once()
    assert [row["consumer"] for row in engine.pending()] == [consumer.name]
    assert consumer.run_once() == 1
    assert ran == [(task_id, 1)]
    engine.assert_drained()
    assert GHOST not in engine.consumers()

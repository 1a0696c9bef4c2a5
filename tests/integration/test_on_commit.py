"""When a task is sent: with the transaction that it was enqueued in, or at once."""

# ruff: noqa: PT012 - what a block enqueues is what fails at its end
from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError
from django.http import JsonResponse
from django.test import (
    AsyncClient,
    Client,
    SimpleTestCase,
    TestCase,
    override_settings,
)
from django.urls import path

from django_redq.errors import EnqueueFailed, InvalidArgument
from django_redq.producer import (
    Producer,
    aenqueue,
    aenqueue_many,
    arguments,
    enqueue,
    enqueue_many,
    on_commit,
)
from django_redq.signals import task_enqueued
from django_redq.task import TaskSpec

ROOT = Path(__file__).resolve().parents[2]


def sent(redq):
    """The IDs of all tasks in Redis."""
    return sorted(
        task_id
        for key, value in redq.world().items()
        if key.endswith(":payload")
        for task_id in value
    )


class Undo(Exception):
    """Raised to have a block rolled back, or by a user's hook."""


@contextlib.contextmanager
def rolled_back(using=None):
    """An atomic block that is rolled back."""
    with contextlib.suppress(Undo), transaction.atomic(using=using):
        yield
        raise Undo


@pytest.fixture
def pipelines(monkeypatch):
    """The IDs that each pipeline carried, in order."""
    carried = []
    send = on_commit.send

    def spy(tasks):
        carried.append([task.task_id for task in tasks])
        return send(tasks)

    monkeypatch.setattr(on_commit, "send", spy)
    return carried


@pytest.fixture
def unopened():
    """A database that nobody has connected to; in tests the others always are connected."""
    connections.settings["unopened"] = {**connections.settings["default"], "NAME": ":memory:"}
    yield connections["unopened"]
    del connections["unopened"], connections.settings["unopened"]


with_other_database = pytest.mark.django_db(transaction=True, databases=["default", "other"])


# --- a transaction ---------------------------------------------------------------------------


def test_commit_sends(redq, transactional_db):
    with transaction.atomic():
        User.objects.create(username="ann")
        result = enqueue("email", 1, task_id="t1")
        many = enqueue_many("email", [TaskSpec(payload=2, task_id="t2")])
        assert redq.keys() == []

    assert result.duplicate is None
    assert (result.task_id, result.queue) == ("t1", "email")
    assert [one.duplicate for one in many] == [None]
    assert sent(redq) == ["t1", "t2"]


def test_rollback_sends_nothing(redq, transactional_db):
    with rolled_back():
        enqueue("email", 1)

    assert redq.keys() == []


def test_transaction_after_a_rolled_back_one_sends_only_its_own(redq, transactional_db):
    with rolled_back():
        enqueue("email", 1, task_id="undone")
    with transaction.atomic():
        enqueue("email", 1, task_id="kept")

    assert sent(redq) == ["kept"]


def test_inner_rollback_drops_what_is_of_the_inner_block(redq, transactional_db):
    with transaction.atomic():
        enqueue("email", 1, task_id="before")
        with rolled_back():
            enqueue("email", 1, task_id="inner")
            with transaction.atomic():
                enqueue("email", 1, task_id="innermost")
        enqueue("email", 1, task_id="after")

    assert sent(redq) == ["after", "before"]


def test_inner_commit_waits_for_the_outer(redq, transactional_db):
    with transaction.atomic():
        with transaction.atomic():
            enqueue("email", 1, task_id="inner")
        assert redq.keys() == []
        enqueue("email", 1, task_id="outer")

    assert sent(redq) == ["inner", "outer"]


def test_outer_rollback_drops_what_an_inner_block_has_kept(redq, transactional_db):
    with rolled_back(), transaction.atomic():
        enqueue("email", 1)

    assert redq.keys() == []


def test_blocks_without_savepoint_belong_to_the_one_around_them(redq, transactional_db):
    with transaction.atomic():
        with pytest.raises(Undo), transaction.atomic():
            with transaction.atomic(savepoint=False):
                enqueue("email", 1, task_id="kept-by-itself")
            with transaction.atomic(savepoint=False):
                enqueue("email", 1, task_id="undone")
                raise Undo
        enqueue("email", 1, task_id="outer")

    assert sent(redq) == ["outer"]


def test_database_error_in_the_block_sends_nothing(redq, transactional_db):
    User.objects.create(username="ann")
    with pytest.raises(IntegrityError), transaction.atomic():
        enqueue("email", 1)
        User.objects.create(username="ann")

    assert redq.keys() == []


def test_wrong_argument_is_told_at_the_call_and_spoils_nothing(redq, transactional_db):
    with transaction.atomic():
        enqueue("email", 1, task_id="t1")
        with pytest.raises(InvalidArgument):
            enqueue("email", {1, 2})
        with pytest.raises(InvalidArgument):
            enqueue_many("email", [TaskSpec(payload=1), TaskSpec(payload={1})])

    assert sent(redq) == ["t1"]


def test_payload_is_what_it_was_at_the_call(redq, transactional_db):
    payload = {"n": 1}
    with transaction.atomic():
        enqueue("default", payload, task_id="t1")
        payload["n"] = 2

    assert b'"payload":{"n":1}' in redq.world()["{default:0}:payload"]["t1"]


def test_delay_counts_from_the_call_and_not_from_the_commit(redq, transactional_db, monkeypatch):
    clock = 1000.0
    monkeypatch.setattr(arguments.time, "monotonic", lambda: clock)
    producer = Producer("default", now=lambda: 1_700_000_000.0)
    with transaction.atomic():
        producer.enqueue(1, task_id="later", delay=60)
        producer.enqueue(1, task_id="overdue", delay=10)
        clock += 45

    found = redq.world()
    assert found["{default:0}:delay"] == {"later": 1_700_000_015_000}
    assert [fields for _, fields in found["{default:0}:stream"]] == [{"id": b"overdue"}]


def test_immediate_does_not_wait(redq, transactional_db):
    with rolled_back():
        assert enqueue("email", 1, task_id="t1", mode="immediate").duplicate is False

    assert sent(redq) == ["t1"]


def test_mode_of_the_queue_holds_where_the_call_says_none(redq, transactional_db):
    redq.configure(queues={"email": {"ENQUEUE_MODE": "immediate"}})
    with rolled_back():
        enqueue("email", 1, task_id="at-once")
        enqueue("email", 1, task_id="waits", mode="on_commit")

    assert sent(redq) == ["at-once"]


def test_signal_tells_after_the_commit(redq, transactional_db):
    told = []

    def tell(signal, sender, **facts):
        told.append((facts["task_id"], facts["duplicate"], connections["default"].in_atomic_block))

    task_enqueued.connect(tell)
    try:
        with transaction.atomic():
            enqueue("email", 1, task_id="t1")
            enqueue("email", 1, task_id="t1")
            assert told == []
    finally:
        task_enqueued.disconnect(tell)

    assert told == [("t1", False, False), ("t1", True, False)]


# --- batches ---------------------------------------------------------------------------------


def test_tasks_of_one_level_go_out_together(redq, transactional_db, pipelines):
    with transaction.atomic():
        enqueue("email", 1, task_id="a")
        with transaction.atomic():
            enqueue("webhook", 1, task_id="inner-1")
            enqueue_many("email", [TaskSpec(payload=n, task_id=f"many-{n}") for n in range(2)])
        enqueue("default", 1, task_id="b")
    with transaction.atomic():
        enqueue("email", 1, task_id="c")

    assert pipelines == [["a", "b"], ["inner-1", "many-0", "many-1"], ["c"]]


def test_hook_of_a_user_that_raises_loses_nothing_of_its_level(redq, transactional_db):
    def fails():
        raise Undo

    with pytest.raises(Undo), transaction.atomic():
        enqueue("email", 1, task_id="before")
        transaction.on_commit(fails)
        enqueue("email", 1, task_id="after")

    assert sent(redq) == ["after", "before"]


def test_hook_of_a_user_may_enqueue(redq, transactional_db):
    with transaction.atomic():
        enqueue("email", 1, task_id="a")
        transaction.on_commit(lambda: enqueue("email", 1, task_id="of-the-hook"))
        enqueue("email", 1, task_id="b")

    assert sent(redq) == ["a", "b", "of-the-hook"]


def test_what_is_done_leaves_nothing_in_memory(redq, transactional_db):
    with transaction.atomic():
        enqueue("email", 1)
        with transaction.atomic():
            enqueue("email", 1)
    with rolled_back():
        enqueue("email", 1)

    gc.collect()
    assert [one for one in gc.get_objects() if type(one) is on_commit._Batch] == []


def test_producers_with_clocks_of_their_own_share_a_transaction(redq, transactional_db):
    with transaction.atomic():
        Producer("default", now=lambda: 1.0).enqueue(1, task_id="t1")
        Producer("default").enqueue(1, task_id="t2")
        Producer("default", now=lambda: 2.0).enqueue(1, task_id="t3")

    payloads = redq.world()["{default:0}:payload"]
    ats = {task_id: json.loads(raw)["at"] for task_id, raw in payloads.items()}
    assert (ats["t1"], ats["t3"]) == (1000, 2000)
    assert ats["t2"] > 1_700_000_000_000


# --- other databases, other settings ---------------------------------------------------------


@with_other_database
def test_transaction_of_another_database_is_not_waited_for(redq):
    with transaction.atomic(using="other"):
        enqueue("email", 1, task_id="at-once")
        assert sent(redq) == ["at-once"]
        enqueue("email", 1, task_id="waits", using="other")
        assert sent(redq) == ["at-once"]

    assert sent(redq) == ["at-once", "waits"]


@with_other_database
def test_rollback_of_one_database_leaves_the_tasks_of_the_other(redq):
    with transaction.atomic(), rolled_back(using="other"):
        enqueue("email", 1, task_id="default")
        enqueue("email", 1, task_id="other", using="other")

    assert sent(redq) == ["default"]


@pytest.mark.parametrize("using", ["nowhere", "", None, 5, ["default"]])
def test_unknown_database_is_refused_with_the_known_ones(redq, using):
    with pytest.raises(InvalidArgument, match=r"using: must be an alias .*'default'"):
        enqueue("email", 1, using=using)
    assert redq.keys() == []


def test_manual_transactions_are_refused(redq, transactional_db):
    User.objects.exists()
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError, match="mode='immediate'"):
            enqueue("email", 1)
        assert enqueue("email", 1, task_id="t1", mode="immediate").duplicate is False
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert sent(redq) == ["t1"]


def test_manual_transactions_are_refused_before_there_is_a_connection(redq, unopened):
    unopened.settings_dict["AUTOCOMMIT"] = False

    with pytest.raises(TransactionManagementError, match="autocommit is off for 'unopened'"):
        enqueue("email", 1, using="unopened")
    assert unopened.connection is None


def test_atomic_block_within_manual_transactions_waits_for_the_commit(redq, transactional_db):
    transaction.set_autocommit(False)
    try:
        with transaction.atomic():
            enqueue("email", 1, task_id="t1")
        assert redq.keys() == []
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert sent(redq) == ["t1"]


def test_without_a_transaction_no_connection_is_opened(redq, unopened):
    assert enqueue("email", 1, using="unopened").duplicate is False
    assert unopened.connection is None


class WithoutDatabaseTest(SimpleTestCase):
    """Django forbids any query here."""

    @pytest.fixture(autouse=True)
    def _redq(self, redq):
        self.redq = redq

    def test_task_is_sent_at_once(self):
        result = enqueue("email", 1, task_id="t1")

        assert result.duplicate is False
        assert sent(self.redq) == ["t1"]

    async def test_task_is_sent_at_once_from_async_code(self):
        result = await aenqueue("email", 1, task_id="t1")

        assert result.duplicate is False


@pytest.mark.parametrize("databases", ["{}", "{'default': {}}"])
def test_project_without_a_database_can_enqueue(redq, databases):
    script = f"""
import django, json, os
from django.conf import settings
settings.configure(
    DATABASES={databases},
    CACHES={{"redq": {{"BACKEND": "django_redis.cache.RedisCache", "LOCATION": {redq.url!r}}}}},
    REDQ=json.loads(os.environ["REDQ_TEST_REDQ"]),
)
django.setup()
from django_redq.producer import enqueue
print(enqueue("email", 1, task_id="t1").duplicate)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=redq.environ(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("False\n", "")
    assert sent(redq) == ["t1"]


# --- within a TestCase -----------------------------------------------------------------------


class CaptureTest(TestCase):
    """The test itself is a transaction, which never commits."""

    @pytest.fixture(autouse=True)
    def _redq(self, redq):
        self.redq = redq

    def test_nothing_is_sent_without_a_commit(self):
        assert enqueue("email", 1).duplicate is None
        assert self.redq.keys() == []

    def test_capture_sends_what_was_enqueued_inside_it(self):
        enqueue("email", 1, task_id="before")
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            enqueue("email", 1, task_id="first")
            with transaction.atomic():
                enqueue("email", 1, task_id="second")
            enqueue_many("email", [TaskSpec(payload=n, task_id=f"many-{n}") for n in range(3)])
        enqueue("email", 1, task_id="after")

        assert len(callbacks) == 3
        assert sent(self.redq) == ["first", "many-0", "many-1", "many-2", "second"]

    def test_captures_in_turn_send_each_its_own(self):
        for task_id in ("first", "second"):
            with self.captureOnCommitCallbacks(execute=True):
                enqueue("email", 1, task_id=task_id)
            assert task_id in sent(self.redq)

        assert sent(self.redq) == ["first", "second"]

    def test_inner_capture_sends_its_own_and_the_outer_the_rest_once(self):
        told = []

        def tell(task_id, **kwargs):
            told.append(task_id)

        task_enqueued.connect(tell)
        with self.captureOnCommitCallbacks(execute=True):
            enqueue("email", 1, task_id="outer")
            with self.captureOnCommitCallbacks(execute=True):
                enqueue("email", 1, task_id="inner")
            assert told == ["inner"]
        task_enqueued.disconnect(tell)

        assert told == ["inner", "outer"]

    def test_captured_callbacks_can_be_called_one_by_one(self):
        with self.captureOnCommitCallbacks() as callbacks:
            enqueue("email", 1, task_id="first")
            enqueue("email", 1, task_id="second")
        assert self.redq.keys() == []

        callbacks[1]()
        assert sent(self.redq) == ["second"]
        callbacks[0]()
        callbacks[1]()
        assert sent(self.redq) == ["first", "second"]

    def test_hook_that_enqueues_is_followed(self):
        with self.captureOnCommitCallbacks(execute=True):
            enqueue("email", 1, task_id="first")
            transaction.on_commit(lambda: enqueue("email", 1, task_id="of-the-hook"))

        assert sent(self.redq) == ["first", "of-the-hook"]

    def test_rollback_inside_a_capture_drops(self):
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            enqueue("email", 1, task_id="kept")
            with rolled_back():
                enqueue("email", 1, task_id="undone")

        assert len(callbacks) == 1
        assert sent(self.redq) == ["kept"]


# --- where Redis refuses ---------------------------------------------------------------------


@pytest.fixture
def errors(caplog):
    """What ``django_redq.producer`` logs."""
    caplog.set_level(logging.DEBUG, "django_redq.producer")
    return lambda: [record for record in caplog.records if record.name == "django_redq.producer"]


def test_outage_at_the_commit_is_logged_for_each_task_and_raised(transactional_db, errors):
    with pytest.raises(EnqueueFailed) as caught, transaction.atomic():
        User.objects.create(username="ann")
        enqueue("email", "secret", task_id="t1")
        enqueue_many("webhook", [TaskSpec(payload="secret", task_id="t2")])

    assert caught.value.tasks == (("email", "t1"), ("webhook", "t2"))
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    assert User.objects.filter(username="ann").exists()
    assert [(record.levelname, record.args[:2]) for record in errors()] == [
        ("ERROR", ("t1", "email")),
        ("ERROR", ("t2", "webhook")),
    ]
    assert "secret" not in "".join(record.getMessage() for record in errors())


def test_all_levels_are_tried_before_the_outage_is_raised(transactional_db, errors):
    called = []
    with pytest.raises(EnqueueFailed) as caught, transaction.atomic():
        enqueue("email", 1, task_id="a")
        with transaction.atomic():
            enqueue("email", 1, task_id="b")
            with transaction.atomic():
                enqueue("email", 1, task_id="c")
        transaction.on_commit(lambda: called.append("between"))
        enqueue("email", 1, task_id="d")
        transaction.on_commit(lambda: called.append("behind"))

    assert [record.args[0] for record in errors()] == ["a", "d", "b", "c"]
    assert [task_id for _, task_id in caught.value.tasks] == ["a", "d", "b", "c"]
    assert called == ["between"]


def test_hook_that_was_rolled_back_is_not_waited_for(transactional_db, errors):
    with pytest.raises(EnqueueFailed) as caught, transaction.atomic():
        enqueue("email", 1, task_id="kept")
        with rolled_back():
            enqueue("email", 1, task_id="undone")

    assert [task_id for _, task_id in caught.value.tasks] == ["kept"]


def test_failures_are_told_once(redq, transactional_db, errors):
    def fails():
        raise Undo

    away = {"redq": {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": "redis://127.0.0.1:1"}}
    # A user's hook keeps ours from raising; the transaction after it has nothing to do with that.
    with override_settings(CACHES=away), pytest.raises(Undo), transaction.atomic():
        enqueue("email", 1, task_id="lost")
        transaction.on_commit(fails)
        with transaction.atomic():
            enqueue("email", 1, task_id="never-tried")
    with transaction.atomic():
        enqueue("email", 1, task_id="sent")

    assert sent(redq) == ["sent"]
    assert [record.args[0] for record in errors()] == ["lost"]


class OutageTest(TestCase):
    def test_hook_called_again_tells_no_more(self):
        with self.captureOnCommitCallbacks() as callbacks:
            enqueue("email", 1, task_id="first")
            enqueue("email", 1, task_id="second")

        callbacks[0]()
        with pytest.raises(EnqueueFailed) as caught:
            callbacks[1]()
        callbacks[1]()

        assert [task_id for _, task_id in caught.value.tasks] == ["first", "second"]


def test_one_queues_fault_is_not_that_of_the_others(redq, transactional_db, errors):
    enqueue("webhook", 1, task_id="t0")
    redq.configure(queues={"email": {"SHARDS": 4}, "webhook": {"SHARDS": 5}, "default": {}})

    with pytest.raises(EnqueueFailed) as caught, transaction.atomic():
        for queue in ("email", "webhook", "default"):
            enqueue(queue, 1, task_id=f"of-{queue}")

    assert caught.value.tasks == (("webhook", "of-webhook"),)
    assert "SHARDS" in str(caught.value.__cause__)
    assert sent(redq) == ["of-default", "of-email", "t0"]


def test_one_shards_fault_is_not_that_of_the_others(redq, transactional_db, errors):
    redq.configure(queues={"email": {"SHARDS": 2}})
    redq.client.set(redq.key("email", 1, "stream"), "no stream")

    with pytest.raises(EnqueueFailed) as caught, transaction.atomic():
        for n in range(8):
            enqueue("email", n, task_id=f"t{n}")

    failed = [task_id for _, task_id in caught.value.tasks]
    stored = list(redq.world()["{email:0}:payload"])
    assert failed
    assert stored
    assert sorted(failed + stored) == [f"t{n}" for n in range(8)]


# --- async code ------------------------------------------------------------------------------


async def async_view(request):
    result = await aenqueue("email", {"user": request.GET["name"]}, task_id="of-async-view")
    many = await aenqueue_many("email", [TaskSpec(payload=1, task_id="many")])
    return JsonResponse({"duplicates": [result.duplicate, many[0].duplicate]})


@sync_to_async
def _create(name):
    with transaction.atomic():
        User.objects.create(username=name)
        result = async_to_sync(aenqueue)("email", {"user": name}, task_id="of-block")
    return result.duplicate


async def async_view_with_orm(request):
    return JsonResponse({"duplicate": await _create(request.GET["name"])})


def sync_view(request):
    with transaction.atomic():
        User.objects.create(username=request.GET["name"])
        first = enqueue("email", 1, task_id="of-sync-view")
        second = async_to_sync(aenqueue)("email", 2, task_id="of-sync-view-2")
        if "undo" in request.GET:
            transaction.set_rollback(True)
    return JsonResponse({"duplicates": [first.duplicate, second.duplicate]})


urlpatterns = [
    path("async", async_view),
    path("orm", async_view_with_orm),
    path("sync", sync_view),
]


@pytest.fixture
def urls():
    with override_settings(ROOT_URLCONF=__name__):
        yield


def test_async_view_sends_at_once_where_no_transaction_is_open(redq, transactional_db, urls):
    response = asyncio.run(AsyncClient().get("/async", {"name": "ann"}))

    assert response.json() == {"duplicates": [False, False]}
    assert sent(redq) == ["many", "of-async-view"]


def test_async_call_sees_the_transaction_of_the_thread_that_it_is_called_for(
    redq, transactional_db, urls
):
    response = asyncio.run(AsyncClient().get("/orm", {"name": "ann"}))

    assert response.json() == {"duplicate": None}
    assert sent(redq) == ["of-block"]


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("undo", [False, True])
def test_sync_view_sends_with_its_commit(redq, transactional_db, urls, client, undo):
    query = {"name": "ann", **({"undo": "1"} if undo else {})}
    response = client().get("/sync", query)
    if client is AsyncClient:
        response = asyncio.run(response)

    assert response.json() == {"duplicates": [None, None]}
    assert sent(redq) == ([] if undo else ["of-sync-view", "of-sync-view-2"])


class AsyncCaptureTest(TestCase):
    @pytest.fixture(autouse=True)
    def _redq(self, redq):
        self.redq = redq

    async def test_async_test_has_its_transaction_seen(self):
        assert (await aenqueue("email", 1)).duplicate is None
        assert self.redq.keys() == []
        assert (await aenqueue("email", 1, mode="immediate")).duplicate is False

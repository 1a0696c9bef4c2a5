"""Who holds a task keeps it for as long as it runs, and is told when it has lost it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_redq.handlers import handler
from django_redq.outcome import Reason
from django_redq.task import TaskState
from tests.engine import GHOST
from tests.harness import PATIENCE


class Held:
    """A handler that waits until the test lets it go, and what became of its runs."""

    def __init__(self, *, is_async=False, error=None):
        self.inside = threading.Semaphore(0)
        self.gate = threading.Event()
        self.tasks = []
        self.ended = []

        if is_async:

            @handler("default")
            async def work(task):
                self._begin(task)
                try:
                    while not self.gate.is_set():  # noqa: ASYNC110 - it is a thread's event
                        await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    self.ended.append("cancelled")
                    raise
                self._end(error)

        else:

            @handler("default")
            def work(task):
                self._begin(task)
                assert self.gate.wait(PATIENCE)
                self._end(error)

    def wait_inside(self):
        """Waits until one more run has begun; its task."""
        assert self.inside.acquire(timeout=PATIENCE)
        return self.tasks[-1]

    def _begin(self, task):
        self.tasks.append(task)
        self.inside.release()

    def _end(self, error):
        self.ended.append("ended")
        if error:
            raise error


@pytest.fixture
def quick(engine):
    """Options with which a vanished owner is found at once, and renewals come often."""
    return {"pending_min_idle": 0.6, "recovery_interval": 0.05}


def count_calls(loop, name):
    """A semaphore that is released after each call of this method of a running loop."""
    done, original = threading.Semaphore(0), getattr(loop, name)

    def counted():
        result = original()
        done.release()
        return result

    setattr(loop, name, counted)
    return done


def steal(engine, to=GHOST):
    """Another consumer takes over all that is pending."""
    for row in engine.pending():
        engine.client.xclaim(
            engine.key("stream"), "default", to, 0, [row["entry"]], retrycount=row["count"] + 1
        )


def renew(consumer):
    """Has the consumer renew what it holds now, not later."""
    consumer._renewer.renew_all()


# --- kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_a_long_run_is_not_taken_over_by_an_idle_consumer_beside_it(engine, quick, is_async):
    work = Held(is_async=is_async)
    owner = engine.start("default", **quick)
    engine.enqueue()
    work.wait_inside()
    other = engine.start("default", **quick)
    rounds = count_calls(other._recoverer, "recover")
    # Five times PENDING_MIN_IDLE.
    for _ in range(int(5 * 0.6 / 0.05)):
        assert rounds.acquire(timeout=PATIENCE)
    (row,) = engine.pending()
    assert (row["consumer"], row["count"]) == (owner.name, 1)
    work.gate.set()
    engine.wait_counts(owner, Done=1)
    assert other.counts == {}
    assert [task.attempt for task in work.tasks] == [1]
    assert not work.tasks[0].lost
    engine.assert_drained()


def test_what_waits_for_a_slot_is_renewed_too(engine, quick):
    work = Held()
    owner = engine.start("default", concurrency=1, prefetch=2, **quick)
    for _ in range(3):
        engine.enqueue()
    work.wait_inside()
    engine.wait_until(lambda: len(engine.pending()) == 3)
    engine.age(idle=500)
    renew(owner)
    assert max(row["idle"] for row in engine.pending()) < 500
    work.gate.set()
    engine.wait_counts(owner, Done=3)


def test_a_renewal_does_not_raise_the_count(engine):
    work = Held()
    owner = engine.start("default")
    engine.enqueue()
    work.wait_inside()
    for _ in range(5):
        renew(owner)
    assert [row["count"] for row in engine.pending()] == [1]
    work.gate.set()
    engine.wait_counts(owner, Done=1)


# --- lost --------------------------------------------------------------------------------------


def test_a_sync_handler_can_see_that_its_task_is_lost_and_settles_nothing(engine, caplog):
    caplog.set_level("INFO", "django_redq")
    work = Held()
    owner = engine.start("default")
    task_id = engine.enqueue()
    task = work.wait_inside()
    renew(owner)
    assert not task.lost
    steal(engine)
    renew(owner)
    assert task.lost
    assert work.ended == []
    work.gate.set()
    engine.wait_counts(owner, stale=1)
    assert "another consumer has it" in caplog.text
    assert engine.task(task_id).consumer == GHOST
    assert [row["consumer"] for row in engine.pending()] == [GHOST]
    assert owner.counts == {"stale": 1}


@pytest.mark.parametrize("error", [None, ValueError("too late")])
def test_who_did_not_notice_the_loss_settles_nothing_either(engine, error):
    work = Held(error=error)
    owner = engine.start("default")
    task_id = engine.enqueue()
    work.wait_inside()
    steal(engine)
    work.gate.set()
    engine.wait_counts(owner, stale=1)
    info = engine.task(task_id)
    assert (info.state, info.consumer, info.errors) == (TaskState.RUNNING, GHOST, ())


def test_an_async_handler_whose_task_is_lost_is_cancelled(engine):
    work = Held(is_async=True)
    owner = engine.start("default")
    engine.enqueue()
    task = work.wait_inside()
    steal(engine)
    renew(owner)
    engine.wait_until(lambda: owner.is_idle)
    assert task.lost
    assert work.ended == ["cancelled"]
    assert owner.counts == {}
    assert [row["consumer"] for row in engine.pending()] == [GHOST]


def test_what_was_lost_before_it_began_is_not_begun(engine):
    work = Held()
    owner = engine.start("default", concurrency=1, prefetch=1)
    first, _ = engine.enqueue(), engine.enqueue()
    assert work.wait_inside().id == first
    engine.wait_until(lambda: len(engine.pending()) == 2)
    last = engine.pending()[-1]["entry"]
    engine.client.xclaim(engine.key("stream"), "default", GHOST, 0, [last])
    renew(owner)
    work.gate.set()
    engine.wait_counts(owner, Done=1)
    engine.wait_until(lambda: owner.is_idle)
    assert [task.id for task in work.tasks] == [first]
    assert [row["consumer"] for row in engine.pending()] == [GHOST]


def test_a_task_that_was_wiped_from_redis_is_lost(engine, caplog):
    caplog.set_level("INFO", "django_redq")
    work = Held()
    owner = engine.start("default")
    engine.enqueue()
    task = work.wait_inside()
    engine.client.delete(*engine.redq.keys())
    renew(owner)
    assert task.lost
    assert "was removed from Redis" in caplog.text
    work.gate.set()
    engine.wait_until(lambda: owner.is_idle)
    engine.assert_drained()


# --- tampered with -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_renewed", [False, True], ids=["not yet renewed", "renewed"])
def test_the_entry_of_a_running_task_may_be_deleted(engine, is_renewed):
    work = Held()
    owner = engine.start("default")
    engine.enqueue()
    task = work.wait_inside()
    engine.client.xdel(engine.key("stream"), engine.pending()[0]["entry"])
    if is_renewed:
        renew(owner)
        renew(owner)
    assert not task.lost
    work.gate.set()
    engine.wait_counts(owner, Done=1)
    engine.assert_drained()
    assert engine.scheduler().run_once() == 0
    assert len(work.tasks) == 1


def test_a_failed_task_whose_entry_was_deleted_is_retried(engine):
    work = Held(error=ValueError("no luck"))
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 60})
    owner = engine.start("default")
    task_id = engine.enqueue()
    work.wait_inside()
    engine.client.xdel(engine.key("stream"), engine.pending()[0]["entry"])
    renew(owner)
    work.gate.set()
    engine.wait_counts(owner, RetryAt=1)
    info = engine.task(task_id)
    assert (info.state, info.attempts) == (TaskState.SCHEDULED, 1)


def test_a_held_task_without_an_entry_is_not_put_back_by_the_janitor(engine):
    work = Held()
    owner = engine.start("default", pending_min_idle=1000)
    engine.enqueue()
    work.wait_inside()
    engine.client.xdel(engine.key("stream"), engine.pending()[0]["entry"])
    renew(owner)
    scheduler = engine.scheduler()
    scheduler.run_once()
    assert [scheduler.clean_once() for _ in range(3)] == [0, 0, 0]
    work.gate.set()
    engine.wait_counts(owner, Done=1)
    engine.assert_drained()


def test_a_group_that_is_made_again_runs_nothing_twice_in_the_same_consumer(engine):
    work = Held()
    owner = engine.start("default", concurrency=4)
    ids = [engine.enqueue() for _ in range(3)]
    for _ in ids:
        work.wait_inside()
    engine.client.xgroup_destroy(engine.key("stream"), "default")
    # This one wakes the consumer, whose fetch brings the running ones, too.
    ids.append(engine.enqueue())
    assert work.wait_inside().id == ids[-1]
    renew(owner)
    assert not any(task.lost for task in work.tasks)
    work.gate.set()
    engine.wait_counts(owner, Done=4)
    assert [task.id for task in work.tasks] == ids
    engine.assert_drained()


def test_a_pending_row_that_was_acknowledged_by_somebody_is_settled_all_the_same(engine):
    work = Held()
    owner = engine.start("default")
    engine.enqueue()
    work.wait_inside()
    engine.client.xack(engine.key("stream"), "default", engine.pending()[0]["entry"])
    renew(owner)
    work.gate.set()
    engine.wait_counts(owner, Done=1)
    engine.assert_drained()


# --- replies that never came -------------------------------------------------------------------


def test_what_bears_its_name_but_was_never_run_is_adopted_without_a_lost_attempt(engine):
    work = Held()
    work.gate.set()
    owner = engine.consumer(concurrency=10)
    ids = [engine.enqueue(max_attempts=1) for _ in range(3)]
    engine.deliver(to=owner.name)
    engine.age()
    owner._engine.look_for_orphans()
    owner.start()
    engine.wait_counts(owner, Done=3)
    assert sorted(task.id for task in work.tasks) == sorted(ids)
    assert {task.attempt for task in work.tasks} == {1}
    engine.assert_drained()


def test_its_own_orphans_are_found_by_its_own_recovery(engine):
    work = Held()
    work.gate.set()
    owner = engine.start("default", recovery_interval=0.05)
    engine.client.hset(engine.key("meta"), "paused", 1)
    task_id = engine.enqueue()
    engine.deliver(to=owner.name)
    engine.age()
    engine.client.hdel(engine.key("meta"), "paused")
    engine.wait_counts(owner, Done=1)
    assert [(task.id, task.attempt) for task in work.tasks] == [(task_id, 1)]


def test_an_adopted_entry_without_a_record_is_removed(engine, caplog):
    owner = engine.consumer()
    engine.enqueue()
    (entry,) = engine.deliver(to=owner.name)
    engine.client.xdel(engine.key("stream"), entry)
    engine.client.delete(engine.key("entry"), engine.key("payload"))
    owner._engine.look_for_orphans()
    owner.start()
    engine.wait_until(lambda: engine.pending() == [])
    engine.assert_drained()


def test_a_broken_shard_does_not_stop_adoption(engine):
    engine.configure(SHARDS=2)
    work = Held()
    work.gate.set()
    owner = engine.consumer(concurrency=10)
    engine.client.set(engine.key("stream", shard=0), "no stream")
    engine.enqueue(task_id="b")
    engine.deliver(shard=1, to=owner.name)
    owner._engine.look_for_orphans()
    owner.start()
    engine.wait_counts(owner, Done=1)


# --- late renewals -----------------------------------------------------------------------------


def test_who_renews_late_renews_first_and_recovers_nothing_for_a_while(engine):
    work = Held()
    work.gate.set()
    engine.enqueue()
    engine.abandon()
    consumer = engine.consumer(pending_min_idle=1000)
    recoverer, renewer = consumer._recoverer, consumer._renewer
    renewer._last -= 10_000
    renewer.step()
    recoverer.step()
    assert [row["consumer"] for row in engine.pending()] == [GHOST]


def test_who_renews_in_time_recovers(engine):
    work = Held()
    work.gate.set()
    engine.enqueue()
    engine.abandon()
    consumer = engine.start("default", pending_min_idle=1000, recovery_interval=0.05)
    engine.wait_counts(consumer, Done=1)


def test_a_worker_lost_by_a_theft_of_the_last_attempt_ends_dead(engine):
    work = Held()
    owner = engine.start("default")
    engine.enqueue(max_attempts=1)
    work.wait_inside()
    engine.age()
    other = engine.consumer()
    assert other.recover_once() == 1
    assert engine.only_dead()["reason"] == Reason.WORKER_LOST
    work.gate.set()
    engine.wait_counts(owner, stale=1)
    assert engine.only_dead()["reason"] == Reason.WORKER_LOST

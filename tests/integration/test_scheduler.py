"""Schedulers: leases with one owner each, and what is due moved once, in order, soon."""

from __future__ import annotations

import time

import pytest

from django_redq.broker.keys import shard_of
from django_redq.errors import ConfigurationError, UnknownQueue
from django_redq.handlers import handler
from django_redq.outcome import Reason
from django_redq.producer import Producer
from django_redq.scheduler import janitor
from django_redq.scheduler.scheduler import Scheduler
from django_redq.task import TaskSpec, TaskState

pytestmark = pytest.mark.every_setup

DAY = 86_400.0
NEVER = 3_600.0
"""Longer than any test: who is woken all the same was woken by a hint."""


def enqueue_many(count, queue="default", **options):
    specs = [TaskSpec(payload=n, **options) for n in range(count)]
    return [one.task_id for one in Producer(queue).enqueue_many(specs, mode="immediate")]


def tomorrow():
    """A clock that is a day ahead and some."""
    return time.time() + DAY + 60


def lease(engine, shard=0, queue="default"):
    return (engine.client.get(engine.key("lease", queue, shard)) or b"").decode()


# --- moving ------------------------------------------------------------------------------------


@pytest.mark.every_server
def test_what_is_due_is_moved_and_the_rest_stays(engine):
    engine.configure(SHARDS=3)
    due = set(enqueue_many(20, delay=DAY))
    later = set(enqueue_many(20, delay=2 * DAY))
    scheduler = engine.scheduler(now=tomorrow)
    assert scheduler.run_once() == 20
    assert scheduler.run_once() == 0
    assert scheduler.moved == 20
    assert {engine.task(task_id).state for task_id in due} == {TaskState.READY}
    assert {engine.task(task_id).state for task_id in later} == {TaskState.SCHEDULED}


def test_by_redis_clock_nothing_is_due_a_day_early(engine):
    enqueue_many(3, delay=DAY)
    assert engine.scheduler().run_once() == 0


def test_tasks_of_a_shard_are_moved_in_the_order_in_which_they_are_due(engine):
    order = []

    @handler("default")
    def work(task):
        order.append(task.payload)

    for delay in (30, 10, 50, 20, 40):
        engine.enqueue(delay, delay=delay)
    engine.promote()
    engine.consumer(concurrency=9).run_once()
    assert order == [10, 20, 30, 40, 50]


def test_more_than_a_batch_is_moved_by_one_run(engine):
    enqueue_many(55, delay=DAY)
    assert engine.scheduler(now=tomorrow, batch_size=10).run_once() == 55


def test_more_than_a_batch_is_moved_by_a_running_scheduler_without_a_pause(engine):
    scheduler = engine.scheduler(now=tomorrow, batch_size=10, tick_interval=NEVER, lease_ttl=NEVER)
    enqueue_many(55, delay=DAY)
    scheduler.start()
    engine.wait_until(lambda: scheduler.moved == 55)


def test_only_the_queues_that_are_named_are_served(engine):
    engine.redq.configure(queues={"a": {"SHARDS": 1}, "b": {"SHARDS": 1}})
    for queue in ("a", "b"):
        enqueue_many(2, queue, delay=DAY)
    assert engine.scheduler("a", now=tomorrow).run_once() == 2
    assert lease(engine, queue="b") == ""
    assert engine.scheduler(now=tomorrow).run_once() == 2


# --- waking ------------------------------------------------------------------------------------


def running(engine, **options):
    """A scheduler that is awake and waits for hints."""
    scheduler = engine.scheduler(**options)
    scheduler.start()
    shards = sum(queue.shards for queue in scheduler.queues)
    engine.wait_until(lambda: scheduler.leases_held == shards)
    engine.wait_until(lambda: scheduler._ticker.listener.listening)
    return scheduler


def test_something_sooner_than_the_rest_wakes_it(engine):
    engine.configure(SHARDS=4)
    scheduler = running(engine, tick_interval=NEVER, lease_ttl=NEVER)
    enqueue_many(20, delay=DAY)
    soon = enqueue_many(8, delay=0.05)
    engine.wait_until(lambda: scheduler.moved == 8)
    assert {engine.task(task_id).state for task_id in soon} == {TaskState.READY}


def test_a_retry_wakes_it_too(engine):
    engine.configure(RETRY={"POLICY": "fixed", "INTERVAL": 0.05})
    runs = []

    @handler("default")
    def work(task):
        runs.append(task.attempt)
        if task.attempt == 1:
            raise ValueError

    scheduler = running(engine, tick_interval=NEVER, lease_ttl=NEVER)
    consumer = engine.start("default")
    engine.enqueue()
    engine.wait_counts(consumer, Done=1)
    assert (runs, scheduler.moved) == ([1, 2], 1)


def test_it_wakes_for_the_next_one_by_itself(engine):
    scheduler = running(engine, tick_interval=NEVER, lease_ttl=NEVER)
    for delay in (0.05, 0.1, 0.15):
        engine.enqueue(delay=delay)
    engine.wait_until(lambda: scheduler.moved == 3)


def test_a_lost_hint_costs_a_tick_at_most(engine):
    engine.configure(SHARDS=2)
    enqueue_many(10, delay=DAY)
    scheduler = running(engine, tick_interval=0.05, lease_ttl=NEVER)
    # Nobody tells of this one; only a look at the heads finds it.
    for shard in range(2):
        key = engine.key("delay", shard=shard)
        (first,) = engine.client.zrange(key, 0, 0)
        engine.client.zadd(key, {first: 1})
    engine.wait_until(lambda: scheduler.moved == 2)


def test_it_wakes_consumers_for_what_it_has_moved(engine):
    done = []

    @handler("default")
    def work(task):
        done.append(task.id)

    consumer = engine.start("default", block_timeout=NEVER)
    engine.wait_until(lambda: consumer._engine.listener.listening)
    running(engine, tick_interval=NEVER, lease_ttl=NEVER)
    task_id = engine.enqueue(delay=0.05)
    engine.wait_counts(consumer, Done=1)
    assert done == [task_id]


# --- leases ------------------------------------------------------------------------------------


def test_a_lease_names_its_owner_and_lapses_without_it(engine):
    scheduler = engine.scheduler(instance_id="web", lease_ttl=20)
    scheduler.run_once()
    assert scheduler.instance_id.startswith("web-")
    assert lease(engine) == scheduler.instance_id
    assert 0 < engine.client.pttl(engine.key("lease")) <= 20_000


def test_two_instances_share_nothing_and_move_everything_once(engine):
    engine.configure(SHARDS=8)
    ids = enqueue_many(200, delay=0.2)
    both = [engine.scheduler(lease_ttl=5, tick_interval=0.05) for _ in range(2)]
    for one in both:
        one.start()
    engine.wait_until(lambda: sum(one.moved for one in both) == 200)
    assert sum(one.leases_held for one in both) == 8
    owners = {one.instance_id for one in both}
    assert {lease(engine, shard) for shard in range(8)} <= owners
    entries = [
        fields[b"id"].decode()
        for shard in range(8)
        for _, fields in engine.client.xrange(engine.key("stream", shard=shard))
    ]
    assert sorted(entries) == sorted(ids)


def test_a_standby_takes_over_at_once_where_the_owner_stops_cleanly(engine):
    engine.configure(SHARDS=3)
    owner = running(engine, tick_interval=NEVER, lease_ttl=NEVER)
    standby = engine.scheduler(tick_interval=NEVER, lease_ttl=NEVER)
    standby.start()
    engine.wait_until(lambda: standby._ticker.listener.listening)
    assert standby.leases_held == 0
    enqueue_many(6, delay=0.05)
    engine.wait_until(lambda: owner.moved == 6)
    owner.stop()
    engine.wait_until(lambda: standby.leases_held == 3)
    enqueue_many(6, delay=0.05)
    engine.wait_until(lambda: standby.moved == 6)


def test_a_standby_takes_over_after_the_lease_of_a_dead_instance_has_lapsed(engine):
    dead = engine.scheduler(lease_ttl=0.3)
    dead.run_once()
    standby = engine.scheduler(lease_ttl=NEVER, tick_interval=NEVER)
    standby.start()
    engine.wait_until(lambda: standby.leases_held == 1)
    assert lease(engine) == standby.instance_id


def test_a_lease_is_renewed_while_its_owner_lives(engine):
    owner = running(engine, lease_ttl=0.3, tick_interval=0.05)
    standby = engine.scheduler(lease_ttl=0.3, tick_interval=0.05)
    standby.start()
    promotions = []
    original = standby._ticker.promote
    standby._ticker.promote = lambda shards: promotions.append(len(shards)) or original(shards)
    # It has tried often, for much longer than the lease lasts.
    engine.wait_until(lambda: sum(promotions) >= 12)
    assert (owner.leases_held, standby.leases_held) == (1, 0)
    assert lease(engine) == owner.instance_id


def test_a_former_owner_moves_nothing(engine):
    former = engine.scheduler(now=tomorrow)
    former.run_once()
    engine.client.set(engine.key("lease"), "another", px=1_000_000)
    ids = enqueue_many(3, delay=DAY)
    before = engine.redq.world()
    assert former.run_once() == 0
    assert engine.redq.world() == before
    assert former.leases_held == 0
    former.stop()
    # Nor does it give up what is not its own.
    assert lease(engine) == "another"
    assert engine.task(ids[0]).state is TaskState.SCHEDULED


def test_a_clean_stop_leaves_no_lease(engine):
    engine.configure(SHARDS=3)
    scheduler = running(engine)
    scheduler.stop()
    scheduler.stop()
    assert [lease(engine, shard) for shard in range(3)] == [""] * 3
    assert scheduler.stopped.is_set()


def test_one_that_never_started_stops(engine):
    scheduler = engine.scheduler()
    scheduler.stop()
    assert scheduler.stopped.is_set()


# --- faults ------------------------------------------------------------------------------------


@pytest.mark.every_server
@pytest.mark.parametrize("name", ["delay", "stream", "entry"])
def test_one_bad_shard_does_not_stop_the_others(engine, caplog, name):
    engine.configure(SHARDS=4)
    ids = enqueue_many(40, delay=DAY)
    bad = 2
    well = [task_id for task_id in ids if shard_of(task_id, 4) != bad]
    kept = engine.client.zrange(engine.key("delay", shard=bad), 0, -1, withscores=True)
    engine.client.delete(engine.key(name, shard=bad))
    engine.client.set(engine.key(name, shard=bad), "not what it should be")
    scheduler = engine.scheduler(now=tomorrow, tick_interval=0.02)
    assert scheduler.run_once() == len(well)
    assert scheduler.run_once() == 0
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "shard 2 of 'default'" in warnings[0]
    # It is served again once somebody has mended it.
    engine.client.delete(engine.key(name, shard=bad))
    if name == "delay":
        engine.client.zadd(engine.key("delay", shard=bad), dict(kept))
    assert scheduler.run_once() == len(kept)


def test_a_running_scheduler_goes_on_beside_a_bad_shard(engine):
    engine.configure(SHARDS=2)
    enqueue_many(10, delay=DAY)
    engine.client.delete(engine.key("delay", shard=0))
    engine.client.set(engine.key("delay", shard=0), "no sorted set")
    scheduler = engine.scheduler(tick_interval=0.02)
    scheduler.start()
    engine.wait_until(lambda: scheduler.leases_held == 1)
    for moved in range(1, 4):
        task_id = next(f"t{n}" for n in range(99) if shard_of(f"t{n}", 2) == 1)
        engine.enqueue(task_id=task_id, delay=0.03)
        engine.wait_until(lambda moved=moved: scheduler.moved == moved)
        engine.client.delete(engine.key("stream", shard=1))
        engine.client.hdel(engine.key("payload", shard=1), task_id)


def test_a_score_that_is_no_time_harms_nothing(engine):
    ids = enqueue_many(3, delay=DAY)
    engine.client.zadd(engine.key("delay"), {ids[0]: "inf", ids[1]: "-inf"})
    scheduler = running(engine, now=tomorrow, tick_interval=0.02)
    engine.wait_until(lambda: scheduler.moved == 2)
    assert engine.task(ids[0]).state is TaskState.SCHEDULED


def test_a_shard_count_that_redis_disagrees_with_refuses_to_start(engine):
    engine.redq.configure(queues={"default": {"SHARDS": 4}})
    engine.enqueue()
    engine.redq.configure(queues={"default": {"SHARDS": 8}})
    with pytest.raises(ConfigurationError, match="SHARDS is '8' here and '4' in Redis"):
        engine.scheduler().start()
    assert lease(engine) == ""


def test_a_disagreement_that_is_found_later_ends_it_with_the_reason(own_engine):
    engine = own_engine
    engine.redq.configure(queues={"default": {"SHARDS": 4}})
    engine.enqueue()
    engine.redq.server.kill()
    engine.redq.configure(queues={"default": {"SHARDS": 8}})
    scheduler, consumer = engine.scheduler(), engine.consumer()
    scheduler.start()
    consumer.start()
    engine.redq.server.start()
    engine.wait_until(lambda: scheduler.fatal and consumer.fatal)
    assert "'8' here and '4' in Redis" in str(scheduler.fatal)
    assert "'8' here and '4' in Redis" in str(consumer.fatal)


@pytest.mark.parametrize(
    ("queues", "options", "error"),
    [
        (("nowhere",), {}, UnknownQueue),
        ((), {"batch_size": 0}, ConfigurationError),
        ((), {"lease_ttl": -1}, ConfigurationError),
        ((), {"instance_id": "{x}"}, ConfigurationError),
        ((), {"no_such_option": 1}, ConfigurationError),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(engine, queues, options, error):
    with pytest.raises(error):
        Scheduler(*queues, **options)
    assert engine.redq.keys() == []


# --- the janitor -------------------------------------------------------------------------------


class Later:
    """A clock that a test moves."""

    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return time.time() + self.ahead


@pytest.fixture
def later():
    return Later()


@pytest.fixture
def clean(engine, later):
    """Has a scheduler that holds the leases clean up; how many tasks it put back."""

    def cleaning():
        scheduler = engine.scheduler(now=later)
        scheduler.run_once()
        put_back = scheduler.clean_once()
        scheduler.stop()
        return put_back

    return cleaning


def test_a_healthy_queue_is_left_as_it_is(engine, clean):
    handler("default")(reject)
    enqueue_many(5, delay=DAY)
    enqueue_many(5)
    engine.consumer(concurrency=2).run_once()
    engine.abandon()
    enqueue_many(5)
    before = engine.redq.world()
    assert clean() == 0
    assert engine.redq.world() == before


def reject(task):
    from django_redq.errors import Reject

    raise Reject("no")


def test_a_task_that_was_taken_from_the_schedule_is_put_back(engine, clean):
    first, second = enqueue_many(2, delay=DAY)
    engine.client.zrem(engine.key("delay"), first)
    assert clean() == 1
    assert engine.task(first).state is TaskState.READY
    assert engine.task(second).state is TaskState.SCHEDULED


@pytest.mark.every_server
def test_tasks_whose_stream_was_dropped_are_put_back_after_a_grace(engine, clean, later):
    runs = []

    @handler("default")
    def work(task):
        runs.append(task.id)

    ids = enqueue_many(50)
    engine.client.delete(engine.key("stream"))
    # Somebody might be running them, and say so.
    assert clean() == 0
    later.ahead = DAY
    assert clean() == 50
    consumer = engine.consumer(concurrency=100, read_count=100)
    assert consumer.run_once() == 50
    assert set(runs) == set(ids)
    engine.assert_drained()


def test_all_places_lost_at_once(engine, clean, later):
    ids = enqueue_many(30) + enqueue_many(30, delay=DAY)
    for name in ("stream", "entry", "delay"):
        engine.client.delete(engine.key(name))
    assert clean() == 60
    assert {engine.task(task_id).state for task_id in ids} == {TaskState.READY}


def test_a_dead_letter_that_vanished_is_dead_again(engine, clean):
    handler("default")(reject)
    task_id = engine.enqueue()
    engine.consumer().run_once()
    engine.client.delete(engine.key("dlq"))
    assert clean() == 1
    letter = engine.only_dead()
    assert (letter["id"], letter["attempts"]) == (task_id, "1")
    assert letter["reason"] == Reason.EXHAUSTED
    assert engine.task(task_id).state is TaskState.DEAD


def test_a_running_janitor_puts_back_by_itself(engine, monkeypatch, later):
    monkeypatch.setattr(janitor, "STEP_INTERVAL", 0.02)
    task_id = engine.enqueue(delay=DAY)
    scheduler = running(engine)
    engine.client.zrem(engine.key("delay"), task_id)
    engine.wait_until(lambda: engine.task(task_id).state is TaskState.READY)
    assert scheduler.fatal is None


def test_without_the_lease_nothing_is_cleaned(engine):
    task_id = engine.enqueue(delay=DAY)
    engine.client.zrem(engine.key("delay"), task_id)
    engine.client.set(engine.key("lease"), "another", px=1_000_000)
    scheduler = engine.scheduler()
    scheduler.run_once()
    assert scheduler.clean_once() == 0
    assert engine.client.zcard(engine.key("delay")) == 0


def test_a_broken_shard_does_not_stop_the_janitor(engine, clean):
    engine.configure(SHARDS=2)
    engine.enqueue()
    engine.client.set(engine.key("payload", shard=0), "no hash")
    task_id = next(f"t{n}" for n in range(99) if shard_of(f"t{n}", 2) == 1)
    engine.enqueue(task_id=task_id, delay=DAY)
    engine.client.zrem(engine.key("delay", shard=1), task_id)
    assert clean() == 1


def test_names_of_dead_consumers_are_dropped_once_they_hold_nothing(engine, monkeypatch):
    monkeypatch.setattr(janitor, "FORGET_AFTER", 0.0)
    for name in ("holds", "is-empty"):
        engine.enqueue()
        engine.deliver(to=name)
    (row,) = [row for row in engine.pending() if row["consumer"] == "is-empty"]
    engine.client.xack(engine.key("stream"), "default", row["entry"])
    scheduler = engine.scheduler()
    scheduler.run_once()
    scheduler._janitor.step()
    assert engine.consumers() == {"holds"}


def test_a_live_consumers_name_is_kept(engine):
    consumer = engine.start("default")
    engine.wait_until(lambda: consumer.name in engine.consumers())
    scheduler = engine.scheduler()
    scheduler.run_once()
    scheduler._janitor.step()
    assert engine.consumers() == {consumer.name}

"""The server forgets every script, again and again: each is sent whole, and nothing is noticed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_redq.handlers import handler
from django_redq.producer import Producer, aget_task, cancel
from django_redq.queue import Queue
from django_redq.task import TaskSpec


@pytest.mark.every_server
def test_flushed_scripts_are_not_noticed(engine, caplog):
    engine.configure(SHARDS=2, CONCURRENCY=4, RETRY={"POLICY": "fixed", "INTERVAL": 0.02})
    runs, lock = [], threading.Lock()

    @handler("default")
    def work(task):
        with lock:
            runs.append((task.id, task.attempt))
        engine.client.script_flush()
        if task.payload % 5 == 0 and task.attempt == 1:
            raise ValueError

    engine.scheduler(tick_interval=0.02).start()
    consumers = [engine.start("default") for _ in range(2)]
    specs = [TaskSpec(payload=n, delay=0.02 if n % 2 else None) for n in range(40)]
    accepted = set()
    for start in range(0, 40, 10):
        engine.client.script_flush()
        results = Producer("default").enqueue_many(specs[start : start + 10], mode="immediate")
        accepted |= {one.task_id for one in results}
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in consumers) == 40)
    assert {task_id for task_id, _ in runs} == accepted
    assert len(runs) == 48
    engine.assert_drained()
    assert "does not answer" not in caplog.text


def test_flushed_all_the_time_under_load(engine, caplog):
    engine.configure(SHARDS=4, CONCURRENCY=4, RETRY={"POLICY": "fixed", "INTERVAL": 0.02})
    runs, lock, over = [], threading.Lock(), threading.Event()

    @handler("default")
    def work(task):
        with lock:
            runs.append((task.id, task.attempt))
        over.wait(0.01)
        if task.payload % 10 == 0 and task.attempt == 1:
            raise ValueError

    def flush():
        while not over.wait(0.1):
            engine.client.script_flush()

    flushing = threading.Thread(target=flush)
    flushing.start()
    try:
        engine.scheduler().start()
        consumers = [engine.start("default") for _ in range(2)]
        ids = [engine.enqueue(n, delay=0.1 if n % 3 == 0 else None) for n in range(400)]
        engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in consumers) == 400)
    finally:
        over.set()
        flushing.join()
    expected = [(task_id, 1) for task_id in ids] + [(task_id, 2) for task_id in ids[::10]]
    assert sorted(runs) == sorted(expected)
    engine.assert_drained()
    assert "does not answer" not in caplog.text


def test_single_calls_are_sent_whole_too(engine):
    task_id = engine.enqueue(delay=1000)
    engine.client.script_flush()
    assert engine.task(task_id) is not None
    engine.client.script_flush()
    assert asyncio.run(aget_task("default", task_id)) is not None
    engine.client.script_flush()
    Queue("default").pause()
    engine.client.script_flush()
    assert cancel("default", task_id).canceled

"""A fault of our own, or of a library, in the middle of a round trip costs a second, and no task or slot."""

from __future__ import annotations

import pytest

from django_redq.handlers import handler


@pytest.mark.parametrize("script", ["fetch", "ack"])
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
def test_a_round_trip_that_breaks_in_an_unheard_of_way(
    engine, monkeypatch, caplog, script, is_late
):
    runs, broken = [], []
    handler("default")(lambda task: runs.append(task.id))
    consumer = engine.consumer(concurrency=1)
    run_many = consumer._broker.run_many

    def breaking(batch):
        if broken or script not in {call.script for call in batch}:
            return run_many(batch)
        if is_late:
            run_many(batch)
        broken.append(script)
        raise KeyError("of ours")

    monkeypatch.setattr(consumer._broker, "run_many", breaking)
    ids = [engine.enqueue() for _ in range(3)]
    consumer.start()
    engine.wait_counts(consumer, Done=3)
    assert broken
    assert "KeyError: 'of ours'" in caplog.text
    assert sorted(runs) == sorted(ids)
    engine.assert_drained()


def test_who_is_told_and_fails_keeps_nothing_from_being_settled(engine, monkeypatch, caplog):
    engine.configure(SHARDS=4)

    @handler("default")
    def work(task): ...

    consumer = engine.consumer(concurrency=8)
    settled = consumer._engine.announcer.settled
    told = []

    def failing(held):
        told.append(held)
        if len(told) == 1:
            raise KeyError("of ours")
        settled(held)

    monkeypatch.setattr(consumer._engine.announcer, "settled", failing)
    for _ in range(8):
        engine.enqueue()
    consumer.start()
    engine.assert_drained()
    engine.wait_until(lambda: consumer.is_idle)
    assert "KeyError: 'of ours'" in caplog.text

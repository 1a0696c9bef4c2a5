"""The network passes nothing on and closes nothing: who waits for an answer notices that none comes."""

from __future__ import annotations

import time

import pytest

from django_redq.broker import wakeups
from django_redq.handlers import handler


@pytest.fixture
def impatient(monkeypatch):
    """A listener that asks soon whether anybody is there."""
    for name in ("_QUIET", "_ANSWER", "_POLL"):
        monkeypatch.setattr(wakeups, name, 0.2)


def subscribers(engine):
    return {row["id"] for row in engine.client.client_list(_type="pubsub")}


@pytest.mark.usefixtures("impatient")
def test_a_listener_that_hears_nothing_listens_anew(own_engine, own_proxied):
    engine = own_engine
    handler("default")(nothing)
    consumer = engine.start("default", block_timeout=3600)
    listener = consumer._engine.listener
    engine.wait_until(lambda: listener.listening)
    own_proxied.silence()
    engine.wait_until(lambda: not listener.listening)
    own_proxied.speak()
    engine.wait_until(lambda: listener.listening)
    for done in (1, 2):
        engine.enqueue()
        engine.wait_counts(consumer, Done=done)


@pytest.mark.usefixtures("impatient")
def test_one_that_hears_no_hints_but_answers_stays(own_engine):
    engine = own_engine
    consumer = engine.start("default", block_timeout=3600)
    engine.wait_until(lambda: consumer._engine.listener.listening)
    (before,) = subscribers(engine)

    def times_asked():
        return engine.client.info("commandstats")["cmdstat_subscribe"]["calls"]

    engine.wait_until(lambda: times_asked() >= 4)
    assert subscribers(engine) == {before}
    assert consumer._engine.listener.listening


def test_a_renewed_listener_has_another_connection(own_engine):
    engine = own_engine
    consumer = engine.start("default")
    listener = consumer._engine.listener
    engine.wait_until(lambda: listener.listening)
    (before,) = subscribers(engine)
    listener.renew()
    engine.wait_until(lambda: subscribers(engine) - {before} and listener.listening)


@pytest.mark.long
def test_connections_that_are_dead_and_open(own_engine, own_proxied, figures):
    """As behind a firewall that has forgotten them."""
    engine = own_engine
    handler("default")(nothing)
    engine.configure(CONCURRENCY=4)
    scheduler, consumers = engine.scheduler(), [engine.start("default") for _ in range(3)]
    scheduler.start()
    engine.wait_until(lambda: all(one._engine.listener.listening for one in consumers))
    for n in range(40):
        engine.enqueue(delay=0.01 * n)
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in consumers) == 40)
    own_proxied.forget_all()
    began = time.monotonic()
    engine.client.zadd(engine.key("delay"), {"t": 1})
    engine.client.hset(engine.key("payload"), "t", b'{"at":1,"payload":1}')
    engine.wait_until(lambda: sum(one.counts.get("Done", 0) for one in consumers) == 41)
    figures(f"work went on {time.monotonic() - began:.1f} s after all connections had died")


def nothing(task):
    """A handler that does nothing."""

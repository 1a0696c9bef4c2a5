"""The network passes nothing on and closes nothing: who waits for an answer notices that none comes."""

from __future__ import annotations

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


def nothing(task):
    """A handler that does nothing."""

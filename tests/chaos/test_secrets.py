"""A password is in nothing that is printed, logged or raised, whether Redis is up, down or refuses."""

from __future__ import annotations

import asyncio
import io
import logging
import traceback
from contextlib import suppress

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from django_redq import aenqueue, enqueue
from django_redq.broker.aio import get_async_broker
from django_redq.broker.sync import get_broker
from django_redq.conf import find_faults, get_config
from django_redq.consumer.consumer import Consumer
from django_redq.devserver import free_port
from tests.harness import until
from tests.integration.admin.visitors import Visitor, address

WORD = "s3cr3t-w0rd"
COMMANDS = (
    ("check",),
    ("redq_stats",),
    ("redq_stats", "--check"),
    ("redq_enqueue", "default", "1"),
    ("redq_dlq", "list", "default"),
    ("redq_queue", "pause", "default"),
    ("redq_scheduler", "--once"),
)


def alias(location, **options):
    return {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": location, "OPTIONS": options}


def forms(host):
    """``CONNECTION`` and the cache alias, by each way to give a password."""
    url, of_alias = f"redis://app:{WORD}@{host}/0", {"CACHE": "redq"}
    login = {"username": "app", "password": WORD}
    sentinel = {"SENTINELS": [host], "SERVICE": "main"}
    return {
        "url": ({"URL": url}, None),
        "query": ({"URL": f"redis://{host}?username=app&password={WORD}"}, None),
        "options": ({"URL": f"redis://{host}/0", "OPTIONS": login}, None),
        "sentinels": ({**sentinel, "OPTIONS": {**login, "sentinel_kwargs": login}}, None),
        "cluster": ({"CLUSTER": [host], "OPTIONS": login}, None),
        "alias": (of_alias, alias(url)),
        "alias list": (of_alias, alias([url])),
        "alias options": (of_alias, alias(f"redis://{host}", USERNAME="app", PASSWORD=WORD)),
        "alias pool": (of_alias, alias(f"redis://{host}", CONNECTION_POOL_KWARGS=login)),
        "alias sentinels": (
            of_alias,
            alias(
                "redis://main/0",
                CLIENT_CLASS="django_redis.client.SentinelClient",
                SENTINELS=[(host.split(":")[0], int(host.split(":")[1]))],
                SENTINEL_KWARGS=login,
                PASSWORD=WORD,
            ),
        ),
        "wrong option": ({"URL": f"redis://{host}", "OPTIONS": {"pasword": WORD}}, None),
        "wrong key": ({"URL": f"redis://{host}", "PASSWORD": WORD}, None),
        "wrong url": ({"URL": f"redis://app:{WORD}#@{host}"}, None),
        "wrong port": ({"URL": f"redis://app@{host}:{WORD}/0"}, None),
        "wrong address": ({"CLUSTER": [f"app:{WORD}@{host}"]}, None),
        "wrong alias": (of_alias, alias(f"redis://app:{WORD}/x@{host}/0")),
    }


@pytest.fixture
def ears():
    """Whatever any logger says, at DEBUG."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(params=["up", "down", "refusing"])
def host(request, redq):
    """Where a server is that knows the password, is none, or is one that does not know it."""
    if request.param == "down":
        return f"127.0.0.1:{free_port()}"
    word = WORD if request.param == "up" else "another"
    redq.client.execute_command(
        "ACL", "SETUSER", "app", "reset", "on", f">{word}", "~*", "&*", "+@all"
    )
    return f"127.0.0.1:{redq.server.port}"


@pytest.fixture
def boss(db):
    return Visitor(superuser=True)


def told_by(act, *args, **options):
    """What an act answers or raises, in full."""
    try:
        return repr(act(*args, **options))
    except BaseException as error:
        return "".join(traceback.format_exception(error)) + repr(error)


def look_at(thing):
    return [repr(thing), str(thing)]


def things():
    """Whatever somebody may print who looks for a fault."""
    yield from find_faults()
    config = get_config()
    broker = get_broker()
    yield from (config, config.connection, broker, vars(broker), broker.client, vars(broker.client))
    yield from asyncio.run(things_of_a_loop())


async def things_of_a_loop():
    broker = get_async_broker()
    told = None
    try:
        await aenqueue("default", 1, mode="immediate")
    except Exception as error:
        told = "".join(traceback.format_exception(error))
    with suppress(Exception):
        await broker.client.aclose()
    return [broker, vars(broker), broker.client, told]


def run_a_consumer():
    consumer = Consumer("default", shutdown_timeout=0.1)
    try:
        consumer.start()
        until(lambda: consumer.fatal or consumer._outage._failing or consumer._engine.running)
    finally:
        consumer.stop()


@pytest.mark.parametrize("form", forms("h:1"))
def test_no_form_of_it_shows(redq, ears, capsys, host, form, boss):
    connection, cache = forms(host)[form]
    redq.configure(queues={"default": {"SHARDS": 1}}, CONNECTION=connection)
    with override_settings(CACHES={**settings.CACHES, **({"redq": cache} if cache else {})}):
        shown = [
            told_by(lambda: [*map(look_at, things())]),
            *(told_by(call_command, *command) for command in COMMANDS),
            told_by(enqueue, "default", 1, mode="immediate"),
            told_by(run_a_consumer),
            *(boss.client.get(address(name)).content.decode() for name in ("changelist", "dead")),
        ]
    out = capsys.readouterr()
    everything = "\n".join([*shown, out.out, out.err, ears.getvalue()])
    assert "127.0.0.1" in everything or "REDQ" in everything or "CACHES" in everything
    assert [line for line in everything.splitlines() if WORD in line] == []


def test_nor_does_it_show_in_what_processes_print(redq, host, request):
    login = {"username": "app", "password": WORD}
    redq.configure(
        queues={"default": {"SHARDS": 1}},
        CONNECTION={"URL": f"redis://{host}", "OPTIONS": login},
    )
    is_up = request.node.callspec.params["host"] == "up"
    running = {
        redq.spawn("redq_consume", "default", "-v", "3"): "serves default",
        redq.spawn("redq_scheduler", "-v", "3"): "serves default",
        redq.spawn("redq_stats", "--watch", "--interval", "0.1"): "scheduled",
    }
    for process, line in running.items():
        process.wait_for(line if is_up else "Redis")
        assert process.terminate() == 0
        assert WORD not in process.output

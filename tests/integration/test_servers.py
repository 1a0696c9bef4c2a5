"""The servers under the tests, and the fixtures that hand them out."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.harness import Redq


@pytest.mark.every_server
def test_redq_points_the_settings_at_a_real_server(redq: Redq) -> None:
    assert redq.client.ping()
    assert settings.REDQ["NAMESPACE"] == redq.namespace
    assert settings.CACHES["redq"]["LOCATION"] == redq.url


def test_world_shows_every_key_of_the_namespace_alone(redq: Redq) -> None:
    redq.client.zadd(redq.key("email", 0, "delay"), {"a": 5})
    redq.client.hset(redq.key("email", 0, "payload"), "a", b"{}")
    redq.client.xadd(redq.key("email", 0, "stream"), {"id": "b"}, id="1-1")
    redq.client.set(redq.key("email", 0, "lease"), "me")

    assert redq.world() == {
        "{email:0}:delay": {"a": 5.0},
        "{email:0}:payload": {"a": b"{}"},
        "{email:0}:stream": [("1-1", {"id": b"b"})],
        "{email:0}:lease": b"me",
    }


def test_configure_changes_the_queues_of_this_test(redq: Redq) -> None:
    redq.configure(queues={"other": {}}, SCHEDULER={"BATCH_SIZE": 7})

    assert settings.REDQ["QUEUES"] == {"other": {}}
    assert settings.REDQ["SCHEDULER"] == {"BATCH_SIZE": 7}
    assert settings.REDQ["NAMESPACE"] == redq.namespace


def test_a_process_gets_the_settings_of_the_test(redq: Redq) -> None:
    redq.configure(queues={"other": {"SHARDS": 3}})
    code = (
        "from django.conf import settings as s;"
        "print(s.REDQ['NAMESPACE'], s.REDQ['QUEUES'], s.CACHES['redq']['LOCATION'])"
    )

    shown = redq.manage("shell", "--no-imports", "-c", code)

    assert (
        shown.stdout.split("\n")[0] == f"{redq.namespace} {{'other': {{'SHARDS': 3}}}} {redq.url}"
    )


def test_data_outlive_the_restart_of_an_own_server(own_redq: Redq) -> None:
    own_redq.client.set(own_redq.key("email", 0, "lease"), "me")

    own_redq.server.restart()

    assert own_redq.world() == {"{email:0}:lease": b"me"}

"""The queues' place in an admin site."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.test import override_settings
from django.urls import path, reverse

import django_redq.admin
from django_redq.models import Queue
from tests.integration.admin.visitors import Visitor, address
from tests.integration.graves import QUEUE, Graveyard

INDEX = reverse("admin:index")

own_site = admin.AdminSite(name="office")
django_redq.admin.register(own_site)
urlpatterns = [
    path("admin/", admin.site.urls),
    path("office/", own_site.urls),
]


@pytest.fixture
def office() -> Iterator[None]:
    """A second admin site beside the first."""
    with override_settings(ROOT_URLCONF=__name__):
        yield


def test_the_index_shows_the_queues_to_who_may_see_them(graves: Graveyard, reader: Visitor):
    assert address("changelist") in reader.client.get(INDEX).content.decode()
    assert address("changelist") not in Visitor("replay").client.get(INDEX).content.decode()


def test_the_sites_content_types_are_not_to_be_seen(graves: Graveyard, boss: Visitor):
    assert ContentType.objects.exists()
    [ours] = [one for model, one in admin.site._registry.items() if model is Queue]

    assert not ours.get_queryset(boss.client.get(INDEX).wsgi_request).exists()


@pytest.mark.parametrize("name", ["add", "delete"])
def test_nothing_can_be_added_or_deleted(graves: Graveyard, boss: Visitor, name: str):
    path = f"{address('changelist')}{'add/' if name == 'add' else '1/delete/'}"

    assert boss.client.get(path).status_code == 404
    assert not [
        one
        for one in boss.get("dead").all("a")
        if "/add/" in one.get("href") and "redq" in one.get("href")
    ]


def test_another_site_keeps_to_itself(office: None, graves: Graveyard, boss: Visitor):
    graves.bury(0)

    listed = boss.open("/office/django_redq/queue/dead/")
    letter = boss.open(listed.link("attempts exhausted"))
    question = boss.post(
        "",
        {**letter.hidden(), "act": "replay-selected"},
        path="/office/django_redq/queue/dead/action/",
    )

    for page in (listed, letter, question):
        assert page.status == 200
        links = [one.get("href") for one in page.all("a")]
        assert not [link for link in links if link.startswith("/admin/")]
        assert not [
            one for one in page.all("form") if (one.get("action") or "").startswith("/admin/")
        ]


def test_the_list_asks_redis_for_no_more_than_it_shows(graves: Graveyard, boss: Visitor):
    large = "x" * 1_000_000
    for _ in range(5):
        graves.bury(0, payload=large, error=large, traceback=large, kind=large)
    boss.get("dead")
    before = graves.client.info("stats")["total_net_output_bytes"]

    page = boss.get("dead", queue=QUEUE)

    sent = graves.client.info("stats")["total_net_output_bytes"] - before
    assert len(page.rows()) == 5
    assert sent < 50_000

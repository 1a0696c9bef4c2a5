"""What a bulk replay does to others who talk to the same Redis."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from pinging import Pinger
from scale_pages import Page
from scale_world import World
from seeding import REPLAYED

from django_redq.dead_letters import DeadLetterQueue

CALM = 5.0
"""Seconds of pinging before."""
LOOK = 1.0
"""Seconds between two looks at the progress page, as somebody has who watches it."""


def measure_replay(world: World) -> dict[str, Any]:
    """Replays the letters of one cause: every tenth of all, so all are looked at."""
    client = Client()
    client.force_login(User.objects.get())
    calm = Pinger(world.url)
    time.sleep(CALM)
    before = calm.end()
    pinger = Pinger(world.url)
    begun, letters = time.monotonic(), DeadLetterQueue(world.queue)
    bulk = letters.start_replay(kind=REPLAYED.kind, exception_type=REPLAYED.exception_type)
    looks = []
    while not bulk.is_over:
        time.sleep(LOOK)
        asked = time.perf_counter()
        page = Page("", "bulk", {"queue": world.queue, "id": bulk.id}).ask(client)
        looks.append((time.perf_counter() - asked) * 1000)
        assert page.status_code == 200, page.content[:2000]
        bulk = letters.bulk(bulk.id)
    return {
        "seconds": time.monotonic() - begun,
        "looked_at": bulk.looked_at,
        "changed": bulk.changed,
        "state": bulk.state,
        "calm": before,
        "ping": pinger.end(),
        "progress_page_max": max(looks),
    }

"""See the app."""

from __future__ import annotations

import sys
from typing import Any

import redis
from django.conf import settings

from django_redq import Task, handler
from tests.harness import PATIENCE


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@handler("default")
@handler("email")
def work(task: Task[dict[str, Any]]) -> None:
    match task.payload:
        case {"say": text}:
            say(f"said {text}")
        case {"fail": text}:
            raise ValueError(text)
        case {"wait": key}:
            say(f"waiting for {key}")
            with redis.Redis.from_url(
                settings.CACHES["redq"]["LOCATION"], socket_timeout=None
            ) as client:
                assert client.blpop([key], PATIENCE) is not None
            say(f"done waiting for {key}")

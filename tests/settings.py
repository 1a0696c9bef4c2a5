"""Settings of the tests, and of the commands that tests start as processes of their own.

A process that a test starts (``redq.manage``, ``redq.spawn`` in ``tests/harness.py``) is told by
environment variables what the test itself has by ``override_settings``:

``REDQ_TEST_URL``       the server; without it nobody listens there, so that a test that forgot
                        its fixture fails at once
``REDQ_TEST_REDQ``      the setting ``REDQ``, as JSON
``REDQ_TEST_APPS``      more installed apps, separated by commas
``REDQ_TEST_CLOCK``     seconds by which the process' wall clock goes wrong
``REDQ_TEST_DATABASE``  the path of a SQLite file; without it the database is in memory
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

if "REDQ_TEST_CLOCK" in os.environ:
    _shift, _time = int(os.environ["REDQ_TEST_CLOCK"]), time.time
    time.time = lambda: _time() + _shift
    time.time_ns = lambda: int((_time() + _shift) * 1e9)

SECRET_KEY = "for tests only"
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "tests.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    *filter(None, os.environ.get("REDQ_TEST_APPS", "").split(",")),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_redq",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
STATIC_URL = "static/"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("REDQ_TEST_DATABASE", ":memory:"),
    },
    # A second one, for the argument ``using``.
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}

CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "redq": {
        "BACKEND": "django_redq.cache.QueueCache",
        "LOCATION": os.environ.get("REDQ_TEST_URL", "redis://127.0.0.1:1/0"),
    },
}

REDQ: dict[str, Any] = {
    "NAMESPACE": "redq-test",
    "CONNECTION": {"CACHE": "redq"},
    "QUEUES": {
        "default": {"SHARDS": 1},
        "email": {"SHARDS": 4},
        "webhook": {"SHARDS": 2, "RETRY": {"POLICY": "fixed", "INTERVAL": 0.05}},
    },
}
if "REDQ_TEST_REDQ" in os.environ:
    REDQ = json.loads(os.environ["REDQ_TEST_REDQ"])

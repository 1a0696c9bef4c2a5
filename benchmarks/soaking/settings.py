"""A project with two queues, for soak.py and every process that it starts."""

import os

SECRET_KEY = "for measurements only"  # noqa: S105
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django_redq", "soaking.work"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}

LEASE_TTL = 3.0
"""Seconds; short, as all that decides how soon a vanished process is noticed."""
PENDING_MIN_IDLE = 6.0
"""Seconds."""

_QUEUE = {
    "MAX_ATTEMPTS": 4,
    "RETRY": {"POLICY": "exponential", "INITIAL": 0.5, "MAX": 5},
    "PENDING_MIN_IDLE": PENDING_MIN_IDLE,
    "RECOVERY_INTERVAL": 1,
    "ENQUEUE_MODE": "immediate",
}
QUEUES = ("orders", "mails")
REDQ = {
    "NAMESPACE": "soak",
    "CONNECTION": {"URL": os.environ["SOAK_URL"]},
    "SCHEDULER": {"LEASE_TTL": LEASE_TTL},
    "QUEUES": {"orders": {"SHARDS": 8, **_QUEUE}, "mails": {"SHARDS": 2, **_QUEUE}},
}

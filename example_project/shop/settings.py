"""Settings of the example shop.

What a deployment would change comes from the environment, and so the demo can put every server on
a free port; the defaults suit ``manage.py redq_devserver`` and ``manage.py runserver`` by hand.
"""

import os
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(os.environ.get("SHOP_VAR", BASE_DIR / "var"))
VAR_DIR.mkdir(parents=True, exist_ok=True)

DEBUG = True
SECRET_KEY = "the example shop keeps no secrets"  # noqa: S105
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_redq",
    "shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"

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

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": VAR_DIR / "shop.sqlite3",
        # The web server and all consumers write at once. WAL lets readers go on meanwhile;
        # IMMEDIATE takes the write lock at BEGIN, where SQLite waits for it, instead of in the
        # middle of a transaction, where it would fail with "database is locked".
        "OPTIONS": {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "redq": {
        "BACKEND": "django_redq.cache.QueueCache",
        "LOCATION": os.environ.get("SHOP_REDIS_URL", "redis://127.0.0.1:6379/0"),
    },
}

REDQ = {
    "QUEUES": {
        "email": {
            "SHARDS": 4,
            "MAX_ATTEMPTS": 5,
            "RETRY": {"POLICY": "fixed", "INTERVAL": 2},
            # How long a killed consumer's tasks wait for another. 30 s is the default; the demo
            # kills consumers and wants to be seen recovering.
            "PENDING_MIN_IDLE": 5,
            "RECOVERY_INTERVAL": 1,
        },
        "webhook": {
            "SHARDS": 4,
            "MAX_ATTEMPTS": 4,
            "RETRY": {"POLICY": "exponential", "INITIAL": 1, "MAX": 4},
            "PENDING_MIN_IDLE": 5,
            "RECOVERY_INTERVAL": 1,
        },
        "loyalty": {"SHARDS": 2, "PENDING_MIN_IDLE": 5, "RECOVERY_INTERVAL": 1},
    },
    # A killed scheduler's standby takes over after this long.
    "SCHEDULER": {"LEASE_TTL": 4},
}

_SMTP = {
    "host": os.environ.get("SHOP_SMTP_HOST", "127.0.0.1"),
    "port": int(os.environ.get("SHOP_SMTP_PORT", "1025")),
    "timeout": 10,
}
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": _SMTP},
    }
else:
    EMAIL_HOST = _SMTP["host"]
    EMAIL_PORT = _SMTP["port"]
    EMAIL_TIMEOUT = _SMTP["timeout"]
DEFAULT_FROM_EMAIL = "The shop <orders@shop.example>"

USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"

REMINDER_DELAY = float(os.environ.get("SHOP_REMINDER_DELAY", "8"))
"""Seconds after which an unpaid order is reminded of. A real shop would say days."""

"""A project with the admin and one queue of 16 shards, for admin_scale.py and the scheduler that it starts."""

import os

SECRET_KEY = "for measurements only"  # noqa: S105
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "scale_settings"
ALLOWED_HOSTS = ["testserver"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"

INSTALLED_APPS = [
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
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}

QUEUE = "orders"
REDQ = {
    "NAMESPACE": "scale",
    "CONNECTION": {"URL": os.environ["SCALE_URL"]},
    "QUEUES": {QUEUE: {"SHARDS": 16}},
}
# Nothing is run here: what is ready stays ready.
SILENCED_SYSTEM_CHECKS = ["redq.W004"]


def __getattr__(name: str) -> object:
    """The addresses, made when they are first asked for: the admin needs these settings before."""
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.contrib import admin  # noqa: PLC0415
    from django.urls import path  # noqa: PLC0415

    return [path("admin/", admin.site.urls)]

"""The README's code blocks, put together to a project and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import PATIENCE, ROOT, Redq

BLOCK = re.compile(r"^```python\n# (?P<name>[^\n]+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

REST_OF_SETTINGS = """
import os
from readme_settings import *

SECRET_KEY = "for tests only"
ROOT_URLCONF = "urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", *INSTALLED_APPS, "signup"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
CACHES["redq"]["LOCATION"] = os.environ["README_URL"]
REDQ = {**REDQ, "NAMESPACE": os.environ["README_NAMESPACE"]}
"""

URLS = """
from django.urls import path
from signup.views import sign_up

urlpatterns = [path("sign-up/", sign_up)]
"""

APPS = """
from django.apps import AppConfig


class MyApp(AppConfig):
    name = "myapp"

    def ready(self):
        from myapp import signals  # noqa: F401
"""


def blocks() -> dict[str, str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return {match["name"]: match["code"] for match in BLOCK.finditer(text)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    code = blocks()
    files = {
        "readme_settings.py": code["settings.py"],
        "project_settings.py": REST_OF_SETTINGS,
        "urls.py": URLS,
        "signup/__init__.py": "",
        "signup/handlers.py": code["handlers.py"],
        "signup/views.py": code["views.py"],
        "myapp/__init__.py": "",
        "myapp/apps.py": APPS,
        "myapp/handlers.py": code["myapp/handlers.py"],
        "myapp/signals.py": code["myapp/signals.py"],
        "dlq.py": code["the same from code"],
        "run.py": (ROOT / "tests/integration/readme_project.py").read_text(encoding="utf-8"),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_readme_s_blocks_make_a_project_that_works(redq: Redq, project: Path) -> None:
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "project_settings",
        "README_URL": redq.url,
        "README_NAMESPACE": redq.namespace,
        "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.rpartition("FOUND ")[2])

    assert found["state before"] == "scheduled"
    assert found["mails"] == [[["ann@example.org"], "Hello Ann"]]
    assert found["state after"] is None
    assert (found["sent before commit"], found["sent after commit"]) == (False, True)
    assert [one["key"] for one in found["received"] if one["body"]["id"] == 7] == ["good"]
    assert found["dead"] == ["rejected", "this partner is gone"]
    assert "bad is dead (rejected): this partner is gone" in done.stdout  # @dead_letter_handler
    assert "bad True" in done.stdout  # replayed
    assert found["left dead"] == 0


def test_every_python_block_says_what_file_it_is() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("```python\n") == len(blocks())

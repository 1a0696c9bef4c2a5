"""``manage.py check``: what is told, under which ID; and that nobody asks Redis."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.test import override_settings

from django_redq import registry
from django_redq.checks import TAG
from tests.harness import ROOT

Define = Callable[[str], ModuleType]

ALIAS = {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": "redis://127.0.0.1:1/1"}
DJANGO_REDIS = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    with registry.isolated():
        yield


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Define:
    """Makes a module of this source, with what a module of handlers imports."""
    count = iter(range(100))

    def make(source: str) -> ModuleType:
        module = ModuleType(f"handlers_{next(count)}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        head = "from django_redq.handlers import handler, dead_letter_handler\n"
        exec(head + textwrap.dedent(source), vars(module))  # noqa: S102 - the source is the test's
        return module

    return make


def found(**settings: Any) -> list[tuple[str | None, str]]:
    """(ID, text) of all that the checks tell."""
    with override_settings(**settings):
        return [(message.id, message.msg) for message in told()]


def told() -> list[CheckMessage]:
    # Django keeps the registered checks in a set, so runs them in any order.
    return sorted(run_checks(tags=[TAG]), key=lambda message: message.id or "")


def ids(**settings: Any) -> list[str | None]:
    """IDs, without the queues that have no handler."""
    return [found_id for found_id, _ in found(**settings) if found_id != "redq.W004"]


def cached(**params: Any) -> dict[str, Any]:
    """Settings with this alias for the queues."""
    return {"CACHES": {"redq": {**ALIAS, **params}}, "REDQ": {"NAMESPACE": "mine"}}


class TestSettings:
    def test_every_fault_is_told_at_once_the_connections_too(self) -> None:
        faulty = {
            "NAMESPAC": "x",
            "QUEUES": {"email": {"SHARDS": 0}},
            "CONNECTION": {"CACHE": "absent"},
        }
        assert [(code, text.partition("\n")[0]) for code, text in found(REDQ=faulty)] == [
            ("redq.E001", "REDQ: unknown key 'NAMESPAC'; did you mean 'NAMESPACE'?"),
            (
                "redq.E001",
                "REDQ['QUEUES']['email']['SHARDS']: must be a whole number from 1 to 1,024, got 0",
            ),
            (
                "redq.E002",
                "REDQ['CONNECTION'] names the cache alias 'absent', which CACHES has not. Add:",
            ),
        ]

    def test_a_fault_of_the_connection_itself_is_told_once(self) -> None:
        assert ids(REDQ={"CONNECTION": {"URL": "http://x"}}) == ["redq.E001"]

    def test_without_fault_and_with_handlers_nothing_is_told(self, define: Define) -> None:
        define(
            """
            @handler("email")
            def send(task): ...

            @handler("email", kind="digest")
            async def send_digest(task): ...

            @dead_letter_handler("email")
            def bury(letter): ...
            """
        )
        assert found(REDQ={"NAMESPACE": "mine", "QUEUES": {"email": {}}}) == []


class TestHandlers:
    def test_a_queue_without_handlers(self, define: Define) -> None:
        define(
            """
            @handler("email")
            def send(task): ...
            """
        )
        redq = {"NAMESPACE": "mine", "QUEUES": {"email": {}, "webhook": {}}}
        assert found(REDQ=redq) == [("redq.W004", "Queue 'webhook' has no handler.")]

    def test_a_handler_for_an_unknown_queue(self, define: Define) -> None:
        module = define(
            """
            @handler("mail")
            def send(task): ...

            @dead_letter_handler("mail")
            def bury(letter): ...
            """
        )
        one, other = (text for code, text in found() if code == "redq.E003")
        for name, text in (("send", one), ("bury", other)):
            assert f"handler {module.__name__}.{name}: 'mail' is not in REDQ['QUEUES']" in text
            assert "known: default, email, webhook" in text

    def test_two_handlers_for_the_same(self, define: Define) -> None:
        source = """
            @handler("email", kind="welcome")
            def send(task): ...
            """
        one, other = define(source), define(source)
        ((code, text),) = [item for item in found() if item[0] != "redq.W004"]
        assert code == "redq.E004"
        assert f"{one.__name__}.send and {other.__name__}.send are both for kind 'welcome'" in text

    def test_an_annotation_that_cannot_be_resolved(self, define: Define) -> None:
        module = define(
            """
            from django_redq.task import Task

            @handler("email")
            def send(task: "Task[Welcome]") -> None: ...
            """
        )
        ((code, text),) = [item for item in found() if item[0] != "redq.W004"]
        assert code == "redq.E005"
        assert f"{module.__name__}.send" in text
        assert "payload=" in text

    def test_handler_is_not_the_outermost_decorator(self, define: Define) -> None:
        module = define(
            """
            import functools

            def logged(func):
                @functools.wraps(func)
                def wrapper(task):
                    return func(task)
                return wrapper

            @logged
            @handler("email")
            def send(task): ...
            """
        )
        ((code, text),) = [item for item in found() if item[0] != "redq.W004"]
        assert code == "redq.E006"
        assert f"{module.__name__}.send" in text
        assert "must be the outermost decorator" in text


class TestConnection:
    @pytest.mark.parametrize(
        "backend", ["django.core.cache.backends.locmem.LocMemCache", DJANGO, "no.such.Cache"]
    )
    def test_another_backend_shows_the_lines_to_add(self, backend: str) -> None:
        ((code, text),) = [
            item for item in found(**cached(BACKEND=backend)) if item[0] != "redq.W004"
        ]
        assert code == "redq.E002"
        assert backend in text
        assert '"BACKEND": "django_redq.cache.QueueCache"' in text

    def test_an_alias_that_cannot_be_read(self) -> None:
        assert ids(**cached(LOCATION="127.0.0.1:6379")) == ["redq.E002"]

    def test_a_cache_that_can_be_cleared(self) -> None:
        assert ids(**cached(BACKEND=DJANGO_REDIS)) == ["redq.W001"]

    def test_a_subclass_of_ours_is_ours(self) -> None:
        assert ids(**cached(BACKEND=f"{__name__}.OwnCache")) == []

    @pytest.mark.parametrize("backend", [DJANGO, DJANGO_REDIS])
    def test_a_neighbour_in_the_same_database(self, backend: str) -> None:
        settings = cached()
        settings["CACHES"]["default"] = {"BACKEND": backend, "LOCATION": "redis://localhost:1/1"}
        ((code, text),) = [item for item in found(**settings) if item[0] != "redq.W004"]
        assert code == "redq.W002"
        assert "CACHES['default'] shares the database of the queues, redis://127.0.0.1:1/1" in text

    def test_a_neighbour_of_a_url(self) -> None:
        caches = {"default": {"BACKEND": DJANGO, "LOCATION": "redis://user:s3cr3t@localhost:1/1"}}
        url = "redis://:s3cr3t@127.0.0.1:1/1"
        redq = {"NAMESPACE": "mine", "CONNECTION": {"URL": url}}
        messages = [item for item in found(CACHES=caches, REDQ=redq) if item[0] != "redq.W004"]
        assert [code for code, _ in messages] == ["redq.W002"]
        assert "s3cr3t" not in str(messages)

    @pytest.mark.parametrize(
        "neighbour",
        [
            {"BACKEND": DJANGO, "LOCATION": "redis://127.0.0.1:1/2"},
            {"BACKEND": "django_redq.cache.QueueCache", "LOCATION": "redis://127.0.0.1:1/1"},
            {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        ],
    )
    def test_neighbours_that_do_no_harm(self, neighbour: dict[str, str]) -> None:
        settings = cached()
        settings["CACHES"]["default"] = neighbour
        assert ids(**settings) == []

    def test_a_key_prefix_beside_the_default_namespace(self) -> None:
        settings = cached(KEY_PREFIX="site")
        assert ids(**settings) == []
        assert ids(**{**settings, "REDQ": {}}) == ["redq.W003"]
        assert ids(**{**settings, "REDQ": {"NAMESPACE": ""}}) == ["redq.E001"]

    def test_nobody_asks_the_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*arguments: Any, **keywords: Any) -> None:
            raise AssertionError("a check must not connect")

        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "create_connection", refuse)
        for connection in (
            {"CACHE": "redq"},
            {"URL": "redis://127.0.0.1:1"},
            {"SENTINELS": ["127.0.0.1:1"], "SERVICE": "main"},
            {"CLUSTER": ["127.0.0.1:1"]},
        ):
            assert ids(REDQ={"NAMESPACE": "mine", "CONNECTION": connection}) == []


def _own_cache() -> type:
    from django_redq.cache import QueueCache

    return type("OwnCache", (QueueCache,), {})


OwnCache = _own_cache()


def manage(*arguments: str, settings: str) -> subprocess.CompletedProcess[str]:
    """``manage.py`` as a process of its own, with these settings beside those of the tests."""
    code = (
        "import sys, types, tests.settings\n"
        "made = types.ModuleType('made')\n"
        "vars(made).update(vars(tests.settings))\n"
        f"exec({textwrap.dedent(settings)!r}, vars(made))\n"
        "sys.modules['made'] = made\n"
        "from django.core.management import execute_from_command_line\n"
        f"execute_from_command_line(['manage.py', *{arguments!r}, '--settings=made'])\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )


class TestApp:
    """What needs other settings at the start than the tests have."""

    def test_a_project_with_a_faulty_setting_starts_and_is_told(self) -> None:
        shown = manage("check", settings="REDQ = {'SHARDS': 3, 'QUEUES': 4}")
        assert shown.returncode == 1
        assert "(redq.E001) REDQ: 'SHARDS' does not belong here" in shown.stderr
        assert "(redq.E001) REDQ['QUEUES']: must be a dict" in shown.stderr
        assert "Traceback" not in shown.stderr

    def test_without_contenttypes_auth_and_admin_the_app_loads_and_migrates(self) -> None:
        bare = "INSTALLED_APPS = ['django_redq']"
        for command in (
            ("check", "--tag", TAG),
            ("migrate",),
            ("makemigrations", "--check", "--dry-run"),
        ):
            shown = manage(*command, settings=bare)
            assert shown.returncode == 0, shown.stderr

    def test_with_the_admin_too(self) -> None:
        full = """
            INSTALLED_APPS = [
                "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                "django.contrib.messages", "django.contrib.sessions", "django_redq",
            ]
            TEMPLATES = [{
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {"context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]},
            }]
            MIDDLEWARE = [
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware",
            ]
            """
        for command in (("check",), ("migrate",), ("makemigrations", "--check", "--dry-run")):
            shown = manage(*command, settings=full)
            assert shown.returncode == 0, shown.stderr

    def test_without_a_database_too(self) -> None:
        shown = manage("check", settings="DATABASES = {}; INSTALLED_APPS = ['django_redq']")
        assert shown.returncode == 0, shown.stderr

    def test_a_handler_module_that_fails_names_app_and_module(self) -> None:
        broken = "INSTALLED_APPS += ['tests']; REDQ = {'HANDLER_MODULES': ['unit.broken_handlers']}"
        shown = manage("check", settings=broken)
        assert shown.returncode != 0
        assert (
            "app 'tests': its handler module tests.unit.broken_handlers cannot be imported "
            "(RuntimeError: broken on purpose)" in shown.stderr
        )


@pytest.mark.django_db
class TestModel:
    def test_it_makes_no_table(self) -> None:
        from django.db import connection

        assert not [name for name in connection.introspection.table_names() if "redq" in name]

    def test_the_migrations_say_all(self) -> None:
        call_command("makemigrations", "--check", "--dry-run", verbosity=0)

    def test_the_permissions_are_there_and_no_others(self) -> None:
        from django.contrib.auth.models import Permission, User

        names = Permission.objects.filter(content_type__app_label="django_redq")
        assert sorted(names.values_list("content_type__model", "codename")) == [
            ("queue", "cancel_queue"),
            ("queue", "discard_queue"),
            ("queue", "pause_queue"),
            ("queue", "replay_queue"),
            ("queue", "view_queue"),
        ]
        user = User.objects.create(username="operator")
        user.user_permissions.add(names.get(codename="replay_queue"))
        assert user.has_perm("django_redq.replay_queue")
        assert not user.has_perm("django_redq.discard_queue")

    def test_dumpdata_needs_no_table_for_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        call_command("dumpdata")
        models = {row["model"] for row in json.loads(capsys.readouterr().out)}
        assert models == {"auth.permission", "contenttypes.contenttype"}

    def test_its_name_in_the_admin(self) -> None:
        model = apps.get_model("django_redq", "Queue")
        assert str(model._meta.verbose_name_plural) == "queues"

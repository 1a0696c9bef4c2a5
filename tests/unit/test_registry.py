"""Who handles what, what payloads are decoded into, and what is wrong with it."""

# ruff: noqa: ARG005 - of these lambdas only the signature matters
from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from decimal import Decimal
from unittest import mock

import pytest
from django.apps import AppConfig, apps
from django.test import override_settings

from django_redq import registry
from django_redq.conf import get_config
from django_redq.errors import ConfigurationError, UnknownKind
from django_redq.registry.annotations import Unresolvable, payload_type, takes_one_argument
from django_redq.registry.registration import Place, Registration
from tests.unit import typed_handlers


@pytest.fixture(autouse=True)
def empty_registry():
    with registry.isolated():
        yield


def register(func, queue="email", kind="", **options):
    defaults = {"payload": None, "max_attempts": None, "retry": None, "timeout": None}
    registration = Registration(
        queue=queue,
        kind=kind,
        func=func,
        place=Place.of(func),
        is_async=False,
        **{**defaults, **options},
    )
    registry.add(registration)
    return registration


@pytest.fixture
def module():
    """A module that can be imported, for functions to stand in."""
    made = types.ModuleType("redq_registry_test")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def put(module, func, name):
    """``func`` as if the module had defined it."""
    func.__module__, func.__qualname__, func.__name__ = module.__name__, name, name
    setattr(module, name, func)
    return func


def wrapped_as_handler(func):
    """As the module attribute is after ``@handler``: something that carries ``func``."""
    return types.SimpleNamespace(func=func)


# --- finding ---------------------------------------------------------------------------------


def test_handler_is_found_by_queue_and_kind():
    plain = register(typed_handlers.bare)
    welcome = register(typed_handlers.bare_task, kind="welcome")

    assert registry.find("email", "") == plain
    assert registry.find("email", "welcome") == welcome


@pytest.mark.parametrize(("queue", "kind"), [("email", "other"), ("webhook", "welcome")])
def test_unknown_kind_names_the_known_ones(queue, kind):
    register(typed_handlers.bare, kind="welcome")

    with pytest.raises(UnknownKind) as caught:
        registry.find(queue, kind)
    assert caught.value.known == (("welcome",) if queue == "email" else ())


def test_kinds_are_those_of_the_queue_sorted():
    for queue, kind in [("email", "b"), ("email", ""), ("webhook", "c"), ("email", "a")]:
        register(typed_handlers.bare, queue, kind)

    assert registry.kinds("email") == ("", "a", "b")
    assert registry.kinds("nothing") == ()


def test_looking_for_what_is_not_there_leaves_no_trace():
    with pytest.raises(UnknownKind):
        registry.find("email", "welcome")

    assert registry.kinds("email") == ()
    assert registry.dead_letter_handlers("email") == ()
    assert registry.faults() == []


def test_isolated_gives_back_what_was_there():
    register(typed_handlers.bare)
    registry.add_dead_letter_handler("email", typed_handlers.bare)

    with registry.isolated():
        assert registry.kinds("email") == ()
        register(typed_handlers.typed, kind="inner")

    assert registry.kinds("email") == ("",)
    assert registry.dead_letter_handlers("email") == (typed_handlers.bare,)


def test_clear_forgets_all():
    register(typed_handlers.bare)
    registry.find("email", "")
    registry.add_dead_letter_handler("email", typed_handlers.bare)

    registry.clear()

    assert registry.kinds("email") == ()
    assert registry.dead_letter_handlers("email") == ()
    with pytest.raises(UnknownKind):
        registry.find("email", "")


# --- what is called --------------------------------------------------------------------------


def test_target_is_what_the_module_holds_now():
    registration = register(typed_handlers.bare)

    with mock.patch.object(typed_handlers, "bare") as patched:
        assert registration.target() is patched
    assert registration.target() is typed_handlers.bare


def test_target_within_a_class_is_found(module):
    class Mails:
        @staticmethod
        def send(task): ...

    Mails.send.__module__, Mails.send.__qualname__ = module.__name__, "Mails.send"
    module.Mails = Mails
    registration = register(Mails.send)
    Mails.send = other = mock.Mock()

    assert registration.target() is other
    assert registration.path == "redq_registry_test.Mails.send"


def test_target_of_a_local_function_is_itself():
    def local(task): ...

    registration = register(local)

    assert registration.place.is_local
    assert registration.target() is local


def test_target_that_is_gone_from_its_module_is_the_function(module):
    func = put(module, lambda task: None, "send")
    registration = register(func)
    del module.send

    assert registration.target() is func


# --- dead-letter handlers --------------------------------------------------------------------


def test_dead_letter_handlers_are_told_in_order_of_registration():
    registry.add_dead_letter_handler("email", typed_handlers.typed)
    registry.add_dead_letter_handler("email", typed_handlers.bare)
    registry.add_dead_letter_handler("webhook", typed_handlers.aliased)

    assert registry.dead_letter_handlers("email") == (typed_handlers.typed, typed_handlers.bare)


def test_dead_letter_handler_can_be_patched():
    registry.add_dead_letter_handler("email", typed_handlers.bare)

    with mock.patch.object(typed_handlers, "bare") as patched:
        assert registry.dead_letter_handlers("email") == (patched,)


def test_dead_letter_handler_imported_again_takes_its_own_place(module):
    registry.add_dead_letter_handler("email", put(module, lambda *_: 1, "told"))
    again = put(module, lambda *_: 2, "told")
    registry.add_dead_letter_handler("email", again)

    assert registry.dead_letter_handlers("email") == (again,)


# --- payload types ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (typed_handlers.bare, None),
        (typed_handlers.bare_task, None),
        (typed_handlers.anything, None),
        (typed_handlers.type_variable, None),
        (typed_handlers.other_hint, None),
        (typed_handlers.no_fixed_argument, None),
        (typed_handlers.typed, typed_handlers.Mail),
        (typed_handlers.aliased, typed_handlers.Mail),
        (typed_handlers.wrapped, typed_handlers.Mail),
        (typed_handlers.of_later, typed_handlers.Later),
        (typed_handlers.builtin, dict[str, int]),
        (typed_handlers.constrained, typed_handlers.Positive),
        (typed_handlers.only_the_rest_is_unresolvable, typed_handlers.Mail),
        (len, None),
    ],
)
def test_payload_type_is_read_from_the_annotation(func, expected):
    assert payload_type(func) == expected


@pytest.mark.parametrize(
    ("func", "missing"),
    [
        (typed_handlers.under_type_checking, "Decimal"),
        (typed_handlers.of_local_class(), "Local"),
    ],
)
def test_annotation_that_names_what_is_not_there_is_told(func, missing):
    with pytest.raises(Unresolvable, match=rf"Task\[{missing}\] \(NameError: .*'{missing}'"):
        payload_type(func)


def test_payload_type_is_resolved_when_it_is_first_needed():
    registration = register(typed_handlers.typed)

    assert registration.payload is None
    assert registry.find("email", "").payload is typed_handlers.Mail
    assert registry.find("email", "") is registry.find("email", "")


def test_named_payload_beats_the_annotation():
    register(typed_handlers.under_type_checking, payload=Decimal)

    assert registry.find("email", "").payload is Decimal
    assert registry.resolve() == []


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (typed_handlers.under_type_checking, ("'Decimal'", "payload=…", "TYPE_CHECKING")),
        (typed_handlers.undecodable, ("Opaque", "dataclass")),
    ],
)
def test_fault_of_a_payload_type_names_the_function_and_the_way_out(func, words):
    register(typed_handlers.typed, kind="good")
    register(func, kind="bad")

    (fault,) = registry.resolve()

    assert all(word in fault for word in (f"tests.unit.typed_handlers.{func.__name__}", *words))
    assert registry.find("email", "good").payload is typed_handlers.Mail
    with pytest.raises(ConfigurationError) as caught:
        registry.find("email", "bad")
    assert caught.value.faults == (fault,)


@pytest.mark.parametrize(
    ("func", "fits"),
    [
        (lambda task: None, True),
        (lambda task, more=1: None, True),
        (lambda *args: None, True),
        (lambda task, *, more=1: None, True),
        (len, True),
        (typed_handlers.wrapped, True),
        (lambda: None, False),
        (lambda self, task: None, False),
        (lambda task, *, more: None, False),
        (lambda **kwargs: None, False),
    ],
)
def test_a_handler_takes_one_argument(func, fits):
    assert takes_one_argument(func) is fits


# --- faults ----------------------------------------------------------------------------------


def test_two_functions_for_one_kind_are_told(module):
    for name in ("send", "send_again"):
        func = put(module, lambda task: None, name)
        register(func, kind="welcome")
        setattr(module, name, wrapped_as_handler(func))

    (fault,) = registry.faults()

    assert "redq_registry_test.send and redq_registry_test.send_again" in fault
    assert "queue 'email'" in fault
    assert "kind 'welcome'" in fault


def test_function_imported_again_takes_its_own_place(module):
    register(put(module, lambda task: 1, "send"))
    registry.find("email", "")
    again = put(module, lambda task: 2, "send")
    register(again)
    module.send = wrapped_as_handler(again)

    assert registry.faults() == []
    assert registry.find("email", "").func is again


@override_settings(REDQ={"QUEUES": {"mail": {}, "audit": {}}})
def test_unknown_queue_is_told_with_the_known_ones(module):
    func = put(module, lambda task: None, "send")
    register(func)
    module.send = wrapped_as_handler(func)
    registry.add_dead_letter_handler("emial", typed_handlers.bare)

    of_handler, of_told = registry.faults()

    assert "handler redq_registry_test.send: 'email'" in of_handler
    assert "dead-letter handler tests.unit.typed_handlers.bare: 'emial'" in of_told
    assert of_handler.endswith("known: audit, mail")
    assert of_told.endswith("known: audit, mail")


@override_settings(REDQ={"QUEUES": {"email": {"SHARDS": 0}}})
def test_faults_of_the_setting_are_left_to_others(module):
    func = put(module, lambda task: None, "send")
    register(func, "nowhere")
    module.send = wrapped_as_handler(func)

    assert registry.faults() == []


def test_handler_hidden_by_a_decorator_above_it_is_told(module):
    func = put(module, lambda task: None, "send")
    register(func)
    module.send = typed_handlers.passing_on(func)

    (fault,) = registry.faults()

    assert "handler redq_registry_test.send" in fault
    assert "outermost" in fault


def test_handler_under_another_name_is_told(module):
    func = put(module, lambda task: None, "send")
    register(func)
    del module.send

    assert "stands None instead" in registry.faults()[0]


def test_local_handler_is_no_fault():
    @dataclass
    class Local:
        pass

    def local(task): ...

    register(local, payload=Local)

    assert registry.faults() == []


# --- discovery -------------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs apps with these files: ``install(shop={"handlers.py": "..."})``."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    installed = []

    def install(**packages):
        for name, files in packages.items():
            (tmp_path / name).mkdir()
            for file, text in {"__init__.py": "", **files}.items():
                path = tmp_path / name / file
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            installed.append(AppConfig.create(name))
        monkeypatch.setattr(apps, "get_app_configs", lambda: installed)

    yield install
    for name in set(sys.modules) - before:
        del sys.modules[name]


HANDLER = """
from django_redq.handlers import handler

@handler("email", kind=__name__)
def send(task): ...
"""


def test_handler_modules_of_installed_apps_are_imported(install):
    install(
        discovered_shop={"handlers.py": HANDLER},
        discovered_blog={"models.py": ""},
        discovered_news={"handlers.py": HANDLER},
    )

    registry.autodiscover(get_config())

    assert registry.kinds("email") == ("discovered_news.handlers", "discovered_shop.handlers")


@override_settings(REDQ={"HANDLER_MODULES": ["jobs", "tasks.handlers"]})
def test_handler_modules_are_looked_for_as_the_setting_says(install):
    install(
        discovered_jobs={
            "handlers.py": HANDLER,
            "jobs.py": HANDLER,
            "tasks/__init__.py": "",
            "tasks/handlers.py": HANDLER,
        },
        discovered_none={},
    )

    registry.autodiscover(get_config())

    assert registry.kinds("email") == ("discovered_jobs.jobs", "discovered_jobs.tasks.handlers")


@override_settings(REDQ={"HANDLER_MODULES": ["models"]})
def test_djangos_own_apps_and_ours_are_not_asked(monkeypatch):
    own = [app for app in apps.get_app_configs() if app.name.startswith("django")]
    monkeypatch.setattr(apps, "get_app_configs", lambda: own)
    asked = mock.Mock()
    monkeypatch.setattr("django_redq.registry.discovery.import_module", asked)

    registry.autodiscover(get_config())

    assert {"auth", "contenttypes", "django_redq"} <= {app.label for app in own}
    assert not asked.called


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no"),
        ("1 +", "SyntaxError"),
        ("raise RuntimeError('why')", "RuntimeError: why"),
        (HANDLER.replace("kind=", "knid="), "TypeError"),
        (HANDLER.replace("'email'", "'e mail'").replace('"email"', "'e mail'"), "InvalidArgument"),
    ],
)
def test_failing_import_names_app_and_module(install, text, words):
    install(discovered_bad={"handlers.py": text})

    with pytest.raises(ConfigurationError) as caught:
        registry.autodiscover(get_config())

    assert "app 'discovered_bad'" in str(caught.value)
    assert "discovered_bad.handlers" in str(caught.value)
    assert words in str(caught.value)
    assert caught.value.__cause__ is not None

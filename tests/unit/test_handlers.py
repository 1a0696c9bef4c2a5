"""What ``@handler`` makes of a function."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from datetime import timedelta
from functools import partial
from unittest import mock

import pytest
from asgiref.sync import iscoroutinefunction

from django_redq import registry
from django_redq.errors import ConfigurationError, InvalidArgument
from django_redq.handlers import Handler, dead_letter_handler, handler
from django_redq.retry import Exponential, Fixed
from django_redq.task import Task
from tests.unit import typed_handlers

with registry.isolated():
    # At module level, as handlers are; but these are no other test's business.
    @handler("email", kind="welcome")
    def send_welcome(task: Task[typed_handlers.Mail], extra: int = 0) -> str:
        """Sends it."""
        return f"{task} {extra}"

    @handler("email", kind="digest")
    async def send_digest(task):
        return f"{task}!"

    class Mails:
        @staticmethod
        @handler("email", kind="static")
        def send(task): ...


@pytest.fixture(autouse=True)
def empty_registry():
    with registry.isolated():
        yield


def test_handler_stays_callable():
    assert send_welcome("task", extra=3) == "task 3"
    assert asyncio.run(send_digest("task")) == "task!"


def test_handler_knows_its_function_queue_and_kind():
    assert (send_welcome.queue, send_welcome.kind) == ("email", "welcome")
    assert send_welcome.func("task") == "task 0"
    assert send_welcome.__name__ == "send_welcome"
    assert send_welcome.__doc__ == "Sends it."
    assert list(inspect.signature(send_welcome).parameters) == ["task", "extra"]
    assert repr(send_welcome) == (
        "<Handler tests.unit.test_handlers.send_welcome of 'email', kind='welcome'>"
    )


def test_handler_is_a_coroutine_function_where_the_function_is():
    assert iscoroutinefunction(send_digest)
    assert not iscoroutinefunction(send_welcome)


@pytest.mark.parametrize("made", [send_welcome, send_digest, Mails.send])
def test_handler_is_pickled_by_its_import_path(made):
    assert pickle.loads(pickle.dumps(made)) is made  # noqa: S301 - our own


def test_local_handler_cannot_be_pickled():
    @handler("email")
    def local(task): ...

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)


def test_copy_of_a_handler_is_itself():
    assert copy.copy(send_welcome) is send_welcome
    assert copy.deepcopy([send_digest]) == [send_digest]


def test_patched_async_handler_can_be_awaited():
    with mock.patch(f"{__name__}.send_digest") as patched:
        patched.return_value = 5
        assert asyncio.run(patched("task")) == 5


@pytest.mark.parametrize(
    ("func", "is_async"), [(send_welcome.func, False), (send_digest.func, True)]
)
def test_handler_is_registered(func, is_async):
    made = handler("email", kind="k")(func)

    found = registry.find("email", "k")

    assert isinstance(made, Handler)
    assert found.func is func
    assert found.is_async is is_async
    assert found.path == f"{__name__}.{func.__name__}"
    assert (found.max_attempts, found.retry, found.timeout) == (None, None, None)


def test_handler_may_say_how_its_tasks_are_run():
    handler("email", payload=dict, max_attempts=7, retry=Fixed(3), timeout=timedelta(minutes=1))(
        typed_handlers.bare
    )

    found = registry.find("email", "")

    assert (found.payload, found.max_attempts, found.retry) == (dict, 7, Fixed(3))
    assert found.timeout == 60.0


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        ({"POLICY": "fixed", "INTERVAL": timedelta(seconds=2)}, Fixed(2)),
        ({"POLICY": "exponential", "MAX": 5}, Exponential(1, 5, 2, 0.1)),
        (f"{__name__}.policy", "the function itself"),
    ],
)
def test_retry_may_be_what_the_setting_may_be(retry, expected):
    handler("email", retry=retry)(typed_handlers.bare)

    assert registry.find("email", "").retry == (policy if isinstance(retry, str) else expected)


def policy(attempt: int, error: BaseException) -> float:
    return 1.0


def test_two_decorators_register_one_function_twice():
    made = handler("email")(handler("webhook", kind="k")(typed_handlers.bare))

    assert made.func is typed_handlers.bare
    assert registry.find("email", "").func is typed_handlers.bare
    assert registry.find("webhook", "k").func is typed_handlers.bare


def test_outermost_handler_is_no_fault(monkeypatch):
    both = handler("email")(handler("webhook")(typed_handlers.bare))
    monkeypatch.setattr(typed_handlers, "bare", both)

    assert registry.faults() == []


@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"queue": "no queue"}, "queue", "letter or digit"),
        ({"queue": send_welcome.func}, "queue", "letter or digit"),
        ({"kind": "a b"}, "kind", "letter or digit"),
        ({"kind": None}, "kind", "letter or digit"),
        ({"max_attempts": 0}, "max_attempts", "whole number"),
        ({"max_attempts": True}, "max_attempts", "whole number"),
        ({"max_attempts": 1.0}, "max_attempts", "whole number"),
        ({"retry": 5}, "retry", "callable"),
        ({"retry": {"POLICY": "fixed"}}, "retry['INTERVAL']", "missing"),
        ({"retry": "no.such.policy"}, "retry", "cannot be imported"),
        ({"timeout": 0}, "timeout", "seconds"),
        ({"timeout": "5"}, "timeout", "seconds"),
    ],
)
def test_arguments_are_checked(options, field, reason):
    with pytest.raises(InvalidArgument) as caught:
        handler(**{"queue": "email", **options})

    assert caught.value.field == field
    assert reason in caught.value.reason


@pytest.mark.parametrize("func", [3, "name", partial(typed_handlers.bare), typed_handlers.Mail])
def test_only_functions_can_be_handlers(func):
    with pytest.raises(ConfigurationError, match="must be a function"):
        handler("email")(func)
    with pytest.raises(ConfigurationError, match="must be a function"):
        dead_letter_handler("email")(func)


def test_handler_that_takes_no_task_is_refused():
    def method(self, task): ...

    with pytest.raises(ConfigurationError, match=r"<locals>\.method .* one argument, the task"):
        handler("email")(method)
    with pytest.raises(ConfigurationError, match=r"<locals>\.method .*, the dead letter"):
        dead_letter_handler("email")(method)
    assert registry.kinds("email") == ()


def test_dead_letter_handler_stays_what_it_is():
    def told(letter): ...

    assert dead_letter_handler("email")(told) is told
    assert registry.dead_letter_handlers("email") == (told,)


def test_queue_of_a_dead_letter_handler_is_checked():
    with pytest.raises(InvalidArgument, match="queue: must be a letter or digit"):
        dead_letter_handler("no queue")


def test_kind_is_the_handlers_own():
    with pytest.raises(TypeError, match="kind"):
        send_welcome.enqueue({}, kind="other")

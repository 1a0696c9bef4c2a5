"""What the errors say and carry, and that they survive the way between two processes."""

from __future__ import annotations

import copy
import pickle

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_redq import errors

EVERY = [
    errors.ConfigurationError("first fault", "second fault"),
    errors.InvalidArgument("delay", "must not be negative"),
    errors.PayloadTooLarge(5_000, 100),
    errors.InvalidPayload("no JSON"),
    errors.UnknownQueue("emial", ["webhook", "email"]),
    errors.UnknownKind("email", "welcome", []),
    errors.MissingPayload("gone"),
    errors.StaleDelivery("email", "t1"),
    errors.DeadLetterNotFound("email", "t1"),
    errors.NotReplayable("email", "t1"),
    errors.BulkNotFound("email", "b1"),
    errors.TooManyBulks("email", 10),
    errors.EnqueueFailed([("email", "t1")]),
    errors.Retry("busy", delay=5),
    errors.Reject("never"),
]


def pickled(error: BaseException) -> BaseException:
    carried: BaseException = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    return carried


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("carried", [copy.copy, pickled])
def test_error_arrives_as_it_was(error, carried):
    arrived = carried(error)

    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ConfigurationError, ImproperlyConfigured),
        (errors.InvalidArgument, ValueError),
        (errors.PayloadTooLarge, errors.InvalidArgument),
        (errors.InvalidPayload, ValueError),
        (errors.UnknownQueue, LookupError),
        (errors.MissingPayload, LookupError),
        (errors.DeadLetterNotFound, LookupError),
        (errors.NotReplayable, ValueError),
        (errors.BulkNotFound, LookupError),
        (errors.TooManyBulks, RuntimeError),
    ],
)
def test_error_is_what_a_reader_would_catch(kind, builtin):
    assert issubclass(kind, errors.RedqError)
    assert issubclass(kind, builtin)


def test_argument_inside_another_is_named_with_it():
    error = errors.PayloadTooLarge(5_000, 100)

    error.put_inside("tasks[3]")

    assert error.field == "tasks[3].payload"
    assert str(error).startswith("tasks[3].payload: the task takes 5,000 bytes")


def test_what_was_not_enqueued_is_named_up_to_a_point():
    error = errors.EnqueueFailed([("email", f"t{n}") for n in range(7)])

    assert len(error.tasks) == 7
    assert str(error).endswith("email/t4 and 2 more")
    assert str(error).startswith("7 task(s)")

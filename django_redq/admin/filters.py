"""Which dead letters a page is about: the filter of the list, as a form, in a URL, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_redq.conf import get_config
from django_redq.errors import InvalidArgument
from django_redq.outcome import Reason
from django_redq.task import MAX_TASK_ID
from django_redq.templatetags import redq_admin

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

    Text = str | _StrPromise
else:
    Text = str

WITHOUT = "-"
"""In the fields for kind and exception type: those that have none. No name of ours is like that."""

REASONS: dict[str, Text] = {
    Reason.EXHAUSTED: _("attempts exhausted"),
    Reason.REJECTED: _("rejected by its handler"),
    Reason.WORKER_LOST: _("worker lost"),
    Reason.MISSING_PAYLOAD: _("payload missing"),
    Reason.INVALID_PAYLOAD: _("payload invalid"),
}

LONGEST = 500
LONGEST_KIND = 128
"""Characters of what may be looked for."""

LABELS: dict[str, Text] = {
    "queue": _("Queue"),
    "kind": _("Kind"),
    "reason": _("Reason"),
    "exception_type": _("Exception type"),
    "since": _("Died since"),
    "until": _("Died until"),
    "text": _("Text in the error"),
    "task_id": _("Task ID"),
    "idempotency_key": _("Idempotency key"),
    "shard": _("Shard"),
    "older_than": _("Older than"),
}
"""What a filter is called, whether chosen here or by a command."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""What no page can carry through a form unchanged."""
_INVALID = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""What no page may hold."""


def inert(value: Any) -> Any:
    """What somebody sent, as a page may show it again."""
    return _INVALID.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


class Inert(forms.Field):
    """A field that shows again what was sent to it, however wrong, without breaking the page."""

    def prepare_value(self, value: Any) -> Any:
        return inert(super().prepare_value(value))


class WordField(Inert, forms.CharField):
    """Text without control characters."""

    def __init__(self, label: Text, max_length: int) -> None:
        refused = RegexValidator(
            _CONTROL, _("Control characters cannot be looked for."), inverse_match=True
        )
        super().__init__(required=False, label=label, max_length=max_length, validators=[refused])


def can_ask_for(kind: str, exception_type: str) -> bool:
    """Whether the filter can name these; what strangers write may be anything."""
    return (
        len(kind) <= LONGEST_KIND
        and len(exception_type) <= LONGEST
        and not any(_CONTROL.search(one) or one != one.strip() for one in (kind, exception_type))
    )


class MomentField(Inert, forms.DateTimeField):
    """A date and a time, by the browser's own picker."""

    # "any": a second or a fraction of one, as links have them, is no reason to refuse the form.
    widget = forms.DateTimeInput(
        format="%Y-%m-%dT%H:%M:%S", attrs={"type": "datetime-local", "step": "any"}
    )

    def clean(self, value: Any) -> datetime | None:
        """Aware, also where the project's own times are naive."""
        found: datetime | None = super().clean(value)
        if found is not None and timezone.is_naive(found):
            return timezone.make_aware(found)
        return found


def as_field(value: datetime) -> str:
    """An aware time as a :class:`MomentField` takes it from a URL."""
    return timezone.make_naive(value).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which letters of which queues."""

    queues: tuple[str, ...]
    which: Mapping[str, Any]
    """Arguments of :class:`DeadLetterQueue`'s methods."""
    query: Mapping[str, str]
    """The same, as a query string or a form carries it; what is not chosen is left out."""

    def without(self, name: str) -> dict[str, str]:
        """The query less one choice."""
        return {key: value for key, value in self.query.items() if key != name}


class LetterFilter(forms.Form):
    """The filter of the list of dead letters; every field may be left empty."""

    use_required_attribute = False
    prominent = ("queue", "reason", "exception_type", "text")
    """The fields that are always in sight."""

    queue = forms.ChoiceField(required=False, label=LABELS["queue"])
    reason = forms.ChoiceField(required=False, label=LABELS["reason"])
    exception_type = WordField(LABELS["exception_type"], LONGEST)
    text = WordField(LABELS["text"], LONGEST)
    kind = WordField(LABELS["kind"], LONGEST_KIND)
    since = MomentField(required=False, label=LABELS["since"])
    until = MomentField(required=False, label=LABELS["until"])
    task_id = WordField(LABELS["task_id"], MAX_TASK_ID)
    idempotency_key = WordField(LABELS["idempotency_key"], LONGEST)

    def __init__(self, data: QueryDict | Mapping[str, Any]) -> None:
        super().__init__(data, auto_id="filter_%s")
        self._all = tuple(get_config().queues)
        _choices(self, "queue", {"": _("all"), **{name: name for name in self._all}})
        _choices(self, "reason", {"": _("any"), **REASONS})

    def chosen(self) -> Chosen:
        """What was chosen; only of a form that is valid."""
        given = {name: value for name, value in self.cleaned_data.items() if value}
        queue = given.pop("queue", None)
        for name in ("kind", "exception_type"):
            if given.get(name) == WITHOUT:
                given[name] = ""
        return Chosen((queue,) if queue else self._all, given, self._query())

    def blame(self, error: InvalidArgument) -> None:
        """Puts the error beside the field that it is about."""
        self.add_error(error.field if error.field in self.fields else None, error.reason)

    def in_sight(self) -> list[forms.BoundField]:
        return [self[name] for name in self.prominent]

    def further(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in self.prominent]

    def further_open(self) -> bool:
        """Whether one of the further fields has something to mend; what is chosen is shown anyway."""
        return any(field.errors for field in self.further())

    def _query(self) -> dict[str, str]:
        return {name: str(self.data[name]).strip() for name in self.fields if self.data.get(name)}


def _choices(form: forms.Form, name: str, choices: Mapping[str, Text]) -> None:
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = list(choices.items())


def in_words(which: Mapping[str, Any]) -> Iterator[tuple[str, Text, Text]]:
    """Each choice as its name, its label and its value for people; an empty kind is "none"."""
    for name, value in which.items():
        if value is not None:
            yield name, LABELS.get(name, name), _said(name, value)


def _said(name: str, value: Any) -> Text:
    if name == "reason":
        return REASONS.get(value, str(value))
    if isinstance(value, datetime):
        return redq_admin.moment(value)
    if isinstance(value, timedelta):
        return redq_admin.duration(value.total_seconds())
    if name == "older_than":
        return redq_admin.duration(value)
    return _("none") if value == "" else str(value)

"""When replayed tasks are to run, as a form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redq.admin.filters import Inert, MomentField

LONGEST_SPREAD = 7 * 24 * 60
"""Minutes."""


class StartField(MomentField):
    """A time to come, or none."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            label=gettext_lazy("Start at"),
            help_text=gettext_lazy("Empty: at once."),
        )

    def clean(self, value: Any) -> datetime | None:
        start: datetime | None = super().clean(value)
        if start is not None and start < datetime.now(UTC):
            raise forms.ValidationError(_("This time has passed."))
        return start


class MinutesField(Inert, forms.FloatField):
    """A length of time."""


class WhenForm(forms.Form):
    """At once, at a time, or spread over some minutes from then."""

    use_required_attribute = False

    run_at = StartField()
    spread = MinutesField(
        required=False,
        min_value=0,
        max_value=LONGEST_SPREAD,
        label=gettext_lazy("Spread over (minutes)"),
        help_text=gettext_lazy("Empty: all at once. Spreading spares what has failed."),
    )

    def arguments(self) -> dict[str, Any]:
        """As the methods of :class:`DeadLetterQueue` want it; only of a form that is valid."""
        minutes = self.cleaned_data["spread"]
        return {
            "run_at": self.cleaned_data["run_at"],
            "spread": timedelta(minutes=minutes) if minutes else None,
        }

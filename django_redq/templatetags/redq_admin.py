"""Values as the admin's pages show them: inert, cut, in the reader's language and time zone.

Nothing of the admin is imported here: Django imports every library of template tags, also where the
admin is not installed.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.translation import gettext as _

register = template.Library()


@register.filter
def shown(value: object, limit: int = 200) -> str:
    """Text from Redis as a page may show it; the template escapes it.

    What cannot be seen, or turns the direction of writing, stands there as Python would write it;
    what is longer than ``limit`` ends in an ellipsis.
    """
    text = "" if value is None else str(value)
    cut = text[:limit]
    if not cut.isprintable():
        cut = "".join(one if one.isprintable() or one in "\n\t" else _escaped(one) for one in cut)
    return cut if len(text) <= limit else f"{cut}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


@register.filter
def first_line(text: str) -> tuple[str, str]:
    """The first line, and the rest."""
    first, _break, rest = text.partition("\n")
    return first, rest


@register.filter
def number(value: float) -> str:
    return number_format(value, force_grouping=True)


@register.filter
def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 3 min 5 s, 2 h, 5 d 3 h."""
    whole = round(max(seconds, 0))
    parts = (
        (_("%(n)d d"), whole // 86_400),
        (_("%(n)d h"), whole // 3600 % 24),
        (_("%(n)d min"), whole // 60 % 60),
        (_("%(n)d s"), whole % 60),
    )
    first = next((at for at, (_unit, n) in enumerate(parts) if n), len(parts) - 1)
    said = [unit % {"n": n} for unit, n in parts[first : first + 2] if n]
    return " ".join(said) or parts[-1][0] % {"n": 0}


def short(seconds: float) -> str:
    """As :func:`duration`, but a time below ten seconds to a tenth: 0.3 s."""
    if seconds >= 10:
        return duration(seconds)
    return _("%(n)s s") % {"n": number_format(max(seconds, 0), decimal_pos=1)}


def moment(value: datetime) -> str:
    """The time without markup, in the time zone of the page."""
    return date_format(timezone.localtime(value), "Y-m-d H:i:s")


@register.filter
def when(value: datetime | None) -> str:
    """The time, for people and for programs."""
    if value is None:
        return "-"
    return format_html('<time datetime="{}">{}</time>', value.isoformat(), moment(value))


@register.filter
def age(value: datetime | None) -> str:
    """How long ago it was; the time itself is its title."""
    if value is None:
        return "-"
    seconds = (datetime.now(UTC) - value).total_seconds()
    said = _("%(time)s ago") if seconds >= 0 else _("in %(time)s")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        value.isoformat(),
        moment(value),
        said % {"time": duration(abs(seconds))},
    )

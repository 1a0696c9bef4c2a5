"""What happened lately as pictures: the shapes are worked out here, templates write them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_redq.admin.filters import Text
from django_redq.broker.meter import Activity

WIDTH = 600
HEIGHT = 100
"""Of a chart's own coordinates; the page stretches them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One series as the path of an SVG."""

    css: str
    path: str
    label: Text


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture, and the same in words and numbers for those who do not see it."""

    title: Text
    said: str
    """What it shows, in a sentence."""
    shapes: tuple[Shape, ...]
    top: str
    """What the upper edge stands for."""
    head: tuple[Text, ...]
    """Of the table."""
    rows: tuple[tuple[object, ...], ...]
    """The times at which something happened, with its numbers."""
    span: str
    """How far back it goes, in words."""


def sparkline(activity: Sequence[Activity]) -> Chart:
    """Tasks that succeeded and runs that failed, minute by minute, without scales."""
    return throughput(activity, _("the last hour"))


def throughput(activity: Sequence[Activity], span: str) -> Chart:
    """Bars: tasks that succeeded, and on top of them runs that failed."""
    top = max((one.succeeded + one.failed for one in activity), default=0)
    good = [one.succeeded for one in activity]
    return Chart(
        title=_("Throughput and failures"),
        said=_("%(span)s: %(succeeded)s succeeded, %(failed)s failed, %(died)s died.")
        % {
            "span": capfirst(span),
            "succeeded": sum(good),
            "failed": sum(one.failed for one in activity),
            "died": sum(one.died for one in activity),
        },
        shapes=(
            Shape("redq-good", _bars(good, [0] * len(good), top), _("succeeded")),
            Shape("redq-bad", _bars([one.failed for one in activity], good, top), _("failed")),
        ),
        top=_per(top, activity),
        head=(_("From"), _("Succeeded"), _("Failed runs"), _("Died")),
        rows=tuple(
            (one.since, one.succeeded, one.failed, one.died)
            for one in activity
            if one.succeeded or one.failed or one.died
        ),
        span=span,
    )


def time_to_start(
    activity: Sequence[Activity], span: str, in_words: Callable[[float], str]
) -> Chart:
    """Lines: how long tasks waited from READY until a consumer had them."""
    longest = [one.longest_wait for one in activity]
    mean = [one.mean_wait for one in activity]
    known = [one for one in longest if one is not None]
    top = max(known, default=0.0)
    return Chart(
        title=_("Time to start"),
        said=_("%(span)s: the longest wait was %(longest)s.")
        % {"span": capfirst(span), "longest": in_words(top)}
        if known
        else _("%(span)s: no task was started.") % {"span": capfirst(span)},
        shapes=(
            Shape("redq-longest", _line(longest, top), _("longest")),
            Shape("redq-mean", _line(mean, top), _("average")),
        ),
        top=in_words(top) if known else "",
        head=(_("From"), _("Started"), _("Average wait"), _("Longest wait")),
        rows=tuple(
            (one.since, one.started, in_words(one.mean_wait or 0), in_words(one.longest_wait or 0))
            for one in activity
            if one.started
        ),
        span=span,
    )


def _per(top: int, activity: Sequence[Activity]) -> str:
    if not top:
        return ""
    minutes = activity[0].seconds // 60
    if minutes == 1:
        return _("%(n)s a minute") % {"n": top}
    return _("%(n)s in %(minutes)s minutes") % {"n": top, "minutes": minutes}


def _bars(values: Sequence[int], below: Sequence[int], top: int) -> str:
    step = WIDTH / max(len(values), 1)
    bars = []
    for at, (value, base) in enumerate(zip(values, below, strict=True)):
        if value:
            # What is there is to be seen, however little it is.
            height = max(value / top * HEIGHT, 2)
            floor = HEIGHT - base / top * HEIGHT
            bars.append(f"M{at * step:g} {floor:.1f}v-{height:.1f}h{step * 0.8:g}v{height:.1f}z")
    return "".join(bars)


def _line(values: Sequence[float | None], top: float) -> str:
    """The points joined where they are neighbours; one that stands alone is a short stroke."""
    step = WIDTH / max(len(values), 1)
    path, pen = [], False
    for at, value in enumerate(values):
        if value is None:
            pen = False
            continue
        height = HEIGHT - (value / top * (HEIGHT - 2) if top else 0) - 1
        path.append(f"{'L' if pen else 'M'}{at * step:g} {height:.1f}h{step * 0.8:g}")
        pen = True
    return "".join(path)

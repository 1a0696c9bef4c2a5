"""What of a queue needs a person, in words."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redq.queue_stats import QueueStats
from django_redq.templatetags.redq_admin import duration, number
from django_redq.troubles import Trouble, TroubleCode, troubles_of


def warnings_of(stats: QueueStats) -> list[str]:
    """A sentence each, the worst first."""
    return [in_words(trouble, len(stats.shards)) for trouble in troubles_of(stats)]


def in_words(trouble: Trouble, shards: int) -> str:
    count = int(trouble.number)
    said = {"n": number(count), "time": duration(trouble.number)}
    match trouble.code:
        case TroubleCode.UNREACHABLE:
            return (
                ngettext("%(n)s shard does not answer.", "%(n)s shards do not answer.", count)
                % said
            )
        case TroubleCode.NO_CONSUMER:
            return _("No consumer takes its tasks.")
        case TroubleCode.NO_SCHEDULER if count >= shards:
            return _("No scheduler serves it.")
        case TroubleCode.NO_SCHEDULER:
            return (
                ngettext(
                    "%(n)s shard is served by no scheduler.",
                    "%(n)s shards are served by no scheduler.",
                    count,
                )
                % said
            )
        case TroubleCode.LATE:
            return _("The first due task is late by %(time)s.") % said
        case TroubleCode.SLOW_START:
            return _("The first ready task has waited for %(time)s.") % said
        case TroubleCode.DYING:
            return (
                ngettext(
                    "%(n)s task died in the last hour.", "%(n)s tasks died in the last hour.", count
                )
                % said
            )

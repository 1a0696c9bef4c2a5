"""Dead letters: look at them, put their tasks back to work, or remove them for good.

``queue`` has the class that people use, built on ``reading``, which changes nothing, and ``bulk_work``,
what goes on in the background; ``letters``, ``groups``, ``survey`` and ``bulk`` have the values,
``trimming`` what the janitor removes where a setting says so.
"""

from __future__ import annotations

from django_redq.dead_letters.browsing import browse
from django_redq.dead_letters.bulk import Bulk, BulkAction, BulkState
from django_redq.dead_letters.groups import DeadGroup, DeadGroups
from django_redq.dead_letters.letters import DeadLetter, DeadLetterPage, LetterRef, ReplayResult
from django_redq.dead_letters.queue import DeadLetterQueue
from django_redq.dead_letters.survey import Survey
from django_redq.dead_letters.trimming import trim

__all__ = [
    "Bulk",
    "BulkAction",
    "BulkState",
    "DeadGroup",
    "DeadGroups",
    "DeadLetter",
    "DeadLetterPage",
    "DeadLetterQueue",
    "LetterRef",
    "ReplayResult",
    "Survey",
    "browse",
    "trim",
]

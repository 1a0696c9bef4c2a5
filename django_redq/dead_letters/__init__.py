"""Dead letters: look at them, put their tasks back to work, or remove them for good.

``letters`` has the values, ``queue`` the class that people use, ``trimming`` what the janitor
removes where a setting says so.
"""

from __future__ import annotations

from django_redq.dead_letters.letters import DeadLetter, DeadLetterPage, ReplayResult
from django_redq.dead_letters.queue import DeadLetterQueue
from django_redq.dead_letters.trimming import trim

__all__ = ["DeadLetter", "DeadLetterPage", "DeadLetterQueue", "ReplayResult", "trim"]

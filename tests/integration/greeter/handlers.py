"""Says hello."""

from __future__ import annotations

import sys

from django_redq import Task, handler


@handler("default")
def greet(task: Task[str]) -> None:
    sys.stdout.write(f"hello {task.payload}\n")

"""``django_redq`` itself: the public names, and what a process loads with them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import django_redq

SOURCE = ast.parse(Path(django_redq.__file__).read_text())


def names_for_type_checkers() -> set[str]:
    """What mypy and pyright take the package to have."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", django_redq.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(django_redq, name).__module__.startswith("django") or name.startswith("task_")


def test_type_checkers_see_the_same_names() -> None:
    assert names_for_type_checkers() == set(django_redq.__all__)
    assert set(django_redq.__all__) <= set(dir(django_redq))


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'enqueu'"):
        django_redq.enqueu  # noqa: B018


def test_importing_the_package_imports_neither_django_nor_redis() -> None:
    loaded = run(
        "import sys, django_redq; "
        "print({'django', 'redis', 'django_redq.conf'} & sys.modules.keys())"
    )
    assert loaded == "set()\n"


def test_a_process_that_only_enqueues_loads_neither_consumer_nor_scheduler() -> None:
    loaded = run(
        "import sys; from django_redq import enqueue, handler, cancel, get_task, Task, Retry; "
        "print([name for name in sys.modules if name.startswith(('django_redq.consumer', "
        "'django_redq.scheduler', 'django_redq.service'))])"
    )
    assert loaded == "[]\n"

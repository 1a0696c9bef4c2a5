"""Fixtures of the admin's tests."""

from __future__ import annotations

import pytest

from tests.engine import Engine
from tests.harness import Redq
from tests.integration.admin.visitors import Visitor
from tests.integration.graves import Graveyard, configure


@pytest.fixture
def graves(redq: Redq, engine: Engine, db: None) -> Graveyard:
    """The queue ``letters`` and its dead; beside it the queue ``other``."""
    configure(redq)
    return Graveyard(redq)


@pytest.fixture
def boss(db: None) -> Visitor:
    """May do everything."""
    return Visitor(superuser=True)


@pytest.fixture
def reader(db: None) -> Visitor:
    """May look, and no more."""
    return Visitor("view")

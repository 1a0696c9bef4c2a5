"""Fixtures of the browser tests; each module has a shop and a browser of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.storefront import CHROMIUM, Shop, chromium

SHOTS = os.environ.get("REDQ_SCREENSHOTS", "")
"""A directory for the pictures of the docs; without it none are taken."""

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The example shop, its web server running."""
    with Shop(tmp_path_factory.mktemp("shop")) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH (Debian: apt-get install chromium)")
    with chromium() as started:
        yield started


@pytest.fixture
def visit(shop: Shop, browser: Browser) -> Iterator[Visit]:
    """Lets somebody in by name; further options are those of a browser context."""
    opened = []

    def come(user: str = "admin", **options: object) -> Page:
        context = browser.new_context(base_url=shop.address, locale="en-GB", **options)
        opened.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.goto("/admin/login/")
        page.fill("#id_username", user)
        page.fill("#id_password", user)
        page.click("input[type=submit]")
        return page

    yield come
    for context in opened:
        context.close()


@pytest.fixture
def shoot() -> Callable[[Page, str], None]:
    """Takes a picture for the docs, where they are wanted."""

    def take(page: Page, name: str) -> None:
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"{name}.png")

    return take

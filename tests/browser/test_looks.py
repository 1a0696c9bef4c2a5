"""How the pages look and behave: dark, on a phone, under a strict CSP, without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit
from tests.browser.storefront import Shop
from tests.harness import until

QUEUE = "/admin/django_redq/queue/"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PHONE = {"width": 390, "height": 844}
Shoot = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def lively(shop: Shop) -> Shop:
    """The shop with a bit of everything."""
    shop.furnish("dead_webhooks", 7)
    shop.furnish("dead_confirmations", 5)
    shop.furnish("dead_credits", 2)
    shop.furnish("reminders", 4)
    return shop


def tour(page: Page) -> list[str]:
    """The address of every page, each found by a link or a button of the one before."""
    seen = []

    def note() -> None:
        expect(page.locator("h1").first).to_be_visible()
        seen.append(page.url)

    for path in (
        "",
        "email/change/",
        "email/history/",
        "tasks/?queue=email&state=scheduled",
        "tasks/?queue=email&state=ready",
        "tasks/?queue=email&state=running",
        "dead/",
        "dead/causes/",
        "bulk/",
    ):
        page.goto(f"{QUEUE}{path}")
        note()
    page.goto(f"{QUEUE}tasks/?queue=email&state=scheduled")
    page.locator("#content tbody th a").first.click()
    note()
    page.goto(f"{QUEUE}dead/?queue=webhook")
    page.locator(".redq-letters tbody th a").first.click()
    note()
    page.get_by_role("link", name="Edit and replay").click()
    note()
    page.goto(f"{QUEUE}dead/?queue=webhook")
    page.get_by_role("button", name="Replay all").click()
    note()
    page.get_by_label("Spread over").fill("10")
    page.get_by_role("button", name="Replay").click()
    note()
    page.get_by_role("button", name="Stop").click()
    note()
    return seen


def test_every_page_works_without_javascript(lively: Shop, visit: Visit):
    seen = tour(visit(java_script_enabled=False))

    assert len(seen) == 15


def test_every_page_obeys_a_strict_csp(lively: Shop, visit: Visit):
    page = visit()
    complaints: list[str] = []

    def restrict(route: Route) -> None:
        response = route.fetch(max_redirects=0)
        route.fulfill(
            response=response, headers={**response.headers, "content-security-policy": CSP}
        )

    def note(message: Any) -> None:
        if message.type in {"error", "warning"} and "favicon" not in message.location["url"]:
            complaints.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.route(f"**{QUEUE}**", restrict)

    tour(page)

    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(lively: Shop, visit: Visit, scheme: Any):
    page = visit(viewport=PHONE, color_scheme=scheme)

    for url in tour(page):
        page.goto(url)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], url


def luminance(page: Page, selector: str, what: str) -> float:
    """Of a colour as the browser computed it, by WCAG 2."""
    rgb = page.locator(selector).first.evaluate(
        """(element, what) => {
            while (what === "backgroundColor" && element.parentElement
                   && getComputedStyle(element)[what] === "rgba(0, 0, 0, 0)")
                element = element.parentElement;
            return getComputedStyle(element)[what].match(/[\\d.]+/g).slice(0, 3).map(Number);
        }""",
        what,
    )
    parts = [one / 255 for one in rgb]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("path", "selectors"),
    [
        (
            "dead/",
            [".redq-minor", ".redq-said", ".redq-letters a", "caption", ".redq .redq-danger"],
        ),
        ("", [".redq-warning", ".redq-queues td a", ".redq-id"]),
        ("email/change/", [".redq-tiles dd", ".redq-tiles dt", ".redq-minor", "#content summary"]),
        ("dead/causes/", [".redq-groups td", ".redq-tabs a[aria-current]"]),
        ("letter", [".redq-error strong", ".redq-error pre", ".redq-code", ".redq-facts dt"]),
    ],
)
def test_text_stands_out_in_either_scheme(
    lively: Shop, visit: Visit, scheme: Any, path: str, selectors: list[str]
):
    page = visit(color_scheme=scheme)
    page.goto(f"{QUEUE}dead/" if path == "letter" else f"{QUEUE}{path}")
    if path == "letter":
        page.locator(".redq-letters tbody th a").first.click()

    for selector in selectors:
        dark, light = sorted(
            luminance(page, selector, what) for what in ("color", "backgroundColor")
        )
        assert (light + 0.05) / (dark + 0.05) >= 4.5, selector


def test_the_pictures_of_the_docs(lively: Shop, visit: Visit, shoot: Shoot):
    """They are taken where they are wanted (see conftest.py); the way there is walked always."""
    lively.furnish("busy_hour")
    for number in (9, 3, 1, 2):
        lively.furnish("dead_webhooks", number, "globex")
        lively.furnish("dead_confirmations", number)
        lively.furnish("dead_credits", 1)
    scheduler, consumer = lively.start_scheduler(), lively.start_consumer()
    page = visit(viewport={"width": 1280, "height": 800})

    page.goto(QUEUE)
    until(lambda: page.reload() and not re.search("No (consumer|scheduler)", page.content()))
    shoot(page, "queues")
    page.goto(f"{QUEUE}loyalty/change/")
    shoot(page, "queue")
    lively.stop(consumer)
    lively.stop(scheduler)
    page.goto(f"{QUEUE}dead/")
    shoot(page, "dead-letters")
    page.goto(f"{QUEUE}dead/causes/")
    shoot(page, "causes")
    page.get_by_role("row").filter(has_text="URLError").get_by_role("button", name="Replay").click()
    page.get_by_label("Spread over").fill("10")
    shoot(page, "confirm")
    page.goto(f"{QUEUE}dead/?queue=webhook")
    page.locator(".redq-letters tbody th a").first.click()
    # Its paths are those of the machine where the picture is taken.
    page.get_by_text("Traceback", exact=True).first.click()
    shoot(page, "dead-letter")
    page.get_by_role("link", name="Edit and replay").click()
    expect(page.get_by_label("Payload")).to_contain_text("order_id")
    shoot(page, "edit")

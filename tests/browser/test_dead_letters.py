"""An operator works through dead letters, in a real browser on the real shop."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.storefront import Kind, Shop
from tests.harness import until

DEAD = "/admin/django_redq/queue/dead/"
CAUSES = "/admin/django_redq/queue/dead/causes/"
Shoot = Callable[[Page, str], None]


def test_a_dead_letter_is_found_edited_replayed_and_seen_to_run(
    shop: Shop, visit: Visit, shoot: Shoot
):
    [task_id] = shop.furnish("dead_confirmations")
    order = shop.furnish("order")
    page = visit()

    page.goto("/admin/")
    page.locator("#content").get_by_role("link", name="Queues", exact=True).click()
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_label("Text in the error").fill("is gone")
    page.get_by_role("button", name="Filter").click()
    # Other tests have left letters of the same cause here.
    page.locator(f'a[href*="{task_id}"]').click()
    expect(page.locator(".redq-error")).to_contain_text("is gone")
    page.get_by_role("link", name="Edit and replay").click()
    page.get_by_label("Payload").fill(json.dumps({"order_id": "nonsense"}))
    page.get_by_role("button", name="Replay as edited").click()
    expect(page.locator(".errorlist")).to_contain_text("order_id")
    page.get_by_label("Payload").fill(json.dumps({"order_id": order}))
    page.get_by_role("button", name="Replay as edited").click()

    expect(page.locator(".messagelist")).to_contain_text("1 replayed, as edited.")
    consumer = shop.start_consumer()
    until(lambda: shop.ledger.received[Kind.CONFIRMATION, order] == 1)
    until(lambda: shop.furnish("state", "email", task_id) is None)
    shop.stop(consumer)


def test_a_cause_is_replayed_spread_over_time_and_watched(shop: Shop, visit: Visit, shoot: Shoot):
    shop.furnish("dead_webhooks", 20, "acme")
    page = visit()

    page.goto(CAUSES)
    row = page.get_by_role("row").filter(has_text="URLError")
    expect(row).to_contain_text("20")
    row.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("heading", name="Replay 20 dead letters?")).to_be_visible()
    page.get_by_label("Spread over").fill("30")
    page.get_by_role("button", name="Replay 20 letters").click()

    expect(page.locator(".redq-result")).to_contain_text("0 replayed of 20")
    expect(page.locator(".errornote")).to_contain_text("No scheduler runs")
    scheduler = shop.start_scheduler()
    # The page looks again by itself.
    expect(page.get_by_role("heading", name="Done")).to_be_visible(timeout=30_000)
    expect(page.locator(".redq-result")).to_contain_text("20 replayed of 20")
    assert shop.furnish("stats", "webhook")["dead"] == 0
    assert shop.furnish("stats", "webhook")["scheduled"] > 10
    shop.stop(scheduler)


def test_bulk_work_is_stopped(shop: Shop, visit: Visit):
    shop.furnish("dead_credits", 3)
    page = visit()

    page.goto(f"{DEAD}?queue=loyalty")
    page.get_by_role("button", name="Discard all 3").click()
    page.get_by_role("button", name="Discard 3 letters").click()
    page.get_by_role("button", name="Stop").click()

    expect(page.locator(".messagelist")).to_contain_text("It was stopped.")
    expect(page.get_by_role("heading", name="Stopped")).to_be_visible()
    assert shop.furnish("stats", "loyalty")["dead"] == 3


def test_what_is_ticked_is_discarded(shop: Shop, visit: Visit):
    doomed, kept = shop.furnish("dead_confirmations", 2)
    page = visit()

    page.goto(f"{DEAD}?queue=email&task_id={doomed}")
    page.get_by_label(f"Select {doomed}").check()
    page.get_by_role("button", name="Discard selected").click()
    expect(page.locator(".errornote")).to_contain_text("no way back")
    page.get_by_role("button", name="Discard 1 letter").click()

    expect(page.locator(".messagelist")).to_contain_text("1 discarded.")
    assert shop.furnish("state", "email", doomed) is None
    assert shop.furnish("state", "email", kept) == "dead"


def test_a_reader_sees_and_has_no_buttons(shop: Shop, visit: Visit):
    [task_id] = shop.furnish("dead_confirmations")
    page = visit("reader")

    page.goto(f"{DEAD}?task_id={task_id}")
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.get_by_role("link", name="Reject").click()
    expect(page.locator(".redq-error")).to_be_visible()
    expect(page.locator("#content").get_by_role("button")).to_have_count(0)
    token = next(one["value"] for one in page.context.cookies() if one["name"] == "csrftoken")
    answer = page.request.post(
        f"{DEAD}action/",
        form={"act": "discard-matching", "confirmed": "yes", "csrfmiddlewaretoken": token},
        headers={"Referer": page.url},
    )

    assert answer.status == 403
    assert shop.furnish("state", "email", task_id) == "dead"

"""An operator looks after queues and tasks, in a real browser on the real shop."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.storefront import Kind, Shop
from tests.harness import until

QUEUES = "/admin/django_redq/queue/"


def test_a_paused_queue_rests_until_it_is_resumed(shop: Shop, visit: Visit):
    order = shop.furnish("order")
    consumer = shop.start_consumer()
    page = visit()

    page.goto(QUEUES)
    page.locator(".redq-queues").get_by_role("link", name="email").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".redq-note")).to_contain_text("Paused")
    [task_id] = shop.furnish("confirmations", order)
    assert shop.furnish("stats", "email") | {"paused": True, "ready": 1} == shop.furnish(
        "stats", "email"
    )
    page.goto(QUEUES)
    expect(page.get_by_role("row").filter(has_text="email")).to_contain_text("paused")
    page.locator(".redq-queues").get_by_role("link", name="email").click()
    page.get_by_role("button", name="Resume").click()

    until(lambda: shop.ledger.received[Kind.CONFIRMATION, order] == 1)
    until(lambda: shop.furnish("state", "email", task_id) is None)
    page.goto(f"{QUEUES}email/history/")
    expect(page.locator("#content")).to_contain_text("admin")
    shop.stop(consumer)


def test_a_scheduled_task_is_cancelled_and_another_run_now(shop: Shop, visit: Visit):
    doomed, wanted = shop.furnish("reminders", 2)
    page = visit()

    page.goto(f"{QUEUES}email/change/")
    page.get_by_role("link", name="Scheduled").first.click()
    page.get_by_label(f"Select {doomed}").check()
    page.get_by_role("button", name="Cancel selected").click()
    expect(page.locator("#content")).to_contain_text(doomed)
    page.locator("#content").get_by_role("button", name="Cancel").click()
    expect(page.locator(".messagelist")).to_be_visible()
    assert shop.furnish("state", "email", doomed) is None
    assert shop.furnish("state", "email", wanted) == "scheduled"

    page.goto(QUEUES)
    page.get_by_label("Find a task by its ID").fill(wanted)
    page.get_by_role("button", name="Find").click()
    expect(page.locator("#content")).to_contain_text("reminder")
    page.get_by_role("button", name="Run now").click()

    expect(page.locator(".messagelist")).to_be_visible()
    assert shop.furnish("state", "email", wanted) == "ready"


def test_a_queue_without_a_consumer_is_red(shop: Shop, visit: Visit):
    page = visit("reader")

    page.goto(QUEUES)
    row = page.get_by_role("row").filter(has_text="loyalty")
    expect(row.locator(".redq-warning").first).to_be_visible()
    row.get_by_role("link", name="loyalty").click()

    expect(page.locator("#content").get_by_role("button", name="Pause")).to_have_count(0)

"""What the browser tests put into the shop; a script, run inside it: furnish.py FUNCTION ARGUMENT ..."""

from __future__ import annotations

import json
import math
import sys
import time
import uuid
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import django

django.setup()

from django.contrib.auth.models import Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402
from shop.handlers import (  # noqa: E402
    OrderPlaced,
    OrderRef,
    credit_points,
    deliver_webhook,
    send_confirmation,
    send_reminder,
)
from shop.models import Order, Partner, Product  # noqa: E402

from django_redq import Consumer, Producer, Queue, get_task  # noqa: E402

NOBODY = "http://127.0.0.1:9/orders"
"""Where no partner listens."""


def shop() -> None:
    """A database with goods, partners, and people who may log in with their name as password."""
    call_command("migrate", verbosity=0)
    User.objects.create_superuser("admin", password="admin")
    reader = User.objects.create_user("reader", password="reader", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename="view_queue"))
    Product.objects.create(slug="teapot", price="19.90", stock=1000)
    for slug in ("acme", "globex"):
        Partner.objects.create(slug=slug, webhook_url=NOBODY)


def _work(consumer: Consumer | None = None) -> None:
    """Runs all that is ready, in this process, and leaves no name behind."""
    worker = consumer or Consumer("email", "webhook", "loyalty", concurrency=8)
    while worker.run_once():
        pass
    worker.stop()


def dead_confirmations(number: int = 1) -> list[str]:
    """Confirmations of orders that are gone: rejected by their handler."""
    ids = [send_confirmation.enqueue(OrderRef(uuid.uuid4())).task_id for _ in range(number)]
    _work()
    return ids


def dead_webhooks(number: int = 1, partner: str = "acme") -> list[str]:
    """Webhooks to a partner that does not answer: all attempts failed."""
    ids = []
    for at in range(number):
        placed = OrderPlaced(
            order_id=uuid.uuid4(),
            partner=partner,
            product="teapot",
            quantity=1 + at % 3,
            total=Decimal("19.90") * (1 + at % 3),
            placed_at=timezone.now(),
        )
        sent = deliver_webhook.enqueue(
            placed,
            max_attempts=1,
            idempotency_key=f"order-{4711 + at}",
            metadata={"request": f"req-{at:04x}"},
        )
        ids.append(sent.task_id)
    _work()
    return ids


def dead_credits(number: int = 1) -> list[str]:
    """Points for orders that are gone."""
    ids = [
        credit_points.enqueue(OrderRef(uuid.uuid4()), max_attempts=1).task_id for _ in range(number)
    ]
    _work()
    return ids


def order(customer: str = "Ada Lovelace") -> str:
    """An order whose tasks were all done long ago; its ID."""
    made = Order(
        customer=customer,
        email="ada@example.org",
        partner_id="acme",
        product_id="teapot",
        quantity=1,
    )
    # Not by save(): the receiver would enqueue what an order sets going.
    made.placed_at = timezone.now()
    Order.objects.bulk_create([made])
    return str(made.pk)


def confirmations(*orders: str) -> list[str]:
    """Confirmations of these orders, ready to be sent."""
    return [send_confirmation.enqueue(OrderRef(uuid.UUID(one))).task_id for one in orders]


def busy_hour() -> int:
    """An hour of points credited, some of them not, as the clocks of the scripts tell it."""
    known, made = OrderRef(uuid.UUID(order())), 0
    for minute in range(59, -1, -1):
        # What the scripts of this round take for the time.
        now = partial(float, time.time() - 60 * minute)
        producer, consumer = (
            Producer("loyalty", now=now),
            Consumer("loyalty", now=now),
        )
        # A wave, and two minutes in which the orders were not to be found.
        for at in range(12 + round(8 * math.sin(minute / 7)) + minute % 3):
            lost = minute in {20, 21} and at % 2
            producer.enqueue(OrderRef(uuid.uuid4()) if lost else known, max_attempts=1)
            made += 1
        _work(consumer)
    return made


def reminders(number: int = 1, hours: float = 1) -> list[str]:
    """Reminders that are due in some hours."""
    return [
        send_reminder.enqueue(
            OrderRef(uuid.uuid4()), delay=timedelta(hours=hours * (at + 1))
        ).task_id
        for at in range(number)
    ]


def state(queue: str, task_id: str) -> str | None:
    """Where a task is; None where it is done."""
    found = get_task(queue, task_id)
    return None if found is None else found.state


def stats(queue: str) -> dict[str, Any]:
    """How many tasks are where."""
    found = Queue(queue).stats()
    names = ("scheduled", "ready", "running", "dead", "paused")
    return {name: getattr(found, name) for name in names}


def main(name: str, *arguments: str) -> None:
    function = globals()[name]
    found = function(*(int(one) if one.isdigit() else one for one in arguments))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

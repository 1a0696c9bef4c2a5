"""What a demo that stays up leaves in the queues, so that there is something to see in the admin."""

from __future__ import annotations

import uuid
from datetime import timedelta

from proof import queues
from proof.stage import Stage

GONE = 12
"""Confirmations of orders that do not exist: rejected by their handler."""
UNREACHABLE = 30
"""Webhooks to a partner who has left: connection refused, whatever is tried."""
UNKNOWN = 4
"""Points for orders that do not exist."""
WAITING = 15
"""Reminders that are due in some hours."""


def put_up(stage: Stage) -> str:
    """Has tasks die and others wait; says what there is."""
    from django.utils import timezone
    from shop.handlers import (
        OrderPlaced,
        OrderRef,
        credit_points,
        deliver_webhook,
        send_confirmation,
        send_reminder,
    )
    from shop.models import Order, Partner

    left = Partner.objects.create(slug="left-us", webhook_url="http://127.0.0.1:9/orders")
    orders = [*Order.objects.select_related("product")[:UNREACHABLE]]
    for order in orders:
        placed = OrderPlaced(
            order_id=order.pk,
            partner=left.pk,
            product=order.product_id,
            quantity=order.quantity,
            total=order.total,
            placed_at=timezone.now(),
        )
        deliver_webhook.enqueue(placed, max_attempts=2, idempotency_key=f"order-{order.pk}")
    for _ in range(GONE):
        send_confirmation.enqueue(OrderRef(uuid.uuid4()))
    for _ in range(UNKNOWN):
        credit_points.enqueue(OrderRef(uuid.uuid4()), max_attempts=1)
    dead = len(orders) + GONE + UNKNOWN
    stage.wait(lambda: queues.dead() >= dead, "what is to be seen in the admin")
    waiting = orders[:WAITING]
    for at, order in enumerate(waiting):
        send_reminder.enqueue(OrderRef(order.pk), delay=timedelta(hours=1 + at))
    return (
        f"{dead} dead letters of three kinds, to look at, edit, replay or discard; "
        f"{len(waiting)} reminders, to run now or to cancel"
    )

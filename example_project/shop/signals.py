"""What an order sets going. The receiver runs inside the transaction that saves the order, so all
of it is sent when that commits, and nothing of it when that is rolled back.
"""

from django.conf import settings
from django.db.models.signals import post_save
from django.dispatch import receiver

from shop.handlers import (
    OrderPlaced,
    OrderRef,
    credit_points,
    deliver_webhook,
    send_confirmation,
    send_reminder,
)
from shop.models import Order


@receiver(post_save, sender=Order)
def order_saved(instance: Order, *, created: bool, raw: bool, **kwargs: object) -> None:
    if not created or raw:
        return
    ref = OrderRef(order_id=instance.pk)
    send_confirmation.enqueue(ref, task_id=instance.confirmation_task_id)
    send_reminder.enqueue(ref, task_id=instance.reminder_task_id, delay=settings.REMINDER_DELAY)
    credit_points.enqueue(ref)
    deliver_webhook.enqueue(OrderPlaced.of(instance), task_id=instance.webhook_task_id)

"""What the consumers do. Each handler can run twice for one task, after a crash for instance, so
each says how the second run does no harm.
"""

import json
import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import UUID

from django.core.mail import EmailMessage
from django.core.serializers.json import DjangoJSONEncoder

from django_redq import DeadLetter, Reject, Retry, Task, dead_letter_handler, handler
from shop.models import LoyaltyCredit, Order, Partner

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OrderRef:
    """For handlers that want the order as it is when they run."""

    order_id: UUID

    def load(self) -> Order:
        try:
            return Order.objects.select_related("product").get(pk=self.order_id)
        except Order.DoesNotExist:
            raise Reject(f"order {self.order_id} is gone") from None  # no retry would bring it back


@dataclass(frozen=True, slots=True)
class OrderPlaced:
    """For the partner: the order as it was when it was placed."""

    order_id: UUID
    partner: str
    product: str
    quantity: int
    total: Decimal
    placed_at: datetime

    @classmethod
    def of(cls, order: Order) -> Self:
        return cls(
            order_id=order.pk,
            partner=order.partner_id,
            product=order.product_id,
            quantity=order.quantity,
            total=order.total,
            placed_at=order.placed_at,
        )


@handler("email", kind="confirmation")
def send_confirmation(task: Task[OrderRef]) -> None:
    order = task.payload.load()
    _mail(task, order, "Your order", f"Thank you for ordering {order.quantity} {order.product_id}.")


@handler("email", kind="reminder")
def send_reminder(task: Task[OrderRef]) -> None:
    order = task.payload.load()
    if order.paid_at is None:
        _mail(task, order, "Your order is not paid yet", f"Please pay {order.total}.")


@handler("webhook", timeout=30)
def deliver_webhook(task: Task[OrderPlaced]) -> None:
    """POST the order to its partner, who drops repeats by their Idempotency-Key."""
    partner = Partner.objects.get(pk=task.payload.partner)
    request = Request(  # noqa: S310 - the address is the staff's, not a visitor's
        partner.webhook_url,
        data=json.dumps(asdict(task.payload), cls=DjangoJSONEncoder).encode(),
        headers={
            "Content-Type": "application/json",
            "Idempotency-Key": task.id,
            "X-Attempt": str(task.attempt),
        },
    )
    try:
        urlopen(request, timeout=10).close()  # noqa: S310
    except HTTPError as error:
        with error:
            _judge(error)


@handler("loyalty")
async def credit_points(task: Task[OrderRef]) -> None:
    """A point for each whole unit of money; a second run finds the credit and leaves it."""
    order = await Order.objects.select_related("product").aget(pk=task.payload.order_id)
    await LoyaltyCredit.objects.aget_or_create(order=order, defaults={"points": int(order.total)})


@dead_letter_handler("webhook")
def webhook_died(letter: DeadLetter) -> None:
    """Tell those who can call the partner; the webhook waits in the admin to be replayed."""
    logger.warning("webhook %s is dead (%s): %s", letter.task_id, letter.reason, letter.error)


def _mail(task: Task[OrderRef], order: Order, subject: str, body: str) -> None:
    # The same Message-ID each time: a mail server or client that knows it drops the repeat.
    headers = {"Message-ID": f"<{task.id}@shop.example>", "X-Order": str(order.pk)}
    headers["X-Kind"] = task.kind
    EmailMessage(subject, body, to=[order.email], headers=headers).send()


def _judge(error: HTTPError) -> None:
    """What a refusal by the partner means for the task."""
    if error.code == 429:
        raise Retry("the partner is busy", delay=float(error.headers.get("Retry-After", 5)))
    if 400 <= error.code < 500:
        raise Reject(f"the partner does not want it: {error}")
    raise error  # the queue's retry policy says when

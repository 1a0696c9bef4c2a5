"""What the shop keeps."""

import uuid

from django.db import models
from django.urls import reverse


class OutOfStock(Exception):
    """Fewer pieces are left than were ordered."""


class Partner(models.Model):
    """A business partner who is told of each order by webhook."""

    slug = models.SlugField(primary_key=True)
    webhook_url = models.URLField()

    def __str__(self) -> str:
        return self.slug


class Product(models.Model):
    slug = models.SlugField(primary_key=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.slug} ({self.price})"

    def take(self, quantity: int) -> None:
        """Take ``quantity`` pieces from the stock, or raise :class:`OutOfStock`."""
        # One conditional UPDATE: two customers cannot both get the last piece.
        left = models.F("stock") - quantity
        if not Product.objects.filter(pk=self.pk, stock__gte=quantity).update(stock=left):
            raise OutOfStock(self.slug)


class Order(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    customer = models.CharField(max_length=100)
    email = models.EmailField()
    partner = models.ForeignKey(Partner, on_delete=models.PROTECT)
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveSmallIntegerField()
    placed_at = models.DateTimeField(auto_now_add=True)
    paid_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ("-placed_at",)

    def __str__(self) -> str:
        return f"{self.quantity} x {self.product_id} for {self.customer}"

    def get_absolute_url(self) -> str:
        return reverse("order", args=[self.pk])

    @property
    def total(self):
        return self.product.price * self.quantity

    # Task IDs that follow from the order make enqueueing idempotent, and let a later request find
    # or cancel the task without storing anything.

    @property
    def confirmation_task_id(self) -> str:
        return f"confirmation-{self.pk}"

    @property
    def reminder_task_id(self) -> str:
        return f"reminder-{self.pk}"

    @property
    def webhook_task_id(self) -> str:
        return f"webhook-{self.pk}"


class LoyaltyCredit(models.Model):
    """Points for an order. The one-to-one field makes crediting an order twice impossible."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE)
    points = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.points} points for {self.order_id}"

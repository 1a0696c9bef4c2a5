"""The shop's pages. None of them sends a mail or calls a partner: that is the consumers' work."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from django_redq import cancel, get_task
from shop.forms import OrderForm
from shop.models import Order, OutOfStock


@require_GET
def index(request: HttpRequest) -> HttpResponse:
    return _page(request, OrderForm())


@require_POST
def place_order(request: HttpRequest) -> HttpResponse:
    form = OrderForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=400)
    try:
        with transaction.atomic():
            # Saving the order enqueues its tasks (signals.py), but they are sent on commit only:
            # where the stock does not suffice, the rollback takes them along with the order.
            order = form.save()
            order.product.take(order.quantity)
    except OutOfStock:
        form.add_error("quantity", "There are not so many left.")
        return _page(request, form, status=409)
    return redirect(order)


@require_GET
def show_order(request: HttpRequest, pk: str) -> HttpResponse:
    order = get_object_or_404(Order.objects.select_related("product"), pk=pk)
    tasks = {
        "Confirmation": get_task("email", order.confirmation_task_id),
        "Reminder": get_task("email", order.reminder_task_id),
        "Webhook": get_task("webhook", order.webhook_task_id),
    }
    return render(request, "shop/order.html", {"order": order, "tasks": tasks})


@require_POST
def pay_order(request: HttpRequest, pk: str) -> HttpResponse:
    order = get_object_or_404(Order, pk=pk)
    Order.objects.filter(pk=pk, paid_at=None).update(paid_at=timezone.now())
    # A reminder that runs already cannot be cancelled; its handler looks at paid_at itself.
    cancel("email", order.reminder_task_id)
    return redirect(order)


def _page(request: HttpRequest, form: OrderForm, status: int = 200) -> HttpResponse:
    context = {"form": form, "orders": Order.objects.select_related("product")[:10]}
    return render(request, "shop/index.html", context, status=status)

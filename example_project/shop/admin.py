"""The shop's data in the admin; the queues are there too, by django_redq."""

from django.contrib import admin

from shop.models import LoyaltyCredit, Order, Partner, Product


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ("id", "customer", "product", "quantity", "partner", "placed_at", "paid_at")
    list_filter = ("partner", "product")
    search_fields = ("id", "customer", "email")
    list_select_related = ("product", "partner")


admin.site.register([Partner, Product, LoyaltyCredit])

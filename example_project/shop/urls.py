"""The shop's addresses."""

from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [
    path("", views.index, name="index"),
    path("orders/", views.place_order, name="place-order"),
    path("orders/<uuid:pk>/", views.show_order, name="order"),
    path("orders/<uuid:pk>/pay/", views.pay_order, name="pay-order"),
    path("admin/", admin.site.urls),
]

"""The order form."""

from django import forms

from shop.models import Order


class OrderForm(forms.ModelForm):
    quantity = forms.IntegerField(min_value=1, max_value=99, initial=1)

    class Meta:
        model = Order
        fields = ("customer", "email", "product", "quantity", "partner")

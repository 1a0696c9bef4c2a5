"""What customers type into the order form."""

import factory
from factory import fuzzy

PARTNERS = ("swift", "slow", "flaky", "down")
STOCK = {"kettle": 1_000_000, "teapot": 1_000_000, "rare-vase": 10}
"""Product -> pieces in stock; the vases run out, so some orders are refused and rolled back."""


class OrderData(factory.DictFactory):
    """The fields of one posted order form."""

    customer = factory.Faker("name")
    email = factory.Sequence(lambda n: f"customer{n}@example.org")
    product = fuzzy.FuzzyChoice([*["kettle", "teapot"] * 9, "rare-vase"])
    quantity = fuzzy.FuzzyInteger(1, 3)
    # By turns, so that each partner gets its share.
    partner = factory.Iterator(PARTNERS)

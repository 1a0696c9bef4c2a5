"""The shop's customers: they fill in the order form over HTTP, as browsers do."""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from urllib.parse import urlencode

from proof.ledger import Ledger

PAYING_AT_ONCE = 0.2
"""Share of the customers who pay at once and so must get no reminder."""


class Unanswered(Exception):
    """The shop did not answer an order as a shop does."""


class Customers:
    """A crowd that orders concurrently and notes what the shop answered.

    Args:
        crowd: how many order at the same time.
    """

    def __init__(self, host: str, port: int, ledger: Ledger, *, crowd: int = 6) -> None:
        self.address = (host, port)
        self.ledger = ledger
        self.crowd = crowd
        self.leave = threading.Event()
        self._token = ""

    def order(self, forms: Iterable[Mapping[str, object]], pause: float) -> None:
        """Post the forms, ``pause`` seconds between two crowds, until all are answered or
        ``leave`` is set.

        Raises:
            Unanswered: the shop gave an answer that no shop gives.
        """
        self._token = self._fetch_token()
        forms = iter(forms)
        with ThreadPoolExecutor(self.crowd, thread_name_prefix="customer") as pool:
            while not self.leave.is_set() and (batch := list(islice(forms, self.crowd))):
                list(pool.map(self._place, batch))  # takes the answers, and raises what they raise
                self.leave.wait(pause)

    def _place(self, form: Mapping[str, object]) -> None:
        status, location = self._post("/orders/", form)
        if status == 302 and location.startswith("/orders/"):
            order = location.split("/")[2]
            self.ledger.accept(order, str(form["partner"]))
            if random.random() < PAYING_AT_ONCE:  # noqa: S311
                self._pay(order)
        elif status == 409:
            self.ledger.refuse()
        else:
            raise Unanswered(f"the shop answered {status} to the order {dict(form)}")

    def _pay(self, order: str) -> None:
        status, _ = self._post(f"/orders/{order}/pay/", {})
        if status != 302:
            raise Unanswered(f"the shop answered {status} to the payment of order {order}")
        self.ledger.pay(order)

    def _fetch_token(self) -> str:
        """The CSRF token that comes with the form; one serves the whole crowd."""
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        connection.request("GET", "/")
        cookie = connection.getresponse().headers.get("Set-Cookie", "")
        connection.close()
        return cookie.removeprefix("csrftoken=").partition(";")[0]

    def _post(self, path: str, form: Mapping[str, object]) -> tuple[int, str]:
        """(status, where the answer redirects to)"""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": f"csrftoken={self._token}",
            "X-CSRFToken": self._token,
        }
        try:
            connection.request("POST", path, urlencode(form), headers)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(f"the shop did not answer a POST of {path}: {error!r}") from error
        finally:
            connection.close()
        return response.status, response.headers.get("Location", "")

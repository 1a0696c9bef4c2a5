"""An operator of the shop's queues, who looks into the admin as a browser would."""

from __future__ import annotations

from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

QUEUES = "/admin/django_redq/queue/"
PAGES = {
    QUEUES: "Queues",
    f"{QUEUES}webhook/change/": "webhook",
    f"{QUEUES}dead/": "Dead letters",
    f"{QUEUES}dead/causes/": "Dead letters by cause",
    f"{QUEUES}bulk/": "Bulk work",
}
"""Where the operator looks, and the title to be found there."""


class Operator:
    """Somebody with a log-in."""

    def __init__(self, address: str, user: str, password: str) -> None:
        self._address = address
        self._cookies = CookieJar()
        # A proxy in the environment is not for servers of this machine.
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(self._cookies))
        self._log_in(user, password)

    def complaints(self) -> list[str]:
        """A sentence for each page that is not as it should be."""
        found = []
        for path, title in PAGES.items():
            status, text = self._open(path)
            if status != 200 or f"<title>{title} |" not in text:
                found.append(f"the admin's page {path} answered {status} without {title!r}")
        return found

    def _log_in(self, user: str, password: str) -> None:
        self._open("/admin/login/")
        token = next(one.value for one in self._cookies if one.name == "csrftoken")
        form = {"username": user, "password": password, "csrfmiddlewaretoken": token}
        self._open("/admin/login/", urlencode(form | {"next": QUEUES}).encode())

    def _open(self, path: str, data: bytes | None = None) -> tuple[int, str]:
        try:
            with self._opener.open(self._address + path, data, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, ""

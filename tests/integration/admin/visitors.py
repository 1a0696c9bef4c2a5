"""People in the admin: who they are, what they see, and what they press."""

from __future__ import annotations

from typing import Any

import html5lib
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

HTML = "{http://www.w3.org/1999/xhtml}"


class Page:
    """An answer, parsed; each is checked for what no page of ours may have."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status = response.status_code
        self.text = response.content.decode()
        self.location = response.headers.get("Location", "")
        self.tree: Any = None
        if self.text and "html" in response.headers["Content-Type"]:
            self.tree = html5lib.HTMLParser(strict=True).parse(self.text)
            _check(self)

    def all(self, tag: str) -> list[Any]:
        """Every element of this name."""
        return [*self.tree.iter(f"{HTML}{tag}")]

    @property
    def title(self) -> str:
        return text_of(self.all("h1")[0])

    @property
    def messages(self) -> list[str]:
        """What the admin tells above the page."""
        lists = [one for one in self.all("ul") if one.get("class") == "messagelist"]
        return [text_of(item) for one in lists for item in one.iter(f"{HTML}li")]

    @property
    def content(self) -> str:
        """The text of the page's own part."""
        [found] = [one for one in self.all("div") if one.get("id") == "content"]
        return text_of(found)

    def rows(self) -> list[list[str]]:
        """The cells of the first table's body."""
        bodies = self.all("tbody")
        own = [body for body in bodies if not _inside_nav(self, body)]
        return [[text_of(cell) for cell in row] for row in own[0]] if own else []

    def buttons(self) -> list[str]:
        """The actions that are offered."""
        return [one.get("value") for one in self.all("button") if one.get("name") == "act"]

    def hidden(self) -> dict[str, list[str]]:
        """The hidden fields of the page's own forms."""
        found: dict[str, list[str]] = {}
        for one in self.all("input"):
            if one.get("type") == "hidden" and one.get("name") != "csrfmiddlewaretoken":
                found.setdefault(one.get("name"), []).append(one.get("value", ""))
        return found

    def values(self, name: str) -> list[str]:
        """The values of the inputs of this name."""
        return [one.get("value") for one in self.all("input") if one.get("name") == name]

    def link(self, text: str) -> str:
        """Where the link of this text leads."""
        found = [one.get("href") for one in self.all("a") if text in text_of(one)]
        assert found, f"no link {text!r} in {self.content}"
        return str(found[0])


def text_of(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def _inside_nav(page: Page, body: Any) -> bool:
    return any(body in [*nav.iter()] for nav in page.all("nav"))


def _check(page: Page) -> None:
    """Valid HTML was seen by the strict parser; nothing inline, every field with a name."""
    labels = {one.get("for") for one in page.all("label")}
    ids: list[str] = []
    for one in page.tree.iter("*"):
        assert not [name for name in one.attrib if name.lower().startswith("on")], one.attrib
        assert "style" not in one.attrib, one.attrib
        href = one.get("href", "") + one.get("action", "")
        assert not href.lower().strip().startswith(("javascript:", "data:")), href
        ids += [one.get("id")] if one.get("id") else []
    assert len(ids) == len({*ids}), sorted(ids)
    assert not page.all("style")
    for script in page.all("script"):
        assert script.get("src"), "an inline script"
    for tag in ("input", "select", "textarea"):
        for field in page.all(tag):
            named = field.get("aria-label") or field.get("id") in labels
            silent = field.get("type") in {"hidden", "submit"}
            assert named or silent, f"no label: {field.attrib}"
    for header in page.all("th"):
        assert header.get("scope") in {"col", "row"}, header.attrib
    assert len(page.all("h1")) == 1
    assert page.all("h2") or not page.all("h3")


class Visitor:
    """Somebody who is logged in."""

    def __init__(self, *permissions: str, superuser: bool = False) -> None:
        name = "-".join(permissions) or ("super" if superuser else "nobody")
        self.user = User.objects.create_user(name, is_staff=True, is_superuser=superuser)
        wanted = [f"{one}_queue" for one in permissions]
        self.user.user_permissions.set(Permission.objects.filter(codename__in=wanted))
        self.client = Client(enforce_csrf_checks=True)
        self.client.force_login(self.user)

    def get(self, name: str, **query: Any) -> Page:
        """One of our pages by the name of its address."""
        return self.open(address(name), query)

    def open(self, path: str, query: dict[str, Any] | None = None) -> Page:
        return Page(self.client.get(path, query or {}))

    def post(self, name: str, data: dict[str, Any], *, path: str = "") -> Page:
        """A form sent as a browser would, its token included."""
        token = "a" * 32
        self.client.cookies["csrftoken"] = token
        fields = {**data, "csrfmiddlewaretoken": token}
        return Page(self.client.post(path or address(name), fields))

    def answer(self, question: Page, **fields: Any) -> Page:
        """Says yes to a confirmation page."""
        return self.post("dead_action", {**question.hidden(), **fields})

    def follow(self, page: Page) -> Page:
        """To where the answer leads."""
        assert page.status == 302, page.content
        return self.open(page.location)


def address(name: str, *args: str) -> str:
    return reverse(f"admin:django_redq_queue_{name}", args=args)


def logged() -> list[tuple[str, str]]:
    """(queue, what was done) of every line of the admin's log, oldest first."""
    return [(one.object_id or "", one.change_message) for one in LogEntry.objects.order_by("pk")]

"""What the docs quote is what the package says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.harness import ROOT

PLACE = re.compile(r"%[\d.]*[a-z]")
QUOTED = re.compile(
    r"^\s*(?P<level>[A-Z]+) (?P<logger>django_redq\.\w+): (?P<text>.*)$", re.MULTILINE
)
LINK = re.compile(r"\]\((?P<path>[^)#:]*)(#(?P<anchor>[^)]*))?\)")


def said() -> list[re.Pattern[str]]:
    """All texts of the package, with anything in the place of what is filled in."""
    found = set()
    for path in (ROOT / "django_redq").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add("(.*)".join(map(re.escape, PLACE.split(node.value))))
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(map(pattern_of, node.values)))
    # What says little of its own would match anything.
    return [re.compile(one) for one in found if len(one.replace("(.*)", "")) > 10]


def pattern_of(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else "(.*)"


def test_every_log_line_that_is_quoted_is_logged() -> None:
    quoted = [match["text"] for match in QUOTED.finditer((ROOT / "docs/faults.md").read_text())]
    patterns = said()
    assert len(quoted) > 10
    assert [text for text in quoted if not any(one.fullmatch(text) for one in patterns)] == []


@pytest.mark.parametrize("name", ["README.md", "docs/admin.md", "docs/faults.md"])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        target = page if not link["path"] else (page.parent / link["path"]).resolve()
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in anchors(target), link[0]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}

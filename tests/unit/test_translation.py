"""Every text of the package is in its translations, translated, and compiled."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po
from django.utils.translation.template import templatize

import django_redq

PACKAGE = Path(django_redq.__file__).parent
LANGUAGES = sorted(path.name for path in (PACKAGE / "locale").iterdir())
AGAIN = "; run: make messages"
_KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
}
_PLACEHOLDER = re.compile(r"%\(\w+\)[sdr]|%[sdr%]|</?\w+[^>]*>")


def texts() -> set[str | tuple[str, ...]]:
    """As gettext knows them: one text, or singular and plural."""
    found: set[str | tuple[str, ...]] = set()
    for path in PACKAGE.rglob("*"):
        if path.suffix == ".py":
            found |= {*_extracted(path.read_text())}
        elif path.suffix in {".html", ".txt"}:
            found |= {*_extracted(templatize(path.read_text(), origin=str(path)))}
    return found


def _extracted(source: str) -> Iterator[str | tuple[str, ...]]:
    for _line, text, _comments, _context in extract(
        "python", io.BytesIO(source.encode()), keywords=_KEYWORDS
    ):
        yield text


def catalog(language: str) -> Catalog:
    with (PACKAGE / "locale" / language / "LC_MESSAGES" / "django.po").open("rb") as file:
        return read_po(file, locale=language)


def messages(language: str) -> list[Message]:
    return [message for message in catalog(language) if message.id]


def versions(text: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def test_german_is_there() -> None:
    assert "de" in LANGUAGES


def test_there_is_something_to_translate_in_python_and_in_templates() -> None:
    assert {"Task queues", "Dead letters"} <= texts()
    assert ("%(number)s task", "%(number)s tasks") in texts()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_texts_of_a_translation_are_those_of_the_package(language: str) -> None:
    known = {message.id for message in messages(language)}

    assert texts() - known == set(), f"not in the .po{AGAIN}"
    assert known - texts() == set(), f"no text any more{AGAIN}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_text_is_translated_in_all_its_forms(language: str) -> None:
    for message in messages(language):
        assert not message.fuzzy, message.id
        assert all(versions(message.string)), message.id
        assert len(versions(message.string)) == len(versions(message.id))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_says_the_values_and_has_the_markup_of_its_text(language: str) -> None:
    for message in messages(language):
        for text, said in zip(versions(message.id), versions(message.string), strict=True):
            wanted, given = _PLACEHOLDER.findall(text), _PLACEHOLDER.findall(said)
            assert sorted(given) == sorted(wanted), said


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_translated(language: str) -> None:
    with (PACKAGE / "locale" / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        compiled = {versions(one.id): versions(one.string) for one in read_mo(file) if one.id}

    wanted = {versions(one.id): versions(one.string) for one in messages(language)}
    assert compiled == wanted, f"the .mo is not up to date{AGAIN}"

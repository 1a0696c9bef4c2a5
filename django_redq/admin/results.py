"""What became of many dead letters, in words: "312 replayed, 2 not found"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from django.utils.formats import number_format
from django.utils.translation import ngettext

from django_redq.dead_letters import Bulk, BulkAction, ReplayResult

Counts = Counter[str]
"""Of letters: ``changed`` (as was wanted), ``gone`` (replayed or discarded by others before),
``missing`` (their payloads, so that they cannot be replayed)."""


def of_replay(results: Iterable[ReplayResult]) -> Counts:
    return Counter(map(_what_became, results))


def of_discard(asked: int, discarded: int) -> Counts:
    return Counter(changed=discarded, gone=asked - discarded)


def of_bulk(bulk: Bulk) -> Counts:
    return Counter(changed=bulk.changed, gone=bulk.gone, missing=bulk.missing)


def _what_became(result: ReplayResult) -> str:
    if result.replayed:
        return "changed"
    return "missing" if result.why_not == "no payload" else "gone"


def in_words(action: BulkAction, counts: Counts) -> str:
    """The counts as a sentence without its full stop."""
    return ", ".join(_parts(action, counts))


def _parts(action: BulkAction, counts: Counts) -> Iterator[str]:
    changed, gone, missing = counts["changed"], counts["gone"], counts["missing"]
    if action == BulkAction.REPLAY:
        yield _counted(ngettext("%(number)s replayed", "%(number)s replayed", changed), changed)
    else:
        yield _counted(ngettext("%(number)s discarded", "%(number)s discarded", changed), changed)
    if gone:
        yield _counted(ngettext("%(number)s not found", "%(number)s not found", gone), gone)
    if missing:
        said = ngettext(
            "%(number)s cannot be replayed (its payload is missing)",
            "%(number)s cannot be replayed (their payloads are missing)",
            missing,
        )
        yield _counted(said, missing)


def _counted(said: str, number: int) -> str:
    return said % {"number": number_format(number, force_grouping=True)}

"""The pages in another language than that of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils import translation

from django_redq.broker.keys import shard_of
from django_redq.dead_letters import DeadLetterQueue
from tests.engine import Engine
from tests.integration.admin.visitors import Page, Visitor, address
from tests.integration.graves import QUEUE, SHARDS, Graveyard

ALIKE = {"Filter", "ID", "Shard", "Shards"}
"""Words that are the same in both languages."""
_DATA = re.compile(
    rf"(\W )?{QUEUE}|super|x-\S+|null|in [\d minsh]+|manage\.py .+|[0-9a-f-]{{36}}|[^a-zA-Z]*"
)


def texts(page: Page) -> set[str]:
    """All that a person reads or is read to, but for the frame, which is Django's."""
    [content] = [one for one in page.all("div") if one.get("id") == "content"]
    found = set()
    for one in content.iter("*"):
        if not isinstance(one.tag, str):
            continue  # a comment
        button = one.get("value") if one.get("type") == "submit" else ""
        for text in (one.text, one.tail, one.get("aria-label"), one.get("title"), button):
            found.add(" ".join((text or "").split()))
    return found


def pages(boss: Visitor, bulk_id: str) -> Iterator[Page]:
    """One of every kind."""
    yield boss.get("changelist")
    yield boss.open(address("change", QUEUE))
    yield boss.open(address("change", QUEUE), {"span": "day"})
    yield boss.open(address("history", QUEUE))
    for state in ("scheduled", "ready", "running"):
        yield boss.get("tasks", queue=QUEUE, state=state)
    yield boss.get("task", queue=QUEUE, task="x-later")
    yield boss.get("task", task="x-nowhere")
    ticked = boss.get("dead", queue=QUEUE)
    yield ticked
    yield boss.get("dead", queue=QUEUE, text="x-nothing")
    yield boss.get("groups")
    for task_id in ("x-dead", "x-nowhere"):
        yield boss.get("letter", queue=QUEUE, task=task_id)
    yield boss.get("letter_edit", queue=QUEUE, task="x-dead")
    for act in ("replay-selected", "discard-selected", "replay-matching", "discard-matching"):
        yield boss.post("dead_action", {"act": act, "letter": ticked.values("letter")})
    yield boss.get("bulks")
    yield boss.get("bulk", queue=QUEUE, id=bulk_id)
    yield boss.get("bulk", queue=QUEUE, id="x-nowhere")
    cancel = {"queue": QUEUE, "state": "scheduled", "task": "x-later", "act": "cancel"}
    yield boss.post("task_action", cancel)


def test_nothing_but_data_is_the_same_in_german_and_english(
    graves: Graveyard, engine: Engine, boss: Visitor
) -> None:
    graves.bury_many(3, 0, kind="x-kind")
    graves.bury(shard_of("x-dead", SHARDS), task_id="x-dead", error="x-boom", type="x-Error")
    engine.enqueue(1, QUEUE, task_id="x-now")
    engine.enqueue(1, QUEUE, task_id="x-later", delay=900)
    bulk = DeadLetterQueue(QUEUE).start_replay(kind="x-kind", spread=600, by="x-somebody")

    said = {}
    for language in ("de", "en"):
        with translation.override(language):
            said[language] = [texts(page) for page in pages(boss, bulk.id)]

    for german, english in zip(said["de"], said["en"], strict=True):
        alike = german & english - ALIKE
        assert [text for text in alike if not _DATA.fullmatch(text)] == []


def test_numbers_and_plurals_are_german(graves: Graveyard, boss: Visitor) -> None:
    graves.bury_many(1234, 0)

    with translation.override("de"):
        page = boss.get("dead", queue=QUEUE)
        ticked = page.values("letter")[0]
        asked = boss.post("dead_action", {"act": "replay-selected", "letter": ticked})
        done = boss.follow(boss.answer(asked))

    assert "1.234 Dead Letters, neueste zuerst" in page.content
    assert "Alle 1.234 erneut einreihen …" in page.content
    assert asked.title == "1 Dead Letter erneut einreihen?"
    assert done.messages == ["1 erneut eingereiht."]

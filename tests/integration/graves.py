"""Dead letters for tests: written into Redis as the scripts would, or as somebody else might."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django_redq.broker.keys import shard_of
from tests.harness import Redq

QUEUE = "letters"
SHARDS = 3
BORN = 1_700_000_000_000
"""When the first task died, ms."""


def configure(redq: Redq, **settings: Any) -> None:
    """The queue of these tests alone."""
    redq.configure(queues={QUEUE: {"SHARDS": SHARDS, **settings}})


def ids_of(shard: int) -> Iterator[str]:
    """Task IDs that belong into a shard."""
    number = 0
    while True:
        if shard_of(task_id := f"t{number}", SHARDS) == shard:
            yield task_id
        number += 1


class Graveyard:
    """Dead letters with entry IDs of the test's choice."""

    def __init__(self, redq: Redq) -> None:
        self.client = redq.client
        self._key = redq.key
        self._ids = [ids_of(shard) for shard in range(SHARDS)]

    def key(self, name: str, shard: int) -> str:
        return self._key(QUEUE, shard, name)

    def bury(
        self,
        shard: int = 0,
        entry_id: str = "*",
        *,
        task_id: str | None = None,
        payload: Any = None,
        record: str | None = None,
        **fields: Any,
    ) -> str:
        """A dead task; its ID."""
        task_id = task_id or next(self._ids[shard])
        stored = json.dumps({"at": BORN, "payload": payload}) if record is None else record
        letter = {"id": task_id, "reason": "exhausted", "kind": "", "attempts": 3, **fields}
        entry = self.client.xadd(self.key("dlq", shard), letter, entry_id).decode()
        self.client.hset(self.key("payload", shard), task_id, stored)
        self.client.hset(self.key("state", shard), task_id, "3 0 3 1-1 []")
        self.client.hset(self.key("entry", shard), task_id, f"dlq {entry}")
        return task_id

    def bury_many(self, number: int, shard: int = 0, *, kind: str = "") -> None:
        """Many dead tasks, in one round trip."""
        with self.client.pipeline(transaction=False) as pipe:
            for at in range(number):
                task_id, entry_id = f"{kind or 'm'}{at}", f"{BORN + at}-0"
                letter = {"id": task_id, "reason": "exhausted", "kind": kind, "at": BORN + at}
                pipe.xadd(self.key("dlq", shard), letter, entry_id)
                pipe.hset(self.key("payload", shard), task_id, '{"at":1,"payload":null}')
                pipe.hset(self.key("entry", shard), task_id, f"dlq {entry_id}")
            pipe.execute()

    def entomb(self, shard: int = 0, entry_id: str = "*", *, task_id: str | None = None) -> str:
        """A tombstone, as a task leaves it whose payload is missing; its entry ID."""
        task_id = task_id or next(self._ids[shard])
        letter = {"id": task_id, "reason": "missing_payload", "kind": "", "attempts": 1}
        self.client.hincrby(self.key("meta", shard), "tombstones", 1)
        return self.client.xadd(self.key("dlq", shard), letter, entry_id).decode()

    def litter(self, shard: int, entry_id: str, fields: dict[Any, Any]) -> None:
        """What somebody else wrote there."""
        self.client.xadd(self.key("dlq", shard), fields, entry_id)

    def left(self, shard: int = 0) -> list[str]:
        """The entry IDs that are left."""
        return [entry.decode() for entry, _ in self.client.xrange(self.key("dlq", shard))]

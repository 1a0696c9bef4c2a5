"""Fills a queue with what a bad week leaves: dead letters of several causes, and scheduled tasks.

The dead letters are written by a script of our own (``seeding.lua``), as it would take an hour to
let them die one by one. What it writes is what django-redq writes, sizes too: a traceback of 1 to
2 KiB, which the failures in ``state`` hold once more, and a payload of some 300 bytes.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import redis

from django_redq.broker.calls import Shard
from django_redq.broker.keys import shard_of
from django_redq.broker.sync import Broker, shards_for
from django_redq.codec import encode_failures
from django_redq.codec.records import encode_body
from django_redq.outcome import Failure

ItemT = TypeVar("ItemT")

WEEK_MS = 7 * 24 * 3600 * 1000
BATCH = 250
_PIPELINE = 40_000


@dataclass(frozen=True, slots=True)
class Cause:
    """What tasks died of."""

    kind: str
    exception_type: str
    message: str
    share: float
    """Of all letters."""


CAUSES = (
    Cause("invoice", "builtins.TimeoutError", "the accounts took over 30 s for order {n}", 0.30),
    Cause("ship", "httpx.ConnectError", "[Errno 111] Connection refused", 0.20),
    Cause("email", "smtplib.SMTPServerDisconnected", "Connection unexpectedly closed", 0.12),
    # A tenth of all: what the benchmark replays.
    Cause("refund", "shop.errors.GatewayDown", "gateway answered 503 for order {n}", 0.10),
    Cause("email", "smtplib.SMTPRecipientsRefused", "550 no such user in order {n}", 0.08),
    Cause("webhook", "httpx.ReadTimeout", "The read operation timed out", 0.08),
    Cause("webhook", "httpx.HTTPStatusError", "500 for url https://partner.example/{n}", 0.06),
    Cause("invoice", "django.db.utils.OperationalError", "deadlock detected", 0.03),
    Cause("ship", "KeyError", "'postcode'", 0.02),
    Cause("refund", "decimal.InvalidOperation", "[<class 'decimal.ConversionSyntax'>]", 0.009),
    Cause("", "ValueError", "order {n} has no lines", 0.001),
)
REPLAYED = CAUSES[3]


def is_seeded(client: redis.Redis, broker: Broker, queue: str) -> bool:
    """Whether an earlier run has filled this server."""
    return bool(client.exists(_shards(broker, queue)[0].keys.dlq))


def seed_letters(client: redis.Redis, broker: Broker, queue: str, number: int) -> None:
    """Dead letters of a week, evenly over time and shards, with their counters."""
    shards = _shards(broker, queue)
    script = client.register_script((Path(__file__).parent / "seeding.lua").read_text())
    templates = [part for cause in CAUSES for part in _template(cause)]
    head = [len(CAUSES), *templates]
    end = int(time.time() * 1000)
    spans: dict[tuple[int, int], list[int]] = defaultdict(list)
    for letters in batched(_letters(number, end, len(shards)), _PIPELINE):
        with client.pipeline(transaction=False) as pipe:
            for shard, part in _by_shard(letters):
                keys = shards[shard].keys
                args = [value for letter in part for value in letter[1:]]
                script(
                    [keys.payload, keys.state, keys.entry, keys.dlq], [*head, *args], client=pipe
                )
                for _shard, _id, ms, template, _key in part:
                    span = spans[shard, template]
                    span[:] = [span[0] + 1, span[1], ms] if span else [1, ms, ms]
            pipe.execute()
    _count(client, shards, spans)


def _letters(number: int, end: int, shards: int) -> Iterator[tuple[int, str, int, int, int]]:
    """(shard, task ID, ms of its death, number of its template, its own number), oldest first."""
    dice = random.Random(7)  # noqa: S311 - the same week each time
    which = dice.choices(range(1, len(CAUSES) + 1), [one.share for one in CAUSES], k=number)
    for at, template in enumerate(which):
        # Never twice the same ms in a shard: its entry IDs have to grow.
        ms = end - WEEK_MS + at * WEEK_MS // number
        task_id = str(uuid.UUID(int=ms << 80 | 7 << 76 | 2 << 62 | dice.getrandbits(60)))
        yield shard_of(task_id, shards), task_id, ms, template, at


def _by_shard(letters: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    sorted_out: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for letter in letters:
        sorted_out[letter[0]].append(letter)
    for shard, part in sorted_out.items():
        for some in batched(part, BATCH):
            yield shard, some


def _template(cause: Cause) -> list[str | bytes]:
    """kind, error, type, traceback, body, failures."""
    traceback = _traceback(cause)
    failures = [
        Failure(cause.exception_type, cause.message, traceback if n == 3 else "", n, n * 60_000)
        for n in (1, 2, 3)
    ]
    body = encode_body(
        payload={
            "order": "{n}",
            "customer": {"name": "Ada Lovelace", "mail": "ada@example.com", "country": "GB"},
            "lines": [{"sku": f"SKU-{n}", "quantity": n, "price": "19.90"} for n in range(1, 4)],
        },
        kind=cause.kind,
        idempotency_key="order-{n}",
        metadata={"tenant": "north", "request": "8c2f{n}"},
        limit=10_000,
    )
    head = [cause.kind, cause.message, cause.exception_type, traceback]
    return [*head, body, encode_failures(failures)]


def _traceback(cause: Cause) -> str:
    frames = "".join(
        f'  File "/srv/shop/lib/python3.13/site-packages/{module}.py", line {line}, in {name}\n'
        f"    {code}\n"
        for module, line, name, code in [
            ("django_redq/consumer/executor", 118, "_call", "return handler(task)"),
            ("shop/handlers", 64, cause.kind or "handle", "partner.send(task.payload)"),
            ("shop/partners", 201, "send", "response = self.client.post(url, json=body)"),
            ("httpx/_client", 1144, "post", "return self.request('POST', url, **options)"),
            ("httpx/_client", 825, "request", "return self.send(request, auth=auth)"),
            ("httpx/_client", 914, "send", "response = self._send_handling_auth(request)"),
            ("httpx/_transports/default", 250, "handle_request", "with map_exceptions():"),
            ("contextlib", 162, "__exit__", "self.gen.throw(value)"),
            ("httpx/_transports/default", 118, "map_exceptions", "raise mapped from error"),
        ]
    )
    return f"Traceback (most recent call last):\n{frames}{cause.exception_type}: {cause.message}\n"


def _count(
    client: redis.Redis, shards: list[Shard], spans: dict[tuple[int, int], list[int]]
) -> None:
    """The counters of the groups, as group_add.lua keeps them."""
    with client.pipeline(transaction=False) as pipe:
        for (shard, template), (found, first, last) in spans.items():
            cause = CAUSES[template - 1]
            name = f"{cause.kind} {cause.exception_type}"
            pipe.hset(shards[shard].keys.groups, name, f"{found} {first} {last}")
            pipe.hincrby(shards[shard].keys.meta, "dead", found)
        pipe.execute()


def seed_scheduled(client: redis.Redis, broker: Broker, queue: str, number: int) -> None:
    """Tasks that are due between tomorrow and a month from now, hundreds at the same second."""
    shards = _shards(broker, queue)
    now = int(time.time() * 1000)
    kinds = ("invoice", "ship", "email", "refund")
    bodies = [
        b"," + encode_body(payload={"order": n, "note": "x" * 120}, kind=kind, limit=10_000)
        for n, kind in enumerate(kinds)
    ]
    dice = random.Random(8)  # noqa: S311
    for numbers in batched(range(number), _PIPELINE):
        records: dict[int, dict[str, bytes]] = defaultdict(dict)
        dues: dict[int, dict[str, int]] = defaultdict(dict)
        for at in numbers:
            task_id = str(uuid.UUID(int=now << 80 | 7 << 76 | 2 << 62 | dice.getrandbits(60)))
            due = now + (86_400 + dice.randrange(30) * 86_400 + dice.randrange(100)) * 1000
            shard = shard_of(task_id, len(shards))
            dues[shard][task_id] = due
            records[shard][task_id] = b'{"at":%d,"due":%d%b' % (now, due, bodies[at % len(bodies)])
        with client.pipeline(transaction=False) as pipe:
            for shard, due_of in dues.items():
                pipe.zadd(shards[shard].keys.delay, due_of)
                pipe.hset(shards[shard].keys.payload, mapping=records[shard])
            pipe.execute()


def _shards(broker: Broker, queue: str) -> list[Shard]:
    settings = broker.config.queue(queue)
    broker.open(settings)
    return shards_for(broker.config, settings)


def batched(items: Iterable[ItemT], size: int) -> Iterator[list[ItemT]]:
    """As that of itertools, which Python 3.11 lacks."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch

"""Whatever strangers wrote into Redis or an exception holds, our lines stay lines, and nothing is run."""

from __future__ import annotations

import ast
import io
import json
import logging
import pickle
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

import django_redq
from django_redq import DeadLetterQueue, Retry, dead_letter_handler, handler
from tests.harness import until
from tests.integration.admin.visitors import Visitor

FORGED = "1999-12-31 00:00:00,000 ERROR django_redq.consumer: forged"
EVIL = f"a\n{FORGED}\r\x1b[2J\x00\x85\u2028\u2029\u202e\ud800{{b:0}}*../"
TEXT = EVIL.replace("\ud800", "")
BYTES = EVIL.encode(errors="surrogatepass")
LONG = 5_000
"""Characters of a line: some bounded pieces of text."""


class Bomb:
    """Unpickled, it would leave a trace."""

    went_off = False

    def __reduce__(self):
        return setattr, (Bomb, "went_off", True)


RECORDS = {
    "pickle": pickle.dumps(Bomb()),
    "pickle in JSON": json.dumps({"at": 1, "payload": pickle.dumps(Bomb(), 0).decode()}),
    "call in JSON": json.dumps({"at": 1, "payload": {"__reduce__": ["os.system", ["true"]]}}),
    "python": b"__import__('os').abort()",
    "yaml": b"!!python/object/apply:os.abort []",
    "evil": BYTES,
    "evil kind": json.dumps({"at": 1, "payload": EVIL, "kind": EVIL}),
    "evil everywhere": json.dumps(
        {"at": 1, "payload": {EVIL: EVIL}, "meta": {EVIL: EVIL}, EVIL: 1}
    ),
    "large": json.dumps({"at": 1, "payload": 1, "kind": EVIL * 50_000}),
}


@pytest.fixture
def lines():
    """What a handler on a strict UTF-8 stream makes of all that we log, a line each."""
    raw = io.BytesIO()
    handler = logging.StreamHandler(io.TextIOWrapper(raw, "utf-8", write_through=True))
    handler.setFormatter(logging.Formatter("> %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("django_redq")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield lambda: raw.getvalue().decode().split("\n")[:-1]
    logger.removeHandler(handler)
    logger.setLevel(level)


def check(lines):
    for line in lines:
        assert line.isprintable(), line[:300]
        assert not line.startswith(FORGED[:10]), line[:300]
        assert len(line) < LONG


def evil_error():
    error = type(EVIL, (Exception,), {})(EVIL * 50_000)
    error.add_note(EVIL)
    error.__cause__ = ExceptionGroup(EVIL, [ValueError(EVIL)])
    return error


def seed(engine):
    """Strangers at work: each key that a person or a loop reads."""
    client, key = engine.client, engine.key
    for n, record in enumerate(RECORDS.values()):
        client.hset(key("payload"), f"t{n}", record)
        client.hset(key("entry"), f"t{n}", client.xadd(key("stream"), {"id": f"t{n}"}))
    client.xadd(key("stream"), {"id": BYTES})
    client.hset(key("payload"), BYTES, RECORDS["evil kind"])
    client.zadd(key("delay"), {BYTES: 10**15, b"later": 10**15})
    client.hset(key("payload"), "later", RECORDS["evil kind"])
    client.hset(key("state"), "later", b"1 0 3 1-1 " + BYTES)
    evil_letter = dict.fromkeys(
        ("id", "reason", "kind", "error", "type", "traceback", "key"), BYTES
    )
    client.xadd(key("dlq"), evil_letter)
    client.xadd(key("dlq"), {BYTES: BYTES})
    client.hset(key("groups"), BYTES, "1 1 1")
    client.hset(key("bulk"), TEXT, BYTES)
    about = json.dumps({"host": EVIL, "pid": EVIL, "version": EVIL, "tasks": [[EVIL, EVIL, 1]]})
    client.hset(key("consumers"), BYTES, f"{client.time()[0] * 1000} {about}")


def test_what_strangers_wrote_is_told_in_lines(engine, lines, capsys, db):
    engine.configure(MAX_ATTEMPTS=1, PENDING_MIN_IDLE=0.5, RECOVERY_INTERVAL=0.1)
    seed(engine)
    engine.deliver(to=TEXT, limit=4)
    engine.age()
    consumer, scheduler = engine.start(), engine.scheduler()
    scheduler.start()
    engine.client.set(engine.key("lease"), BYTES, px=100_000)
    until(lambda: not engine.pending() and not engine.client.xlen(engine.key("stream")))
    told = []
    for command in (
        ("redq_stats", "-v", "2"),
        ("redq_queue", "consumers", "default"),
        ("redq_queue", "list", "default", "--state", "scheduled"),
        ("redq_dlq", "list", "default", "--count", "50"),
        ("redq_dlq", "groups", "default"),
        ("redq_dlq", "bulk", "list", "default"),
        ("redq_dlq", "replay", "default", "--all"),
    ):
        try:
            call_command(*command)
        except CommandError as error:
            told += str(error).split("\n")
    boss = Visitor(superuser=True)
    for page in ("changelist", "dead", "groups", "bulks"):
        assert boss.get(page).status == 200
    consumer.stop()
    scheduler.stop()
    out = capsys.readouterr()
    check([*lines(), *told, *out.out.split("\n"), *out.err.split("\n")])
    assert len(lines()) > len(RECORDS)
    assert all(line.startswith("> ") for line in lines())
    assert not Bomb.went_off


def test_what_an_exception_holds_is_told_in_lines_and_kept_bounded(engine, lines):
    def policy(attempt, error):
        raise evil_error()

    engine.configure(MAX_ATTEMPTS=1, RETRY=policy)

    class Delay:
        def __repr__(self):
            return EVIL

    @handler("default")
    def work(task):
        if task.payload == "delay":
            raise Retry(EVIL, delay=Delay())
        raise evil_error()

    @dead_letter_handler("default")
    def tell(letter):
        raise evil_error()

    first = engine.enqueue(TEXT)
    engine.enqueue("delay", max_attempts=2)
    engine.enqueue("policy", max_attempts=2)
    consumer = engine.start()
    engine.wait_until(lambda: DeadLetterQueue("default").count() == 1)
    engine.wait_until(lambda: sum("attempt 1 failed" in line for line in lines()) == 3)
    engine.wait_until(lambda: any("a dead-letter handler" in line for line in lines()))
    consumer.stop()
    letter = DeadLetterQueue("default").get(first)
    size = sum(map(len, (letter.error, letter.exception_type, letter.traceback)))
    assert size < 16 * 1024
    assert max(map(len, engine.client.hvals(engine.key("state")))) < 32 * 1024
    told = lines()
    check(told)
    assert all(line.startswith(("> ", "    ")) for line in told)


def test_nothing_of_the_package_could_run_what_it_reads():
    banned = {"pickle", "marshal", "shelve", "yaml", "dill", "cloudpickle", "jsonpickle"}
    for path in Path(django_redq.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0]}
            assert not names & banned, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, path


@pytest.mark.parametrize("payload", ["done", "dead"])
def test_a_record_that_claims_to_be_another_task_touches_no_other(engine, payload):
    engine.redq.configure(
        queues={"default": {"SHARDS": 1, "MAX_ATTEMPTS": 1}, "other": {"SHARDS": 1}}
    )
    engine.enqueue("victim", "other", task_id="victim", delay=3600)
    engine.enqueue("victim", task_id="victim", delay=3600)
    seen = []

    @handler("default")
    def work(task):
        seen.append((task.queue, task.id))
        if task.payload == "dead":
            raise ValueError

    claims = {"id": "victim", "queue": "other", "shard": 0, "task_id": "victim", "entry": "1-1"}
    before = {name: value for name, value in engine.redq.world().items() if "victim" in str(value)}
    record = json.dumps({"at": 1, "payload": payload, **claims})
    engine.client.hset(engine.key("payload"), "liar", record)
    entry = engine.client.xadd(engine.key("stream"), {**claims, "id": "liar"})
    engine.client.hset(engine.key("entry"), "liar", entry)
    engine.consumer().run_once()
    assert seen == [("default", "liar")]
    DeadLetterQueue("default").purge()
    assert {name: value for name, value in engine.redq.world().items() if name in before} == before

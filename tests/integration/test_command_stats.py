"""``manage.py redq_stats``."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command

from django_redq import Queue, Scheduler
from django_redq.devserver import DevServer
from tests.engine import Engine
from tests.harness import Redq
from tests.integration.graves import QUEUE, Graveyard, configure


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: str, **options: int) -> list[str]:
    call_command("redq_stats", *arguments, **options)
    return capsys.readouterr().out.splitlines()


def test_the_table_has_a_line_a_queue(redq: Redq, engine: Engine) -> None:
    redq.configure(queues={"default": {}, "email": {}, "webhook": {}})
    engine.enqueue(1, "email")
    engine.enqueue(1, "email", delay=60)
    Queue("webhook").pause()

    shown = redq.manage("redq_stats")

    assert (shown.returncode, shown.stderr) == (0, "")
    head, *lines = shown.stdout.splitlines()
    rows = lines[:3]
    assert " ".join(head.split()) == (
        "queue scheduled ready running dead oldest late consumers schedulers"
    )
    assert [row.split()[0] for row in rows] == ["default", "email", "webhook"]
    assert rows[1].split()[1:5] == ["1", "1", "0", "0"]
    assert rows[2].startswith("webhook (paused) ")
    # Columns stand below their names.
    assert {len(row) for row in rows} == {len(head)}


def test_it_may_be_asked_of_some_queues_only(
    redq: Redq, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *rows = lines_of(capsys, "webhook", "email", "webhook")

    assert [row.split()[0] for row in rows[:2]] == ["webhook", "email"]
    assert {row.split()[0] for row in rows[2:]} == {"webhook:", "email:"}


def test_what_needs_a_person_is_told_below_the_table(
    redq: Redq, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(redq)
    engine.enqueue(1, QUEUE)
    seconds, _ = redq.client.time()
    client, key = redq.client, redq.key(QUEUE, 1, "delay")
    client.zadd(key, {"t": (seconds - 3600) * 1000})

    assert lines_of(capsys)[2:] == [
        "letters: no consumer is alive",
        "letters: 3 shard(s) have no scheduler",
        "letters: the first due task is 1 h overdue",
    ]
    [document] = json.loads("".join(lines_of(capsys, "--json")))
    assert [trouble["code"] for trouble in document["troubles"]] == [
        "no_consumer",
        "no_scheduler",
        "late",
    ]


def test_deaths_and_slow_starts_are_told(
    redq: Redq, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.configure(MAX_ATTEMPTS=1)
    engine.enqueue(1, kind="nobody-handles-this")
    engine.consumer().run_once()
    seconds, _ = redq.client.time()
    redq.client.delete(engine.key("stream"))
    redq.client.xadd(engine.key("stream"), {"id": "t"}, f"{(seconds - 7200) * 1000}-0")

    lines = lines_of(capsys)

    assert "default: 1 task(s) died in the last hour" in lines
    assert "default: the first ready task has waited 2 h" in lines


def test_a_consumer_that_is_not_alive_is_not_counted(
    redq: Redq, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(redq)
    seconds, _ = redq.client.time()
    for name, ago in (("here-1", 2), ("gone-2", 30)):
        about = json.dumps({"host": "web\x1b[2J", "pid": 7, "version": "1"})
        beat = f"{(seconds - ago) * 1000} {about}"
        redq.client.hset(redq.key(QUEUE, 0, "consumers"), name, beat)

    lines = lines_of(capsys, verbosity=2)

    assert lines[1].split()[-2:] == ["1", "0"]
    gone, here = (next(line for line in lines if line.startswith(n)) for n in ("gone-2", "here-1"))
    assert gone.endswith("ago, not alive")
    assert here.split()[:2] == ["here-1", "0"]
    assert here.split()[3:5] == ["7", "1"]
    assert "\x1b" not in "".join(lines)


def test_more_verbose_it_names_consumers_and_shards(
    redq: Redq, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(redq)
    engine.enqueue(1, QUEUE, task_id="t0")
    shard = next(one.shard for one in Queue(QUEUE).stats().shards if one.ready)
    engine.deliver(QUEUE, shard, to="someone")
    scheduler = Scheduler(QUEUE)
    scheduler.run_once()

    lines = lines_of(capsys, QUEUE, verbosity=2)

    consumers = lines.index(next(line for line in lines if line.startswith("consumers of")))
    assert lines[consumers + 1].startswith("someone ")
    rows = lines[consumers + 4 :]
    assert [row.split()[0] for row in rows] == ["0", "1", "2"]
    assert {row.split()[-1] for row in rows} == {scheduler.instance_id}
    assert rows[shard].split()[1:5] == ["0", "0", "1", "0"]


def test_json_is_for_programs(redq: Redq, capsys: pytest.CaptureFixture[str]) -> None:
    configure(redq)
    Graveyard(redq).bury(1)

    [stats] = json.loads("".join(lines_of(capsys, "--json")))

    assert stats["queue"] == QUEUE
    assert stats["dead"] == 1
    assert [shard["dead"] for shard in stats["shards"]] == [0, 1, 0]
    assert stats["oldest_ready_age"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_goes_on_until_a_signal(redq: Redq, number: signal.Signals) -> None:
    watch = redq.spawn("redq_stats", "--watch", "--json", "--interval", "0.05")
    watch.wait_for('"ready": 0')
    Queue("email").pause()
    watch.wait_for('"paused": true')
    Queue("email").resume()

    watch.send(number)

    assert watch.wait() == 0
    assert all(isinstance(json.loads(line), list) for line in watch.lines)


def test_watch_outlives_a_redis_that_is_away(own_redq: Redq) -> None:
    watch = own_redq.spawn("redq_stats", "--watch", "--interval", "0.05")
    watch.wait_for("queue ")
    own_redq.server.kill()
    line = watch.wait_for("ConnectionError")
    assert line.startswith(f"Redis at {own_redq.url}: ConnectionError: ")
    seen = len(watch.lines)
    own_redq.server.restart()

    while not any(one.startswith("queue ") for one in watch.lines[seen:]):
        watch.wait_for("queue ")

    assert watch.terminate() == 0
    assert "Traceback" not in watch.output


# --- --check ---------------------------------------------------------------------------------


@pytest.mark.every_server
def test_a_server_that_is_fit_is_told_so(redq: Redq, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, "--check") == [f"Redis at {redq.url} is as it should be"]
    assert json.loads("".join(lines_of(capsys, "--check", "--json"))) == {
        "problems": [],
        "unseen": [],
    }


def test_a_server_that_evicts_is_a_problem(own_redq: Redq) -> None:
    own_redq.client.config_set("maxmemory-policy", "allkeys-lru")

    shown = own_redq.manage("redq_stats", "--check")

    assert shown.returncode == 1
    assert shown.stdout.startswith("the server's maxmemory-policy is allkeys-lru: ")
    assert shown.stderr == "CommandError: 1 problem(s) found\n"


def test_settings_that_disagree_with_redis_are_a_problem(
    redq: Redq, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("default", "email"):
        meta = {"layout": 1, "shards": 99, "group": "default"}
        redq.client.hset(redq.key(name, 0, "meta"), mapping=meta)

    with pytest.raises(CommandError, match="2 problem"):
        call_command("redq_stats", "--check")

    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told] == ["queue 'default'", "queue 'email'"]


User = Callable[..., str]


@pytest.fixture
def user(own_server: Callable[..., DevServer], own_redq: Redq) -> User:
    """Makes a user of an own server; the URL with which to log in."""

    def make(*rules: str) -> str:
        own_redq.client.execute_command("ACL", "SETUSER", "app", "on", ">pw", "~*", *rules)
        return own_redq.url.replace("redis://", "redis://app:pw@")

    return make


def test_a_user_who_may_not_use_the_channels_is_a_problem(own_redq: Redq, user: User) -> None:
    url = user("+@all", "resetchannels")

    shown = own_redq.manage("redq_stats", "--check", REDQ_TEST_URL=url)

    assert shown.returncode == 1
    channels = f"{own_redq.namespace}:wake:*"
    [line] = shown.stdout.splitlines()
    assert line.startswith(f"this user may not use the channels {channels}, ")
    assert line.endswith(f": ACL SETUSER <user> &{channels}")
    assert "pw" not in shown.stdout + shown.stderr


@pytest.mark.parametrize("command", ["publish", "subscribe"])
def test_a_user_who_lacks_one_command_is_told_which(
    own_redq: Redq, user: User, command: str
) -> None:
    url = user("+@all", "allchannels", f"-{command}")

    shown = own_redq.manage("redq_stats", "--check", REDQ_TEST_URL=url)

    assert shown.returncode == 1
    [line] = shown.stdout.splitlines()
    assert line.startswith(f"this user may not call {command.upper()}, ")
    assert line.endswith(f": ACL SETUSER <user> +{command}")


def test_a_user_without_the_keys_is_told_how_to_get_them(own_redq: Redq, user: User) -> None:
    url = user("+@all", "allchannels", "resetkeys", "~other:*")

    shown = own_redq.manage("redq_stats", "--check", REDQ_TEST_URL=url)

    assert shown.returncode == 1
    [line] = shown.stdout.splitlines()
    assert line.startswith("this user may not use the queues (NoPermissionError: ")
    assert line.endswith(f": ACL SETUSER <user> ~{own_redq.namespace}:*")


def test_what_a_server_does_not_tell_is_named(own_redq: Redq, user: User) -> None:
    own_redq.client.config_set("maxmemory-policy", "allkeys-lru")
    url = user("+@all", "allchannels", "-info", "-config")

    shown = own_redq.manage("redq_stats", "--check", REDQ_TEST_URL=url)

    assert (shown.returncode, shown.stderr) == (0, "")
    fit, unseen = shown.stdout.splitlines()
    assert fit.endswith(" is as it should be, as far as seen")
    assert unseen.startswith("not looked at: the server's version, ")
    assert "(NoPermissionError: " in unseen

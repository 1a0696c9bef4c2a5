"""``manage.py redq_consume``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from django_redq import Queue, TaskState, enqueue, get_task
from tests.harness import Process, Redq, until
from tests.integration.workshop import APP

SERVES = " serves "


def hand_over(payload: Any, queue: str = "default", **options: Any) -> str:
    return enqueue(queue, payload, mode="immediate", **options).task_id


def consume(redq: Redq, *arguments: str, **environ: str) -> Process:
    return redq.spawn("redq_consume", *arguments, apps=(APP,), **environ)


def is_drained(queue: str = "default") -> bool:
    stats = Queue(queue).stats()
    return stats.scheduled + stats.ready + stats.running == 0


# --- running and stopping --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_tasks_of_all_its_queues_until_a_signal(redq: Redq, number: signal.Signals) -> None:
    consumer = consume(redq, "default", "email", "--name", "box")
    assert " consumer box-" in consumer.wait_for("serves default, email")
    hand_over({"say": "one"})
    hand_over({"say": "two"}, "email")
    consumer.wait_for("said one")
    consumer.wait_for("said two")
    until(lambda: is_drained() and is_drained("email"))

    consumer.send(number)

    assert consumer.wait() == 0
    consumer.wait_for(f"{number.name}: stopping; a second signal stops at once")
    assert consumer.lines[-1].endswith(" stopped")
    assert Queue("default").stats().consumers == ()
    assert "Traceback" not in consumer.output


def test_a_stop_waits_for_what_runs_and_hands_back_what_does_not(redq: Redq) -> None:
    consumer = consume(redq, "default")
    running = hand_over({"wait": f"{redq.namespace}:gate"})
    consumer.wait_for("waiting for")
    waiting = hand_over({"say": "next"})

    consumer.send(signal.SIGTERM)
    consumer.wait_for("SIGTERM: stopping")
    redq.client.rpush(f"{redq.namespace}:gate", 1)

    assert consumer.wait() == 0
    consumer.wait_for("done waiting")
    assert get_task("default", running) is None
    assert get_task("default", waiting).state is TaskState.READY
    assert "said next" not in consumer.output


def test_a_stop_does_not_wait_for_ever(redq: Redq) -> None:
    redq.configure(queues={"default": {"SHUTDOWN_TIMEOUT": 0.1}, "email": {}})
    consumer = consume(redq, "default")
    task_id = hand_over({"wait": f"{redq.namespace}:gate"})
    consumer.wait_for("waiting for")

    assert consumer.terminate() == 0

    consumer.wait_for("1 task(s) still ran after 0.1 s; another consumer will run them again")
    assert get_task("default", task_id).state is TaskState.RUNNING


def test_a_second_signal_stops_at_once(redq: Redq) -> None:
    consumer = consume(redq, "default")
    task_id = hand_over({"wait": f"{redq.namespace}:gate"})
    consumer.wait_for("waiting for")
    consumer.send(signal.SIGTERM)
    consumer.wait_for("SIGTERM: stopping")

    consumer.send(signal.SIGINT)

    assert consumer.wait() == 1
    assert consumer.lines[-1] == "stopped at once; what ran will be run again"
    assert get_task("default", task_id).state is TaskState.RUNNING


# --- options ---------------------------------------------------------------------------------


def test_concurrency_says_how_many_run_at_a_time(redq: Redq) -> None:
    consumer = consume(redq, "default", "--concurrency", "2", "--read-count", "1")
    for gate in ("a", "b"):
        hand_over({"wait": f"{redq.namespace}:{gate}"})
    for gate in ("a", "b"):
        consumer.wait_for(f"waiting for {redq.namespace}:{gate}")
    for gate in ("a", "b"):
        redq.client.rpush(f"{redq.namespace}:{gate}", 1)

    consumer.wait_for(f"done waiting for {redq.namespace}:b")
    assert consumer.terminate() == 0


def test_with_scheduler_it_runs_delayed_tasks_too(redq: Redq) -> None:
    consumer = consume(redq, "default", "--with-scheduler")
    hand_over({"say": "later"}, delay=0.05)

    consumer.wait_for("said later")

    assert consumer.terminate() == 0
    assert Queue("default").stats().lease_holders == ()


def test_a_group_that_others_do_not_use_is_refused(redq: Redq) -> None:
    hand_over({"say": "one"})

    shown = redq.manage("redq_consume", "default", "--group", "other", apps=(APP,))

    assert shown.returncode == 1
    last = shown.stderr.splitlines()[-1]
    assert last.startswith(
        "CommandError: queue 'default': its GROUP is 'other' here and 'default' in Redis"
    )


@pytest.mark.parametrize(("option", "value"), [("--name", "a b"), ("--concurrency", "99999")])
def test_an_option_that_breaks_its_rule_is_told(redq: Redq, option: str, value: str) -> None:
    shown = redq.manage("redq_consume", "default", option, value, apps=(APP,))

    assert shown.returncode == 1
    last = shown.stderr.splitlines()[-1]
    assert last.startswith("CommandError: ")
    assert option.strip("-") in last.lower()


def test_verbosity_says_how_much_is_logged(redq: Redq) -> None:
    hand_over({"say": "one"})
    hand_over({"fail": "badly"}, max_attempts=1)

    shown = redq.manage("redq_consume", "default", "--burst", "-v", "0", apps=(APP,))

    assert shown.returncode == 0
    logged = [line for line in shown.stderr.splitlines() if "django_redq" in line]
    assert len(logged) == 1
    assert logged[0].endswith("failed, dead: exhausted: ValueError: badly")


# --- Redis -----------------------------------------------------------------------------------


def test_a_redis_that_is_away_is_waited_for(own_redq: Redq) -> None:
    hand_over({"say": "kept"})
    own_redq.server.kill()
    consumer = consume(own_redq, "default")
    consumer.wait_for("Redis does not answer as it should, retrying: ConnectionError")
    own_redq.server.restart()

    consumer.wait_for("said kept")

    assert consumer.terminate() == 0
    assert "Traceback" not in consumer.output


def test_it_stops_while_redis_is_away(own_redq: Redq) -> None:
    consumer = consume(own_redq, "default")
    consumer.wait_for(SERVES)
    own_redq.server.kill()
    consumer.wait_for("Redis does not answer")

    assert consumer.terminate() == 0
    assert "Traceback" not in consumer.output


@pytest.mark.parametrize("more", [(), ("--with-scheduler",)])
def test_settings_that_turn_out_to_disagree_once_redis_is_back_end_it(
    own_redq: Redq, more: tuple[str, ...]
) -> None:
    layout = {"layout": 1, "shards": 5, "group": "default"}
    own_redq.client.hset(own_redq.key("default", 0, "meta"), mapping=layout)
    own_redq.server.kill()
    consumer = consume(own_redq, "default", *more)
    consumer.wait_for("Redis does not answer")
    own_redq.server.restart()

    assert consumer.wait() == 1
    [line] = [line for line in consumer.lines if "CommandError" in line]
    assert line.startswith("CommandError: queue 'default': its SHARDS is '1' here and '5' in Redis")


def test_it_warns_of_a_server_that_loses_tasks(own_redq: Redq) -> None:
    own_redq.client.config_set("maxmemory-policy", "allkeys-lru")
    consumer = consume(own_redq, "default")

    assert " WARNING " in consumer.wait_for("maxmemory-policy is allkeys-lru")
    consumer.wait_for(SERVES)
    assert consumer.terminate() == 0


def test_it_warns_once_of_channels_that_it_may_not_use_and_works_all_the_same(
    own_redq: Redq,
) -> None:
    own_redq.client.execute_command(
        "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "resetchannels"
    )
    url = own_redq.url.replace("redis://", "redis://app:pw@")
    consumer = consume(own_redq, "default", REDQ_TEST_URL=url)
    consumer.wait_for("this user may not use the channels")
    hand_over({"say": "polled"})

    consumer.wait_for("said polled")

    assert consumer.terminate() == 0
    assert consumer.output.count("may not") == 1


# --- --burst ---------------------------------------------------------------------------------


def burst(redq: Redq, *arguments: str) -> tuple[str, str]:
    """The last line of its output, and its logs."""
    shown = redq.manage("redq_consume", *arguments, "--burst", apps=(APP,))
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.splitlines()[-1], shown.stderr


def test_a_burst_runs_what_is_ready_and_counts_what_is_left_for_later(redq: Redq) -> None:
    for number in range(5):
        hand_over({"say": str(number)}, "email")
    hand_over({"fail": "for good"}, max_attempts=1)
    hand_over({"fail": "at first"})
    hand_over({"say": "much later"}, delay=3600)

    last, _ = burst(redq, "default", "email")

    assert last == "burst over: 5 done, 1 to be retried, 1 dead; 2 scheduled for later"
    assert is_drained("email")
    assert Queue("default").stats().consumers == ()


def test_a_burst_of_an_empty_queue_is_over_at_once(redq: Redq) -> None:
    last, _ = burst(redq, "default")

    assert last == "burst over: 0 done, 0 to be retried, 0 dead; 0 scheduled for later"


def test_a_burst_with_a_scheduler_runs_what_is_due_too(redq: Redq) -> None:
    redq.client.hset(redq.key("default", 0, "payload"), "t", '{"at":1,"payload":{"say":"due"}}')
    redq.client.zadd(redq.key("default", 0, "delay"), {"t": 1})

    last, _ = burst(redq, "default")
    assert last == "burst over: 0 done, 0 to be retried, 0 dead; 1 scheduled for later"
    last, _ = burst(redq, "default", "--with-scheduler")
    assert last == "burst over: 1 done, 0 to be retried, 0 dead; 0 scheduled for later"


def test_a_burst_says_of_a_paused_queue_that_it_does_not_wait_for_it(redq: Redq) -> None:
    hand_over({"say": "no"})
    hand_over({"say": "yes"}, "email")
    Queue("default").pause()

    last, logs = burst(redq, "default", "email")

    assert last == "burst over: 1 done, 0 to be retried, 0 dead; 0 scheduled for later"
    told = "queue 'default' is paused and not waited for; 1 task(s) are ready in it"
    assert logs.count(told) == 1


def test_a_burst_waits_for_what_others_run(redq: Redq) -> None:
    other = consume(redq, "default")
    hand_over({"wait": f"{redq.namespace}:gate"})
    other.wait_for("waiting for")
    waiting = consume(redq, "default", "--burst")
    hand_over({"say": "mine"})
    waiting.wait_for("said mine")
    until(lambda: Queue("default").stats().running == 1)
    assert waiting.popen.poll() is None

    redq.client.rpush(f"{redq.namespace}:gate", 1)

    assert waiting.wait() == 0
    assert waiting.lines[-1].startswith("burst over: 1 done")
    assert other.terminate() == 0


def test_a_signal_ends_a_burst(redq: Redq) -> None:
    other = consume(redq, "default")
    hand_over({"wait": f"{redq.namespace}:gate"})
    other.wait_for("waiting for")
    waiting = consume(redq, "default", "--burst")
    waiting.wait_for(SERVES)

    assert waiting.terminate() == 0

    redq.client.rpush(f"{redq.namespace}:gate", 1)
    assert other.terminate() == 0


def test_a_burst_is_ended_by_a_queue_that_it_cannot_look_at(redq: Redq) -> None:
    redq.client.set(redq.key("default", 0, "delay"), "no sorted set")

    shown = redq.manage("redq_consume", "default", "--burst", apps=(APP,))

    assert shown.returncode == 1
    assert "WRONGTYPE" in shown.stderr.splitlines()[-1]


# --- --reload --------------------------------------------------------------------------------

HANDLERS = """\
from django_redq import handler

@handler("default")
def work(task):
    print("{word}", task.payload, flush=True)
"""


class Project:
    """An app in a directory of its own, whose files a test may edit."""

    def __init__(self, redq: Redq, home: Path) -> None:
        self.app = home / "edited_app"
        self.app.mkdir()
        self.write("__init__.py", "")
        self.write("handlers.py", HANDLERS.format(word="first"))
        path = os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = redq.spawn(
            "redq_consume",
            *("default", "--reload", "--name", "edited"),
            apps=("edited_app",),
            PYTHONPATH=path,
        )

    def write(self, name: str, text: str) -> None:
        """A file, younger than it was by all clocks."""
        path = self.app / name
        before = path.stat().st_mtime if path.exists() else 0
        path.write_text(text)
        if path.stat().st_mtime <= before:
            os.utime(path, (before + 1, before + 1))

    def wait_for_new(self, text: str) -> None:
        """Waits until a consumer serves that has printed nothing before."""
        until(lambda: any(text in line for line in self.process.lines[self.seen :]))
        self.seen = len(self.process.lines)

    seen = 0


@pytest.fixture
def project(redq: Redq, tmp_path: Path) -> Project:
    made = Project(redq, tmp_path)
    made.wait_for_new(SERVES)
    return made


def test_a_change_restarts_the_consumer_cleanly(redq: Redq, project: Project) -> None:
    hand_over("a")
    project.process.wait_for("first a")

    project.write("handlers.py", HANDLERS.format(word="second"))

    project.process.wait_for("handlers.py has changed: restarting the consumer")
    project.wait_for_new(SERVES)
    hand_over("b")
    project.process.wait_for("second b")
    assert project.process.output.count(" stopped") == 1
    assert "Traceback" not in project.process.output
    assert project.process.terminate() == 0
    assert Queue("default").stats().consumers == ()


def test_a_new_module_is_watched_too(project: Project) -> None:
    project.write("words.py", "WORD = 'third'\n")
    project.write("handlers.py", HANDLERS.format(word="third"))
    project.wait_for_new(SERVES)

    project.write("words.py", "WORD = 'fourth'\n")

    project.process.wait_for("words.py has changed: restarting")
    project.wait_for_new(SERVES)
    assert project.process.terminate() == 0


def test_a_mistake_is_survived_until_it_is_mended(project: Project) -> None:
    project.write("handlers.py", "this is no Python")
    project.process.wait_for("the consumer ended with exit code 1; a change starts it again")
    project.process.wait_for("its handler module edited_app.handlers cannot be imported")

    project.write("handlers.py", HANDLERS.format(word="mended"))

    project.wait_for_new(SERVES)
    hand_over("c")
    project.process.wait_for("mended c")
    assert project.process.terminate() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_and_what_runs_is_waited_for(redq: Redq, number: signal.Signals) -> None:
    parent = consume(redq, "default", "--reload")
    hand_over({"wait": f"{redq.namespace}:gate"})
    parent.wait_for("waiting for")

    parent.send(number)
    parent.wait_for("SIGTERM: stopping")
    redq.client.rpush(f"{redq.namespace}:gate", 1)

    assert parent.wait() == 0
    assert "done waiting for" in parent.output
    assert is_drained()


def test_the_child_gets_every_option(redq: Redq) -> None:
    options = ("--name", "box", "--concurrency", "3", "--with-scheduler", "-v", "2")
    parent = consume(redq, "default", "email", "--reload", *options)

    line = parent.wait_for("serves default, email, 3 task(s) at a time")
    assert " consumer box-" in line
    parent.wait_for("holds the leases of 5 of 5 shards")
    assert parent.terminate() == 0


def test_the_child_does_not_outlive_a_parent_that_is_killed(redq: Redq) -> None:
    parent = consume(redq, "default", "--reload")
    hand_over({"wait": f"{redq.namespace}:gate"})
    parent.wait_for("waiting for")

    parent.send(signal.SIGKILL)

    assert parent.wait() == -signal.SIGKILL
    # Both write to this output, and nobody is left who could.
    assert not parent._reader.is_alive()

"""What the janitor removes of the dead letters where ``DEAD_LETTER_MAX_AGE`` or ``_COUNT`` says so."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from django_redq import Scheduler
from django_redq.broker.sync import get_broker
from django_redq.conf import get_config
from django_redq.dead_letters import trim
from tests.harness import Redq
from tests.integration.graves import BORN, QUEUE, SHARDS, Graveyard, configure

ALL = set(range(SHARDS))


def trimmed(held: set[int] = ALL, limit: int = 100, now: float = BORN / 1000) -> int:
    return trim(get_broker(), get_config().queue(QUEUE), held, limit, lambda: now)


@pytest.fixture
def grave(redq: Redq) -> Graveyard:
    return Graveyard(redq)


def test_nothing_is_removed_unless_a_setting_says_so(redq: Redq, grave: Graveyard) -> None:
    configure(redq)
    grave.bury(at=1)

    scheduler = Scheduler(QUEUE)
    scheduler.run_once()
    scheduler.clean_once()
    scheduler.stop()

    assert len(grave.left()) == 1


@pytest.mark.every_server
def test_the_janitor_removes_what_is_too_old_and_its_task_with_it(redq: Redq) -> None:
    configure(redq, DEAD_LETTER_MAX_AGE=3600)
    grave = Graveyard(redq)
    seconds, _ = grave.client.time()
    grave.bury(0, "1-0", at=(seconds - 3700) * 1000)
    grave.entomb(0, "2-0")
    young = grave.bury(0, "3-0", at=(seconds - 3000) * 1000)

    scheduler = Scheduler(QUEUE)
    scheduler.run_once()
    scheduler.clean_once()
    scheduler.stop()

    assert grave.left() == ["3-0"]
    assert list(grave.client.hgetall(grave.key("payload", 0))) == [young.encode()]
    assert grave.client.hget(grave.key("meta", 0), "tombstones") == b"0"


def test_age_is_told_by_the_clock_that_is_brought(redq: Redq, grave: Graveyard) -> None:
    configure(redq, DEAD_LETTER_MAX_AGE=60)
    grave.bury(0, "1-0", at=BORN - 60_000)
    grave.bury(1, "2-0", at=BORN - 59_999)
    # What somebody else wrote there is as old as its entry ID.
    grave.litter(2, f"{BORN - 60_000}-0", {"a": "b"})
    grave.litter(2, f"{BORN}-0", {"a": "b"})

    assert trimmed() == 2
    assert [grave.left(shard) for shard in range(SHARDS)] == [[], ["2-0"], [f"{BORN}-0"]]
    assert trimmed() == 0
    assert trimmed(now=BORN / 1000 + 0.001) == 1


def test_the_number_counts_over_all_shards_and_the_oldest_go_first(
    redq: Redq, grave: Graveyard
) -> None:
    configure(redq, DEAD_LETTER_MAX_COUNT=4)
    for at, shard in enumerate([0, 0, 1, 0, 2, 1, 0]):
        grave.bury(shard, f"{10 + at}-0")

    assert trimmed() == 3

    assert [grave.left(shard) for shard in range(SHARDS)] == [["13-0", "16-0"], ["15-0"], ["14-0"]]
    assert trimmed() == 0


def test_each_scheduler_removes_from_its_own_shards_only(redq: Redq, grave: Graveyard) -> None:
    configure(redq, DEAD_LETTER_MAX_COUNT=2, DEAD_LETTER_MAX_AGE=60)
    for at, shard in enumerate([0, 1, 0, 1, 2]):
        grave.bury(shard, f"{10 + at}-0", at=BORN)

    assert trimmed(held={1, 2}) == 1
    assert [grave.left(shard) for shard in range(SHARDS)] == [["10-0", "12-0"], ["13-0"], ["14-0"]]
    assert trimmed(held={2}, now=BORN / 1000 + 60) == 1
    assert trimmed(held={0}) == 1
    assert trimmed(held=ALL) == 0


def test_a_call_removes_a_bounded_number(redq: Redq, grave: Graveyard) -> None:
    configure(redq, DEAD_LETTER_MAX_COUNT=1, DEAD_LETTER_MAX_AGE=60)
    for at in range(4):
        grave.bury(0, at=BORN - 60_000)
        grave.bury(1, at=BORN + at)

    assert [trimmed(limit=3) for _ in range(5)] == [3, 3, 1, 0, 0]
    assert [len(grave.left(shard)) for shard in (0, 1)] == [0, 1]


def test_a_broken_shard_does_not_keep_the_others_from_being_trimmed(
    redq: Redq, grave: Graveyard
) -> None:
    configure(redq, DEAD_LETTER_MAX_AGE=1, DEAD_LETTER_MAX_COUNT=1)
    grave.client.set(grave.key("dlq", 1), "no stream")
    grave.bury(0, at=1)
    grave.bury(2, at=BORN)
    grave.bury(2, at=BORN)

    assert trimmed() == 2
    assert [len(grave.left(shard)) for shard in (0, 2)] == [0, 1]


def test_a_task_that_is_alive_again_is_not_touched(redq: Redq, grave: Graveyard) -> None:
    configure(redq, DEAD_LETTER_MAX_AGE=1)
    task_id = grave.bury(0, "1-0", at=1)
    # Its letter is still there, but the task is not dead by it any more.
    grave.client.hset(grave.key("entry", 0), task_id, "8-0")

    assert trimmed() == 1
    assert grave.client.hexists(grave.key("payload", 0), task_id)


def test_a_redis_that_is_away_is_told(own_redq: Redq) -> None:
    configure(own_redq, DEAD_LETTER_MAX_AGE=1)
    Graveyard(own_redq).bury(at=1)
    own_redq.server.kill()

    with pytest.raises(redis.ConnectionError):
        trimmed()


def test_it_is_logged(redq: Redq, grave: Graveyard, caplog: pytest.LogCaptureFixture) -> None:
    configure(redq, DEAD_LETTER_MAX_AGE=1)
    grave.bury(at=1)

    with caplog.at_level("INFO", "django_redq"):
        trimmed()
        trimmed()

    told: list[Any] = [one.getMessage() for one in caplog.records]
    assert told == [f"1 dead letter(s) of '{QUEUE}' were too old and removed"]

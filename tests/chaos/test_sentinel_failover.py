"""The master goes, and the Sentinels make its replica the master: everybody follows."""

from __future__ import annotations

import time

import pytest

from django_redq.devserver import DevServer
from tests.chaos.steady import Work
from tests.harness import until


@pytest.fixture
def work(watched_engine):
    watched_engine.configure(
        CONCURRENCY=4, PENDING_MIN_IDLE=2, RECOVERY_INTERVAL=0.3, BLOCK_TIMEOUT=0.5
    )
    made = Work(watched_engine)
    yield made
    made.stop()


@pytest.mark.parametrize(
    "blow",
    [DevServer.kill, "demoted", pytest.param(DevServer.pause, marks=pytest.mark.long)],
    ids=["killed", "demoted", "frozen"],
)
def test_the_master_is_gone(watched_engine, work, blow, figures):
    engine, watched = watched_engine, watched_engine.redq.watched
    engine.start("default")
    engine.scheduler().start()
    until(lambda: len(work.runs) > 20)
    master = watched.master

    if blow == "demoted":
        watched.fail_over()
    else:
        blow(master)
    struck = time.monotonic()
    until(lambda: watched.master is not master)
    elected = time.monotonic() - struck
    until(lambda: work.served(struck + elected))
    going_on = time.monotonic() - struck
    if blow is DevServer.pause:
        master.resume()
        until(lambda: watched.role_of(master) == b"slave")

    lost = work.settle_accounts(work.uncopied(struck + elected, {0}))
    figures(f"elected after {elected:.1f} s, went on after {going_on:.1f} s; {work.figures(lost)}")

"""The process that keeps another from outliving its starter."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_redq.keeper import Kept, keep, start
from tests.harness import PATIENCE

SLEEPER = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    "print('up', flush=True); import time; time.sleep(600)",
]


@pytest.fixture
def sleeper() -> Iterator[Kept]:
    kept = Kept(SLEEPER, output=subprocess.PIPE)
    assert kept.output.readline() == b"up\n"
    yield kept
    kept.close()


def test_the_exit_code_comes_through() -> None:
    kept = Kept([sys.executable, "-I", "-S", "-c", "raise SystemExit(7)"])

    assert kept.wait(PATIENCE) == 7
    assert not kept.is_running
    kept.close()


def test_the_output_comes_through() -> None:
    kept = Kept(
        [sys.executable, "-I", "-S", "-c", "import sys; print(1); print(2, file=sys.stderr)"],
        output=subprocess.PIPE,
    )

    assert sorted(kept.output) == [b"1\n", b"2\n"]
    kept.close()


def test_without_a_pipe_there_is_no_output() -> None:
    kept = Kept([sys.executable, "-I", "-S", "-c", ""])
    with pytest.raises(ValueError, match="elsewhere"):
        assert kept.output
    kept.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_is_passed_on(sleeper: Kept, number: signal.Signals) -> None:
    sleeper.signal(number)

    assert sleeper.wait(PATIENCE) == 128 + number


def test_a_signal_to_an_ended_command_does_nothing(sleeper: Kept) -> None:
    sleeper.signal(signal.SIGKILL)
    sleeper.wait(PATIENCE)

    sleeper.signal(signal.SIGTERM)


def test_closing_kills_and_may_be_repeated(sleeper: Kept) -> None:
    sleeper.close()
    sleeper.close()

    assert not sleeper.is_running


FAMILY = """
import subprocess, sys, time
from django_redq.keeper import Kept
from pathlib import Path
parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)'])"
Kept([sys.executable, "-c", parent], litter=Path(sys.argv[1]))
time.sleep(600)
"""


def test_killing_the_starter_kills_grandchildren_and_removes_the_litter(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    litter.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY, str(litter)], stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"1\n"

        starter.kill()

        # The pipe ends when the last of the family has ended; all of them hold it.
        assert starter.stdout.read() == b""
    assert not litter.exists()


def test_keep_kills_when_the_orders_end() -> None:
    with start(SLEEPER) as command:
        assert keep(command, [b"%d\n" % signal.SIGCONT]) is None

    assert command.returncode == -signal.SIGKILL


def test_keep_tells_the_exit_code_while_the_orders_last() -> None:
    never = threading.Event()

    def orders() -> Iterator[bytes]:
        yield b"%d\n" % signal.SIGTERM
        never.wait(PATIENCE)

    with start(SLEEPER) as command:
        assert keep(command, orders()) == 128 + signal.SIGTERM
    never.set()


def test_a_terminated_keeper_terminates_the_command(sleeper: Kept) -> None:
    sleeper._process.send_signal(signal.SIGTERM)

    assert sleeper.wait(PATIENCE) == 128 + signal.SIGTERM

"""A process that never outlives the one that started it, not even after ``kill -9``.

Both ends of one pipe are here. :class:`Kept` is the starter's. At the other end this file runs as a
script, ``python -I -S keeper.py LITTER COMMAND ...``: the keeper, between the two. It needs only
the standard library, imports nothing of ours, and asks no more of the system than pipes and
signals:

* Each line that it reads is a signal number, passed on to the command; SIGKILL to all of its
  process group. The keeper alone reaps the command, so no signal can hit a stranger who got the
  process ID after it.
* The end of the pipe means that the starter is gone: the kernel closes it, whatever the starter
  died of. Then the process group is killed, and the directory LITTER removed unless that is empty.
  (Linux' parent-death signal would come already when the *thread* that started the command ends,
  and it reaches children only.)
* It ends with the command, and with the command's exit code.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO


class Kept:
    """A running command and its keeper, in a session of their own.

    A Ctrl-C in the terminal does not reach them, so that a server is there until those who use it
    have put their work away.

    Args:
        command: the program and its arguments.
        litter: a directory to remove if this process dies.
        output: where both output streams go; ``subprocess.PIPE`` opens :attr:`output`.
        cwd, env: as of :class:`subprocess.Popen`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        litter: Path | None = None,
        output: int | IO[bytes] | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        keeper = (sys.executable, "-I", "-S", __file__)
        self._process = subprocess.Popen(
            [*keeper, str(litter or ""), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            cwd=cwd,
            env=env,
            bufsize=0,
            start_new_session=True,
        )

    @property
    def output(self) -> IO[bytes]:
        """What the command prints, where a pipe was asked for."""
        if self._process.stdout is None:
            raise ValueError("the output goes elsewhere")
        return self._process.stdout

    @property
    def is_running(self) -> bool:
        """Whether the command has not ended yet."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send the command a signal; nothing happens where it has ended."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(b"%d\n" % number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the command ends, at most ``timeout`` seconds.

        Returns:
            Its exit code; 128 + N of a signal N.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        return self._process.wait(timeout)

    def close(self) -> None:
        """Kill the command's group if that still runs, and close the pipes."""
        self.signal(signal.SIGKILL)
        self.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command at the head of a process group of its own."""
    return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, process_group=0)


def _kill_group(command: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGKILL)


def keep(command: subprocess.Popen[bytes], orders: Iterable[bytes]) -> int | None:
    """Pass the signals in ``orders`` on to ``command``; when there are no more, kill its group.

    Returns:
        The exit code of the command, or None if it was killed since the orders ended.
    """
    orphaned = threading.Event()

    def obey() -> None:
        for line in orders:
            if int(line) == signal.SIGKILL:
                _kill_group(command)
            else:
                command.send_signal(int(line))
        orphaned.set()
        _kill_group(command)

    threading.Thread(target=obey, daemon=True).start()
    code = command.wait()
    if orphaned.is_set():
        return None
    return code if code >= 0 else 128 - code


def main() -> int:  # pragma: no cover - runs in a Python without site, where nothing measures
    """Start and keep the command that the command line names."""
    litter, *arguments = sys.argv[1:]
    command = start(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _frame: command.send_signal(got))
    # Unbuffered: a thread that waits in a buffered standard input holds its lock, and Python
    # cannot shut down then.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as orders:
        code = keep(command, orders)
    if code is None and litter:
        shutil.rmtree(litter, ignore_errors=True)
    return 1 if code is None else code


if __name__ == "__main__":  # pragma: no cover - the same
    sys.exit(main())

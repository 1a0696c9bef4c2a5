"""The process between a development server and its starter: the server never outlives both.

``devserver`` runs this file as a script, ``python -I -S keeper.py LITTER SERVER ARGUMENT ...``. It
needs nothing but the standard library, imports nothing of ours, and asks no more of the system
than pipes and signals:

* Each line of its standard input is a signal number, passed on to the server. The keeper alone
  reaps the server, so no signal can hit a stranger who got the process ID after it.
* The end of its standard input means that the starter is gone, ``kill -9`` included, since the
  kernel closes the pipe then; the server is killed, and the directory LITTER removed unless that
  is empty. (Linux' parent-death signal would come already when the *thread* that started the
  server ends.)
* It ends with the server, and with the server's exit code.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable


def keep(server: subprocess.Popen[bytes], orders: Iterable[bytes], litter: str) -> int:
    """Pass the signals in ``orders`` on to ``server``; when they end, kill it and remove ``litter``.

    Returns:
        The exit code of the server, as a shell tells it: 128 + N of a signal N.
    """
    orphaned = threading.Event()

    def obey() -> None:
        for line in orders:
            server.send_signal(int(line))
        orphaned.set()
        server.kill()

    threading.Thread(target=obey, daemon=True).start()
    code = server.wait()
    if orphaned.is_set() and litter:
        shutil.rmtree(litter, ignore_errors=True)
    return code if code >= 0 else 128 - code


def main() -> int:
    """Start and keep the command that the command line names."""
    litter, *command = sys.argv[1:]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _frame: server.send_signal(got))
    # Unbuffered: a thread that waits in a buffered standard input holds its lock, and Python
    # cannot shut down then.
    return keep(server, open(sys.stdin.fileno(), "rb", buffering=0, closefd=False), litter)


if __name__ == "__main__":
    sys.exit(main())

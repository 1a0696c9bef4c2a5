"""A process that is forked after its parent has used Redis, as by a web server that preloads."""

from __future__ import annotations

import subprocess
import sys

from tests.harness import PATIENCE, ROOT

FORKING = """
import os, sys
import django
django.setup()
from django_redq import enqueue
from django_redq.broker.sync import get_broker

before = get_broker()
enqueue("default", 1, mode="immediate")
child = os.fork()
if not child:
    try:
        enqueue("default", 2, mode="immediate")
        os._exit(0 if get_broker() is not before else 3)
    finally:
        os._exit(4)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
enqueue("default", 3, mode="immediate")
sys.exit(code or (get_broker() is not before))
"""


def test_the_child_has_a_broker_of_its_own_and_the_parent_keeps_its_own(engine):
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        env=engine.redq.environ(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert engine.client.xlen(engine.key("stream")) == 3

"""The benchmarks run; what they measure here, small and on a busy machine, says nothing."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.harness import ROOT


def test_the_admin_at_scale_measures_every_page_and_a_replay() -> None:
    script = ROOT / "benchmarks" / "admin_scale.py"
    small = ["--letters", "2000", "--tasks", "1000", "--times", "1", "--json"]

    done = subprocess.run(
        [sys.executable, str(script), *small],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert all(page["html"] and page["median"] for page in report["pages"])
    assert report["replay"]["looked_at"] == 2000
    assert report["replay"]["changed"] > 100

"""The benchmarks run; what they measure here, small and on a busy machine, says nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.long
def test_a_soak_accounts_for_every_task(tmp_path: Path) -> None:
    script, figures = ROOT / "benchmarks" / "soak.py", tmp_path / "figures.json"

    done = subprocess.run(
        [sys.executable, script, "0.4", "--restart-redis", "--peace", "2", "--json", figures],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert found["accepted"] > 500
    assert found["blows"]
    assert all(found[name] for name in ("died", "replayed", "bulks", "discarded", "cancelled"))
    assert found["lost"] == found["unexplained"] == 0
    assert found["done"] + found["discarded"] + found["cancelled"] >= found["accepted"]

"""What is in the wheel that users install."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import django_redq
from tests.harness import ROOT

SOURCE = ROOT / "django_redq"
PACKAGE = Path(django_redq.__file__).parent

in_source_tree = pytest.mark.skipif(
    not SOURCE.is_dir(), reason="runs in the source tree; here the installed wheel is tested"
)
installed = pytest.mark.skipif(
    PACKAGE == SOURCE, reason="runs under tox, on the installed wheel; this is the source tree"
)


def _files(package: Path) -> set[str]:
    return {
        f"django_redq/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a source distribution as on the way to a registry."""
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@in_source_tree
def test_the_wheel_holds_every_file_of_the_package(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        about = archive.read(metadata).decode()

    assert names == _files(SOURCE)
    assert "django_redq/py.typed" in names
    assert any(name.endswith(".lua") for name in names)
    assert "License-Expression: MIT" in about
    assert "Provides-Extra: dev" in about


@in_source_tree
def test_the_source_distribution_holds_the_tests_and_the_licence(dist: Path) -> None:
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert _files(SOURCE) | {"LICENSE", "README.md", "tests/conftest.py"} <= names


@installed
def test_the_installed_package_is_the_one_under_test_and_whole() -> None:
    files = importlib.metadata.files("django-redq")
    assert files is not None

    assert not SOURCE.exists()
    assert _files(PACKAGE) <= {str(file) for file in files}
    assert {".lua", ".typed"} <= {Path(name).suffix for name in _files(PACKAGE)}

"""`python -m tests`: what fails twice fails the run, what fails once is named."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import pathlib

def test_that_passes():
    pass

def test_that_fails_beside_others(tmp_path_factory):
    mark = pathlib.Path(__file__).with_name("was here")
    assert mark.exists() or mark.touch()
"""
ALWAYS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_that_fails(number):
    assert number < 0
"""


def run(folder: Path, source: str) -> tuple[int, str]:
    (folder / "test_some.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "tests",
        f"--rootdir={folder}",
        f"--config-file={folder / 'pytest.ini'}",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    code, told = run(tmp_path, SUITE)
    assert code == 0, told
    assert "passed alone, each a defect to be mended:\n  test_some.py::test_that_fails_beside_others" in told


@pytest.mark.parametrize(("count", "runs"), [(1, 2), (6, 1)])
def test_what_fails_alone_fails_the_run(tmp_path: Path, count: int, runs: int) -> None:
    code, told = run(tmp_path, ALWAYS.format(count=count))
    assert code == 1, told
    assert told.count(f"{count} failed") == runs, told

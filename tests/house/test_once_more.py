"""`python -m tests`: two failures of a test fail the run, one is reported, and a crash is never repeated.

What ends its worker is left out for the others, which run the rest of its file.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST = """
import os, pathlib, pytest, threading

def is_first():
    mark = pathlib.Path(__file__).with_name("was here")
    return not mark.exists() and not mark.touch()
"""
BESIDE_OTHERS = f"""{FIRST}
def test_that_passes(): pass

def test_that_fails_beside_others(): assert not is_first(), "the first time"
"""
ALWAYS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_that_fails(number): assert number < 0
"""
# Each fails the first time only: run once more, they would pass.
CRASH = f"""{FIRST}
def test_that_crashes(): is_first() and os.abort()

def test_behind_it(): pass
"""
TIMEOUT = f"""{FIRST}
@pytest.mark.timeout(1)
def test_that_hangs(): is_first() and threading.Event().wait(60)
"""
SETUP = f"""{FIRST}
@pytest.fixture
def broken(): assert not is_first()

def test_that_needs_it(broken): pass
"""
TEARDOWN = SETUP.replace("assert", "yield; assert")


def run(folder: Path, source: str, *options: str) -> tuple[int, str]:
    (folder / "test_some.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    config = [f"--rootdir={folder}", f"--config-file={folder / 'pytest.ini'}", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "tests", *config, *options, str(folder)]
    # Two workers, as each of them takes a second of the processor.
    environment = {**os.environ, "MONEDULA_TEST_WORKERS": "2"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout


def test_what_passes_alone_is_reported_last_with_its_trace(tmp_path: Path) -> None:
    code, told = run(tmp_path, BESIDE_OTHERS)
    assert code == 0, told
    before, last = told.split("failed beside others with:")
    assert "1 passed, 1 deselected" in before, told
    assert "AssertionError: the first time" in last, told
    named = "passed alone, each a defect to be mended:\n  test_some.py::test_that_fails_beside_others"
    assert last.rstrip().endswith(named), told


@pytest.mark.parametrize(("count", "runs"), [pytest.param(1, 2, marks=pytest.mark.thorough), (2, 2), (3, 1)])
def test_what_fails_alone_fails_the_run(tmp_path: Path, count: int, runs: int) -> None:
    code, told = run(tmp_path, ALWAYS.format(count=count))
    assert code == 1, told
    assert told.count(f"{count} failed") == runs, told


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (CRASH, "it ended its process"),
        (TIMEOUT, "it timed out"),
        (SETUP, "its setup failed"),
        pytest.param(TEARDOWN, "its teardown failed", marks=pytest.mark.thorough),
    ],
    ids=["crash", "time-out", "set-up", "teardown"],
)
def test_no_second_run_forgives(tmp_path: Path, source: str, why: str) -> None:
    code, told = run(tmp_path, source)
    assert code == 1, told
    assert f"is not run once more: {why}" in told
    assert "1 failed, 1 passed" in told or source != CRASH, told


def test_the_second_run_has_every_option_of_the_first(tmp_path: Path) -> None:
    code, told = run(tmp_path, BESIDE_OTHERS, "-k", "beside_others")
    assert code == 0, told
    assert "1 passed, 1 deselected" in told

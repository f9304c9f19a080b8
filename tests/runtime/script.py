"""Runs a piece of Python in a process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import monedula
import pytest

PRELUDE = """
import asyncio, faulthandler, gc, os, signal, sys, threading, time
import monedula
# A script that hangs prints where, before the test's own timeout. (The watchdog thread of dump_traceback_later would be
# missing in a forked child, which waits for it at its end.)
faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm(200)
"""
TIMEOUT_SECONDS = 240


def run(code: str, *arguments: object, before: str = "") -> str:
    """Run `code` with `arguments` as `sys.argv[1:]`; what it prints.

    Args:
        code: the script; the modules that these tests use are imported already.
        arguments: for the script.
        before: lines ahead of the imports.

    Raises:
        AssertionError: if it fails, hangs, or writes to standard error.
    """
    ran = ended(code, *arguments, before=before)
    assert ran.returncode == 0, f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    assert ran.stderr == "", ran.stderr
    return ran.stdout


def ended(
    code: str, *arguments: object, before: str = "", executable: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """The end of a process that ran `code` on this interpreter.

    Raises:
        AssertionError: if it hangs.
    """
    script = before + PRELUDE + textwrap.dedent(code)
    command = [executable, "-X", "faulthandler", "-c", script, *map(str, arguments)]
    # Another interpreter has its own packages; this one needs none.
    place = str(Path(monedula.__file__).parents[1])
    environment = os.environ if executable == sys.executable else {**os.environ, "PYTHONPATH": place}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"hangs; it printed {error.stdout!r} and {error.stderr!r}")

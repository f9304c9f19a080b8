"""The command `monedula` as a process of its own: run to its end, on pipes, or on a terminal.

One that is run to its end is forked from a process that has imported it; all others are started as users start them.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.forked import Forks

COMMAND = [sys.executable, "-m", "monedula"]
PATIENCE_SECONDS = 60.0

FORKS = Forks()
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(servers: str | None = None, **more: str) -> dict[str, str]:
    """Variables for a command, with the cluster it is for."""
    own = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**own, "TERM": "xterm", **({"MONEDULA_BOOTSTRAP_SERVERS": servers} if servers else {}), **more}


def run(
    *arguments: str, servers: str | None = None, stdin: bytes = b"", cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return FORKS.run(arguments, stdin, cwd, environment(servers, **more), PATIENCE_SECONDS)


def output(*arguments: str, servers: str | None = None, stdin: bytes = b"", cwd: Path | None = None) -> str:
    """The standard output of a command that succeeds."""
    done = run(*arguments, servers=servers, stdin=stdin, cwd=cwd)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def problem(
    *arguments: str, servers: str | None = None, code: int = 1, stdin: bytes = b"", cwd: Path | None = None
) -> str:
    """The one line of a command that fails."""
    done = run(*arguments, servers=servers, stdin=stdin, cwd=cwd)
    assert (done.returncode, done.stdout) == (code, b""), done
    assert done.stderr.count(b"\n") == 1, done.stderr.decode()
    return done.stderr.decode()


@contextmanager
def running(*arguments: str, servers: str | None = None, stdin: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A command on pipes, killed at the end if it still runs."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(servers),
        bufsize=0,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


class Terminal:
    """A command with a terminal as standard error, and as each stream that is not given."""

    def __init__(
        self, *arguments: str, servers: str | None = None, stdout: int | None = None, columns: int = 120
    ) -> None:
        self._side, terminal = pty.openpty()
        self.raw = ""
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=terminal,
            stdout=terminal if stdout is None else stdout,
            stderr=terminal,
            env=environment(servers, COLUMNS=str(columns), LINES="40"),
            start_new_session=True,
        )
        os.close(terminal)

    @property
    def text(self) -> str:
        """The output so far, without colours and cursor movements."""
        return _ANSI.sub("", self.raw)

    def until(self, wanted: Callable[[str], bool] | str) -> str:
        """Read until the text has something, or pass a condition."""
        holds = wanted if callable(wanted) else lambda text: wanted in text
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(self.text):
            if not self._read(deadline - time.monotonic()):
                pytest.fail(f"it ended, or time was up, before that: {self.text!r}")
        return self.text

    def end(self) -> int:
        """Read to its end; its exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._side, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)
        os.close(self._side)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._side], [], [], max(seconds, 0.0))
        if not ready:
            return False
        try:
            read = os.read(self._side, 1 << 16)
        except OSError:  # the other side is closed: Linux says EIO
            return False
        self.raw += read.decode(errors="replace")
        return bool(read)

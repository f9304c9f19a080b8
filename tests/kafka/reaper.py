"""Cleans up after a test session that died: ends JVMs by pid, then removes the temporary directory.

Runs as a process of its own with a pipe from the session on standard input. The pipe closes however the session
ends, SIGKILL included, which `atexit` would miss; and unlike PR_SET_PDEATHSIG it does not depend on which thread
started a node, needs no `preexec_fn` in a process full of runtime threads, and works on macOS too.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys


class Reaper:
    """The session's end of the pipe."""

    def __init__(self) -> None:
        # A session of its own, so that Ctrl-C in the terminal does not end the reaper before its work.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def watch(self, pid: int) -> None:
        """Kill this process when the session is gone."""
        self._tell(f"+{pid}")

    def forget(self, pid: int) -> None:
        """The process has been waited for: its pid may soon be somebody else's."""
        self._tell(f"-{pid}")

    def remove(self, directory: str) -> None:
        """Remove this directory when the session is gone."""
        self._tell(f"/{directory}")

    def close(self) -> None:
        """End the reaper; it kills and removes whatever is still on its list."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        # Ten thousand partitions are a good many files to remove.
        self._process.wait(timeout=120)

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def main() -> None:
    """Read `+pid`, `-pid` and `/directory` lines until the pipe closes, then clean up."""
    pids: set[int] = set()
    directories: list[str] = []
    for line in sys.stdin:
        kind, rest = line[0], line[1:].rstrip("\n")
        if kind == "+":
            pids.add(int(rest))
        elif kind == "-":
            pids.discard(int(rest))
        elif kind == "/":
            directories.append(rest)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()

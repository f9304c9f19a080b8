"""A Spark driver in a process of its own, to be killed: runs one function of `programs` and hears of it."""

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.spark._support import session

TIMEOUT_SECONDS = 240.0
"""Beside the other tests' JVMs and Rust's tests on two cores, one with executors of its own took over 90 s to begin."""


class DriverFailed(Exception):
    """The program ended without telling what was waited for, or too late. The message carries the end of its log."""


class Driver:
    """One program, running.

    Args:
        directory: of its own; the log is in it.
        program: name of a function in `tests.spark._support.programs`: `program(spark, tell, **arguments)`.
        arguments: for it; anything that JSON can carry.
        master: Spark's.
        conf: Spark's settings on top of the session's own.
        driver_python: what `PYSPARK_DRIVER_PYTHON` names.
    """

    def __init__(
        self,
        directory: Path,
        program: str,
        arguments: Mapping[str, Any],
        *,
        master: str = "local[2]",
        conf: Mapping[str, object] | None = None,
        driver_python: str = sys.executable,
    ) -> None:
        self.log_path = directory / session.LOG_NAME
        job = {
            "program": program,
            "arguments": dict(arguments),
            "directory": str(directory),
            "master": master,
            "conf": {key: str(value) for key, value in (conf or {}).items()},
            "driver_python": driver_python,
        }
        with self.log_path.open("ab") as log:
            # A session of its own: the JVMs stay in its process group, and `kill` ends them all.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark._support.driver", json.dumps(job)],
                cwd=session.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._told: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the program's Python; JVMs and workers are below it."""
        return self._process.pid

    def wait_for(self, event: str, timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        """The next event of this name; others before it are dropped.

        Raises:
            DriverFailed: the program ended without it, or has not told within the time.
        """
        while True:
            try:
                told = self._told.get(timeout=timeout_seconds)
            except queue.Empty:
                raise DriverFailed(f"nothing told within {timeout_seconds} s of {event}\n{self.log()}") from None
            if told is None:
                raise DriverFailed(f"ended with {self._process.wait(30)} without {event}\n{self.log()}")
            if told["event"] == event:
                return told

    def finish(self, timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        """What the program returned, once it has ended.

        Raises:
            DriverFailed: it failed.
        """
        returned = self.wait_for("returned", timeout_seconds)
        self._process.wait(timeout_seconds)
        return dict(returned["value"] or {})

    def kill(self) -> None:
        """End Python, JVM and executors at once (SIGKILL). Safe to call again."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)

    def log(self) -> str:
        """The end of what the program and its JVMs said."""
        return self.log_path.read_bytes()[-6000:].decode(errors="replace")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(json.loads(line))
        self._told.put(None)


def main(job: dict[str, Any]) -> None:
    """Run one program; ends when the process that started it is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tells = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything else prints is for the log
    lock = threading.Lock()

    def tell(event: str, **fields: Any) -> None:
        with lock:
            print(json.dumps({"event": event, **fields}), file=tells, flush=True)

    program = getattr(importlib.import_module("tests.spark._support.programs"), job["program"])
    directory, options = Path(job["directory"]), {name: job[name] for name in ("master", "conf", "driver_python")}
    with session.running(directory, **options) as spark:
        value = program(spark, tell, **job["arguments"])
    tell("returned", value=value)


def _end_with_parent() -> None:
    sys.stdin.read()
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

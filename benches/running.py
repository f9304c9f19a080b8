"""One measured process: started, waited for with a deadline, its usage and its last line taken."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUN_TIMEOUT_SECONDS = 900
COMPLAINT_CHARACTERS = 2000


@dataclass
class Ended:
    """A process that ended.

    Attributes:
        said: the JSON of its last line on standard output.
        error: why there is none.
        cpu_seconds: user and system, of the whole process.
        peak_rss_bytes: of the whole process.
    """

    said: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0


@dataclass
class Run:
    """One measured run of one peer: what its process used, and what it said of itself (`benches.measure`)."""

    peer: str
    round: int
    records: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    first_seconds: float | None = None
    first_records: int | None = None
    process_cpu_seconds: float = 0.0
    broker_cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    version: str = ""
    error: str | None = None

    def take(self, ended: Ended) -> None:
        """Take over what is known of its process."""
        self.process_cpu_seconds, self.peak_rss_bytes, self.error = (
            ended.cpu_seconds,
            ended.peak_rss_bytes,
            ended.error,
        )
        for key, value in ended.said.items():
            setattr(self, key, value)

    @property
    def outcome(self) -> str:
        """Its error, or its figures in one line."""
        return self.error or (
            f"{self.records / self.seconds:,.0f}/s, {self.cpu_seconds / self.records * 1e9:,.0f} ns CPU/record"
        )


def run(
    command: Sequence[str],
    timeout_seconds: float = RUN_TIMEOUT_SECONDS,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a process to its end; what it complained of goes to standard error if it failed.

    Args:
        command: the program and its arguments.
        timeout_seconds: when it is killed.
        environment: variables besides those of this process.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=errors, env={**os.environ, **(environment or {})}
        )
        status, usage, peak_rss_bytes = _wait(process, timeout_seconds)
        output.seek(0)
        errors.seek(0)
        printed, complaint = output.read().strip(), errors.read().strip()
    ended = Ended(cpu_seconds=usage.ru_utime + usage.ru_stime, peak_rss_bytes=peak_rss_bytes)
    if status != 0 or not printed:
        said = complaint.splitlines()[-1] if complaint else "nothing printed"
        ended.error = f"ended with {os.waitstatus_to_exitcode(status)}: {said}"
        print(complaint[-COMPLAINT_CHARACTERS:], file=sys.stderr)
    else:
        ended.said = json.loads(printed.splitlines()[-1])
    return ended


def _wait(process: "subprocess.Popen[bytes]", timeout_seconds: float) -> tuple[int, Any, int]:
    """Exit status, resource usage of that one process, and its peak RSS in bytes."""
    deadline = time.monotonic() + timeout_seconds
    peak_rss_bytes = 0
    while True:
        peak_rss_bytes = high_water_bytes(process.pid) or peak_rss_bytes
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return status, usage, peak_rss_bytes or usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        if time.monotonic() > deadline:
            process.kill()
            deadline = float("inf")
        time.sleep(0.01)


def high_water_bytes(pid: int) -> int:
    """VmHWM of Linux: unlike `ru_maxrss`, it does not take over the peak of what forked, or ran before exec."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0

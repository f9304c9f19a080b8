"""Processes that stand still, on Linux."""

import os
import signal
import time
from pathlib import Path

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.005


def stand_still(pid: int) -> None:
    """Send SIGSTOP; returns when every thread of the process has stopped.

    One thread takes the signal and stops the others. On a busy machine it comes late to a processor, and until then
    the others answer: a helper that was stopped answered a request, and a frozen node could likewise.

    Raises:
        TimeoutError: a thread still runs after a minute.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while running := _running(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"threads {running} of process {pid} have not stopped in {TIMEOUT_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _running(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        state = stat.rpartition(")")[2].split()[0]
        if state not in "TtZX":
            found.append(int(task.name))
    return found

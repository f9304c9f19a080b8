"""Permits for JVMs: of all test sessions of a user on this machine, never more than five JVMs are alive.

Two workers of pytest-xdist, each with a three-node Kafka, a single one and Spark, were a dozen JVMs on two cores, and
tests ran out of time. So before a test begins, its process holds a permit for every JVM that the test needs, those that
run already among them (`tests.jvms`). A process that waits for permits holds none: no two ever wait for each other.

A permit is a lock on one of five places in a file (`fcntl.lockf`). It is released however its process ends, and a
forked child has none.
"""

import fcntl
import os
import tempfile
import time
from pathlib import Path

MOST = 5
"""JVMs alive."""

POLL_SECONDS = 0.05
FILE_VARIABLE = "MONEDULA_JVM_PERMITS"
"""Environment variable that names another file for the locks."""

GATE = 0
"""The place of the lock that a process holds while it gathers permits: others come behind it, however few they want."""


class Permits:
    """The permits of this process, which has one object of this class for a file.

    Args:
        path: the file of the locks; the same for all processes that share the permits.
    """

    def __init__(self, path: Path | None = None) -> None:
        default = Path(tempfile.gettempdir()) / f"monedula-jvms-{os.getuid()}.locks"
        self._file = os.open(path or os.environ.get(FILE_VARIABLE) or default, os.O_RDWR | os.O_CREAT, 0o600)
        self._held: list[int] = []

    @property
    def held(self) -> int:
        """The number of permits that this process holds."""
        return len(self._held)

    def hold(self, wanted: int, timeout_seconds: float = 0.0) -> bool:
        """Hold exactly this many permits, or no more than before where they cannot be had in time.

        Raises:
            ValueError: it would wait, and has permits that may be what another process waits for.
        """
        before = min(self.held, wanted)
        if timeout_seconds and before:
            raise ValueError(f"{before} permits are held, and may be what another process waits for")
        deadline = time.monotonic() + timeout_seconds
        self._release(before)
        try:
            while self.held < wanted and not (self._locked(GATE) and self._gathered(wanted)):
                if time.monotonic() >= deadline:
                    self._release(before)
                    return False
                time.sleep(POLL_SECONDS)
            return True
        finally:
            self._unlock(GATE)

    def are_awaited(self) -> bool:
        """Whether another process is waiting for permits."""
        if not self._locked(GATE):
            return True
        self._unlock(GATE)
        return False

    def _gathered(self, wanted: int) -> bool:
        for place in range(1, 1 + MOST):
            if self.held < wanted and place not in self._held and self._locked(place):
                self._held.append(place)
        return self.held == wanted

    def _release(self, left: int) -> None:
        while self.held > left:
            self._unlock(self._held.pop())

    def _locked(self, place: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            return False
        return True

    def _unlock(self, place: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

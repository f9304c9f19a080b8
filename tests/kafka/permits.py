"""Permits for JVMs: of all test sessions of a user on this machine, never more than five JVMs are alive.

Two workers of pytest-xdist, each with a three-node Kafka, a single one and Spark, were a dozen JVMs on two cores, and
tests ran out of time. So before a test begins, its process holds a permit for every JVM that the test
needs, those that run already among them (see `tests.jvms`). While it waits for permits it holds none: two processes
never wait for each other, and a process that waits has closed its JVMs before.

A permit is a lock (flock) on one of five files, and is released however its process ends.
"""

import fcntl
import os
import tempfile
import time
from pathlib import Path

from tests.kafka.errors import KafkaError

MOST = 5
"""JVMs alive."""

WAIT_TIMEOUT_SECONDS = 3600.0
POLL_SECONDS = 0.05
DIRECTORY_VARIABLE = "MONEDULA_JVM_PERMITS"
"""Environment variable that names another folder for the locks."""


class NoPermit(KafkaError):
    """Other sessions have not released their permits in time. The message names the processes that hold them."""


class Permits:
    """The permits of this process.

    Args:
        directory: the folder of the locks; the same for all processes that share the permits.
        most: how many permits there are.
    """

    def __init__(self, directory: Path | None = None, most: int = MOST) -> None:
        default = Path(tempfile.gettempdir()) / f"monedula-jvms-{os.getuid()}"
        self._directory = directory or Path(os.environ.get(DIRECTORY_VARIABLE) or default)
        self._most = most
        self._held: dict[int, int] = {}

    @property
    def held(self) -> int:
        """The number of permits that this process holds."""
        return len(self._held)

    def try_hold(self, wanted: int) -> bool:
        """Try to hold this many permits, without waiting and not before processes that wait; releases the rest."""
        if wanted <= self.held:
            self._give_back(wanted)
            return True
        gate = self._open("gate")
        try:
            if not _locked(gate):
                return False
            before = self.held
            self._take(wanted)
            if self.held < wanted:
                self._give_back(before)
            return self.held == wanted
        finally:
            os.close(gate)

    def hold(self, wanted: int, timeout_seconds: float = WAIT_TIMEOUT_SECONDS) -> None:
        """Hold this many permits. If it has to wait, it must hold none before.

        Raises:
            NoPermit: others kept theirs for too long.
        """
        if wanted > self._most:
            raise ValueError(f"there are {self._most} permits for JVMs, and {wanted} are wanted at once")
        if self.try_hold(wanted):
            return
        if self.held:
            raise ValueError(f"{self.held} permits are held, and may be what another process waits for")
        deadline = time.monotonic() + timeout_seconds
        gate = self._open("gate")
        try:
            # One after the other: the process at the gate gets the released permits, however many it needs.
            while not _locked(gate):
                self._wait(deadline, wanted)
            while self.held < wanted:
                self._take(wanted)
                if self.held < wanted:
                    self._wait(deadline, wanted)
        except BaseException:
            self._give_back(0)
            raise
        finally:
            os.close(gate)

    def is_awaited(self, still_after_seconds: float = 0.0) -> bool:
        """Whether another process is waiting for permits, and has been for this long."""
        until = time.monotonic() + still_after_seconds
        gate = self._open("gate")
        try:
            while not _locked(gate):
                if time.monotonic() >= until:
                    return True
                time.sleep(POLL_SECONDS)
            return False
        finally:
            os.close(gate)

    def holders(self) -> list[int]:
        """The processes that hold permits, once for each."""
        found = []
        for number in range(self._most):
            file = self._open(str(number))
            try:
                if not _locked(file):
                    found.append(int(os.pread(file, 20, 0) or b"-1"))
            finally:
                os.close(file)
        return found

    def _take(self, wanted: int) -> None:
        """Take free permits, up to this many. Behind the gate, so that no other process takes half of what it needs."""
        for number in range(self._most):
            if self.held == wanted:
                return
            if number in self._held:
                continue
            file = self._open(str(number))
            if _locked(file):
                os.ftruncate(file, 0)
                os.pwrite(file, str(os.getpid()).encode(), 0)
                self._held[number] = file
            else:
                os.close(file)

    def _give_back(self, left: int) -> None:
        while self.held > left:
            _, file = self._held.popitem()
            # Closing the file is not enough: a child that was forked meanwhile has it open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def _wait(self, deadline: float, wanted: int) -> None:
        if time.monotonic() > deadline:
            raise NoPermit(f"{wanted} permits for JVMs are wanted; processes {self.holders()} hold {self._most}")
        time.sleep(POLL_SECONDS)

    def _open(self, name: str) -> int:
        self._directory.mkdir(parents=True, exist_ok=True)
        return os.open(self._directory / name, os.O_RDWR | os.O_CREAT, 0o600)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

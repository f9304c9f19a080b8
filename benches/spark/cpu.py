"""CPU time of a Spark session, split into its JVM, its Python processes and Kafka, from Linux's /proc.

The JVM is one process, and so is Kafka. Python is everything below the JVM: the daemons that Spark forks its workers
from, the workers, and the short-lived processes that plan. One that has ended is counted where it was waited for: in
its parent's children's time, and a daemon's in that of the JVM, which runs no other children.
"""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpu:
    """Seconds of user and system time."""

    jvm: float
    python: float
    broker: float

    def since(self, earlier: "Cpu") -> "Cpu":
        """What was used in between."""
        return Cpu(self.jvm - earlier.jvm, self.python - earlier.python, self.broker - earlier.broker)


@dataclass(frozen=True)
class _Process:
    parent: int
    own: float
    children: float


def used(jvm_pid: int, broker_pid: int) -> Cpu:
    """What has been used until now."""
    processes = _processes()
    while True:
        found = _below(jvm_pid, processes)
        again = _processes()
        # One that ended while they were read may be counted nowhere: only two readings of the same processes count.
        if _below(jvm_pid, again) == found:
            break
        processes = again
    python = again[jvm_pid].children + sum(again[pid].own + again[pid].children for pid in found)
    return Cpu(again[jvm_pid].own, python, again[broker_pid].own)


def below(root: int) -> set[int]:
    """Every process that this one started, and that those did."""
    return _below(root, _processes())


def _below(root: int, processes: dict[int, _Process]) -> set[int]:
    found: set[int] = set()
    pending = [root]
    while pending:
        parent = pending.pop()
        children = {pid for pid, process in processes.items() if process.parent == parent}
        found |= children
        pending += children
    return found


def _processes() -> dict[int, _Process]:
    processes = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                stat = (path / "stat").read_text()
            except OSError:
                continue  # it has just ended
            # The name, in parentheses, may hold anything; the fields after it are numbers: state is the first.
            fields = stat.rpartition(")")[2].split()
            user, system, children_user, children_system = (int(field) / TICKS_PER_SECOND for field in fields[11:15])
            processes[int(path.name)] = _Process(int(fields[1]), user + system, children_user + children_system)
    return processes

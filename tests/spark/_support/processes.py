"""The Python processes of a Spark session, from /proc."""

import contextlib
import os
import signal
from pathlib import Path


def workers(jvm_pid: int) -> list[int]:
    """The processes below a JVM that run tasks: forked by its daemon, or by that of an executor."""
    parents, commands = _processes()
    daemons = {pid for pid, command in commands.items() if b"pyspark.daemon\0pyspark.worker\0" in command + b"\0"}
    # A worker is forked from its daemon, and has its command line.
    return [pid for pid in daemons if parents[pid] in daemons and _is_below(pid, jvm_pid, parents)]


def descendants(root: int) -> list[int]:
    """All processes below one: JVMs, executors, daemons and workers."""
    parents, _ = _processes()
    return [pid for pid in parents if pid != root and _is_below(pid, root, parents)]


def kill(pids: list[int]) -> None:
    """End them at once (SIGKILL); one that has just ended by itself is left alone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes() -> tuple[dict[int, int], dict[int, bytes]]:
    """The parent and the command line of each process."""
    parents, commands = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(path.name)] = (path / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
    return parents, commands


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root

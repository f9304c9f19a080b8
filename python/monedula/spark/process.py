"""What Spark's own Python processes need, done once in each.

A worker serves one task after another. Between them Spark's daemon collects garbage, and the JVM sends the next task in
two pieces. Both cost far more than reading a few rows from Kafka. And none of these processes configures logging.
"""

import ctypes
import gc
import logging
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

_SELF_DESCRIPTORS = Path("/proc/self/fd")
_M_ARENA_MAX = -8
"""glibc's, from malloc.h."""


@cache
def show_warnings() -> None:
    """Has our warnings written to standard error, which becomes part of Spark's log; only in Spark's own processes.

    Without it they would go nowhere: what is skipped under failOnDataLoss=false, options that are left out.
    """
    if "pyspark.worker_util" in sys.modules:
        handler = _StandardError(logging.WARNING)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger("monedula").addHandler(handler)


class _StandardError(logging.Handler):
    """Writes to what standard error is at the time; nothing where somebody has configured logging after all."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            try:
                sys.stderr.write(f"{self.format(record)}\n")
                sys.stderr.flush()
            except Exception:
                self.handleError(record)


@cache
def tune() -> None:
    """Tune this process; the first call does it, later ones nothing."""
    # The collection after every task looks through each object of pyspark, pyarrow and pandas: 5 to 50 ms. What is
    # loaded by now is there to stay.
    gc.freeze()
    _share_arenas()
    descriptors = _jvm_sockets()
    if descriptors:
        gc.callbacks.append(lambda phase, info: _acknowledge(descriptors, phase, info))


def _share_arenas() -> None:
    """Has all threads of a process with little address space allocate from one arena.

    `spark.executor.pyspark.memory` limits what is mapped, used or not, and glibc maps 64 MB for each thread that
    allocates: two of a client's threads took a quarter of 512 MB, of which they used little.
    """
    if resource is None or resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # no other C library has it
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def _acknowledge(descriptors: list[int], phase: str, info: dict[str, Any]) -> None:
    """Has the kernel acknowledge at once what the JVM sends next.

    Spark leaves Nagle's algorithm on: the second piece of a task waits until the first is acknowledged, and the kernel
    puts that off by 40 ms on a connection whose last word was ours. The wish holds until the next answer is sent, so it
    has to be said between tasks; the daemon's full collection is what happens there. Unix domain sockets
    (`spark.python.unix.domain.socket.enabled`) have neither, but are not the default.
    """
    if phase != "stop" or info["generation"] != 2:
        return
    for descriptor in descriptors:
        with suppress(OSError):
            borrowed = socket.socket(fileno=descriptor)
            try:
                borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            finally:
                borrowed.detach()


def _jvm_sockets() -> list[int]:
    """Descriptors of this process's TCP connections over loopback; before Kafka is connected that is the JVM's."""
    if not hasattr(socket, "TCP_QUICKACK") or not _SELF_DESCRIPTORS.is_dir():
        return []
    found = []
    for descriptor in (int(entry.name) for entry in _SELF_DESCRIPTORS.iterdir()):
        with suppress(OSError):
            borrowed = socket.socket(fileno=descriptor)
            try:
                is_tcp = borrowed.family in (socket.AF_INET, socket.AF_INET6) and borrowed.type == socket.SOCK_STREAM
                if is_tcp and borrowed.getpeername()[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
                    found.append(descriptor)
            finally:
                borrowed.detach()
    return found

"""Tunes Spark's own Python processes, once in each, and shows our warnings in their log.

A worker runs one task after another. Between two tasks Spark's daemon collects garbage, and the JVM sends the next task
in two pieces; both take far longer than reading a few rows from Kafka. None of these processes configures logging.
"""

import ctypes
import gc
import logging
import os
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
"""M_ARENA_MAX of glibc's malloc.h."""


@cache
def show_warnings() -> None:
    """Write our warnings to standard error, which becomes part of Spark's log; only in Spark's own processes.

    Without it warnings about skipped records (failOnDataLoss=false) or ignored options would be lost.
    """
    if "pyspark.worker_util" in sys.modules:
        handler = _StandardError(logging.WARNING)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger("monedula").addHandler(handler)


@cache
def warn_of_driver_python() -> None:
    """Say that executors are started with the Python of the driver, if that is one of its own.

    Spark runs a source that it found by itself with `PYSPARK_DRIVER_PYTHON` everywhere.
    """
    driver, others = (os.environ.get(f"PYSPARK_{name}", "") for name in ("DRIVER_PYTHON", "PYTHON"))
    if driver and driver != others:
        show_warnings()
        logging.getLogger("monedula.spark").warning(
            "Executors are started with %s (PYSPARK_DRIVER_PYTHON), because Spark found the format by itself. Call "
            "monedula.spark.register(spark) before it is used: then they are started with %s",
            driver,
            others or "python3, or what PYSPARK_PYTHON names",
        )


class _StandardError(logging.Handler):
    """Writes to the current `sys.stderr`; writes nothing if the root logger has handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            try:
                sys.stderr.write(f"{self.format(record)}\n")
                sys.stderr.flush()
            except Exception:
                self.handleError(record)


@cache
def tune() -> None:
    """Tune this process; later calls do nothing."""
    # The garbage collection after every task visits every object of pyspark, pyarrow and pandas, which takes 5 to
    # 50 ms. These modules stay loaded, so their objects are excluded.
    gc.freeze()
    _share_arenas()
    descriptors = _jvm_sockets()
    if descriptors:
        gc.callbacks.append(lambda phase, info: _acknowledge(descriptors, phase, info))


def has_address_limit() -> bool:
    """Whether this process may only map so much memory, used or not: `spark.executor.pyspark.memory` sets the limit."""
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _share_arenas() -> None:
    """Make all threads allocate from one malloc arena, if the process has a limit on its address space.

    glibc maps an arena of 64 MB for each thread that allocates: two threads of a client took a quarter of 512 MB, and
    used little of it.
    """
    if not has_address_limit():
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # no other C library has it
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def _acknowledge(descriptors: list[int], phase: str, info: dict[str, Any]) -> None:
    """Make the kernel acknowledge the JVM's next packet at once; called at each garbage collection.

    Spark leaves Nagle's algorithm on: the JVM sends the second piece of a task only after the first one is
    acknowledged, and the kernel delays the acknowledgement by 40 ms if this process sent the last packet before.
    Without this a micro-batch of 1,000 rows takes 204 ms, with it 128 (2026-11-29, `python -m benches.spark --queries
    small`, two runs each), and Spark's own source 128: it decides whether a small stream keeps up with the JVM's.
    The socket is pyspark's, so it is borrowed for the one call and never closed here. TCP_QUICKACK lasts only until the
    process sends again, so it has to be set between two tasks, where no code of a data source runs; the daemon's full
    collection (generation 2) does. Unix domain sockets (`spark.python.unix.domain.socket.enabled`) have neither delay,
    but are not the default.
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
    """Descriptors of this process's TCP connections over loopback: before Kafka is connected, only that to the JVM."""
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

"""The two servers, each in processes of its own: what is started, and when it answers."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import KafkaCluster, wire

POLL_SECONDS = 0.001
READY_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        address: `host:port`.
        pid: of the process that serves.
        ready_seconds: from the start of the process to the first answer to Metadata.
    """

    address: str
    pid: int
    ready_seconds: float


@contextmanager
def embedded(binary: Path, *arguments: str) -> Iterator[Server]:
    """The embedded broker as a process of its own."""
    port = free_port()
    started = time.perf_counter()
    command = [str(binary), "--port", str(port), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        ready_seconds = until_ready(port, started, process)
        yield Server(f"127.0.0.1:{port}", process.pid, ready_seconds)
    finally:
        process.kill()
        process.wait()


@contextmanager
def kafka(*, quick: bool) -> Iterator[Server]:
    """A real Kafka of one node. Its storage is formatted before the clock starts.

    Args:
        quick: with the JVM flags that start it quickest, at the cost of peak speed.
    """
    with KafkaCluster(config={"auto.create.topics.enable": "true"}, fast_start=quick) as cluster:
        (node,) = cluster.nodes.values()
        cluster.stop(node.id)
        started = time.perf_counter()
        cluster.start(node.id)
        ready_seconds = time.perf_counter() - started
        assert node.pid is not None
        yield Server(node.address, node.pid, ready_seconds)


def in_process() -> float:
    """Seconds that `monedula.testing.Broker()` takes in this process, to its first answer."""
    from monedula.testing import Broker

    started = time.perf_counter()
    with Broker() as broker:
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        wire.metadata(host, int(port))
        return time.perf_counter() - started


def until_ready(port: int, started: float, process: "subprocess.Popen[bytes]") -> float:
    """Seconds until Metadata is answered.

    Raises:
        SystemExit: the process ended, or was not ready in time.
    """
    while time.perf_counter() - started < READY_SECONDS:
        if process.poll() is not None:
            said = process.stderr.read().decode() if process.stderr else ""
            raise SystemExit(f"the broker ended with {process.returncode}: {said}")
        try:
            wire.metadata("127.0.0.1", port)
            return time.perf_counter() - started
        except OSError:
            time.sleep(POLL_SECONDS)
    raise SystemExit(f"the broker did not answer within {READY_SECONDS} s")


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident_bytes(pid: int) -> int:
    """What a process holds in memory now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise SystemExit(f"process {pid} tells nothing of its memory")
    return int(found[1]) * 1024


def repeated(times: int, measure: Callable[[], float]) -> list[float]:
    """The same measurement several times."""
    values = []
    for number in range(1, times + 1):
        values.append(measure())
        print(f"  {number}: {values[-1]:.4f}", file=sys.stderr)
    return values

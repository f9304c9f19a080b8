"""From a new client to its first answer, by security protocol: monedula beside confluent-kafka, on a real Kafka.

Each peer makes `--clients` clients in a process of its own, one after the other, and asks each to describe the cluster.
A client connects, does its handshakes (TLS, ApiVersions, SCRAM) and is closed; the time ends with the answer, the CPU
with the client. Asserts no time; exit code 1: a peer failed.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/handshakes.py` works as well as `python -m`

from benches import running  # noqa: E402

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISM = "SCRAM-SHA-512"
ANSWER_SECONDS = 30.0
WARM_UP_CLIENTS = 3
SETTINGS = "BENCH_SETTINGS"


def main() -> int:
    """Measure every peer over every protocol, in turns, and print a table."""
    options = _options()
    if options.connect:
        _connect(options.connect, json.loads(os.environ[SETTINGS]), options.clients)
        return 0
    # Not of a peer, which needs none of Kafka's own tools.
    from tests.kafka.secured import SecuredKafka

    taken: dict[tuple[str, str], list[running.Ended]] = {}
    with SecuredKafka(kerberos=False) as kafka:
        for number in range(options.rounds):
            shift = number % len(PEERS)
            for protocol in PROTOCOLS:
                settings = {"bootstrap.servers": kafka.bootstrap}
                if protocol != "PLAINTEXT":
                    mechanism = MECHANISM if protocol.startswith("SASL") else None
                    settings = kafka.client_settings(protocol, mechanism, names="librdkafka")
                names = list(PEERS)
                for name in (*names[shift:], *names[:shift]):
                    taken.setdefault((protocol, name), []).append(_run(name, settings, options.clients))
    print("| protocol | client | median ms | of the rounds | CPU ms |\n|---|---|---:|---:|---:|")
    for (protocol, name), runs in taken.items():
        print(_row(protocol, name, runs))
    return int(any(run.error for runs in taken.values() for run in runs))


def _row(protocol: str, name: str, runs: list[running.Ended]) -> str:
    if failed := [run.error for run in runs if run.error]:
        return f"| {protocol} | {name} | failed: {failed[0]} | | |"
    medians = sorted(run.said["median_ms"] for run in runs)
    cpu_ms = statistics.median(run.said["cpu_ms"] for run in runs)
    spread = f"{medians[0]:.1f}-{medians[-1]:.1f}"
    return f"| {protocol} | {name} | {statistics.median(medians):.1f} | {spread} | {cpu_ms:.1f} |"


def _run(name: str, settings: Mapping[str, object], clients: int) -> running.Ended:
    command = [sys.executable, __file__, "--connect", name, "--clients", str(clients)]
    # Everybody may see a process's arguments, and these have a password.
    return running.run(command, environment={SETTINGS: json.dumps(settings)})


def _connect(name: str, settings: dict[str, object], clients: int) -> None:
    """In a process of its own: make clients, and print what one takes."""
    ask = PEERS[name]
    for _ in range(WARM_UP_CLIENTS):
        ask(settings)
    cpu_before = time.process_time()
    times_ms = [ask(settings) * 1000 for _ in range(clients)]
    cpu_ms = (time.process_time() - cpu_before) / clients * 1000
    print(json.dumps({"median_ms": statistics.median(times_ms), "cpu_ms": cpu_ms}))


def _monedula(settings: dict[str, object]) -> float:
    import monedula

    started = time.perf_counter()
    with monedula.Admin(settings) as admin:
        admin.describe_cluster(timeout=ANSWER_SECONDS)
        return time.perf_counter() - started


def _confluent(settings: dict[str, object]) -> float:
    from confluent_kafka.admin import AdminClient

    started = time.perf_counter()
    admin = AdminClient(settings)
    admin.describe_cluster(request_timeout=ANSWER_SECONDS).result(ANSWER_SECONDS)
    return time.perf_counter() - started


PEERS: dict[str, Callable[[dict[str, object]], float]] = {"monedula": _monedula, "confluent": _confluent}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100, help="of each peer in each round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--connect", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

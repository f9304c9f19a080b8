"""From `assign` to the first record of every partition, with many brokers, each peer in a process of its own.

The embedded broker plays the nodes; each leads one partition (`--partitions` for more), and each partition has one
record. What is aimed at is one `fetch.max.wait.ms` (500 ms by default in each client), connections included. Asserts no
time; exit code 1: a peer failed, or did not get every record within `--timeout` seconds.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/first_records.py` works as well as `python -m`

from benches import running  # noqa: E402

TOPIC = "first"
FETCH_MAX_WAIT_MS = 500
BEFORE = "monedula@before"


def main() -> int:
    """Measure every peer on every number of brokers, in turns, and print a table."""
    options = _options()
    if options.read:
        _read(options.read, options.bootstrap, options.partitions, options.timeout)
        return 0
    # Not of a peer: what is measured may be another build of monedula.
    from monedula.testing import Broker

    peers = ["monedula", "confluent", *([BEFORE] if options.before else [])]
    failed = False
    print("| brokers | peer | median ms | slowest ms | of fetch.max.wait.ms |\n|---:|---|---:|---:|---:|")
    for brokers in options.brokers:
        partitions = brokers * options.partitions
        with Broker(brokers) as broker:
            broker.create_topic(TOPIC, partitions)
            for partition in range(partitions):
                broker.append(TOPIC, [f"of {partition}"], partition=partition)
            taken: dict[str, list[float]] = {peer: [] for peer in peers}
            missed: dict[str, str] = {}
            for number in range(options.rounds):
                shift = number % len(peers)
                for peer in (*peers[shift:], *peers[:shift]):
                    ended = _run(peer, broker.bootstrap_servers, partitions, options)
                    if ended.error:
                        missed[peer] = ended.error
                    elif ended.said["missing"]:
                        missed[peer] = f"{ended.said['missing']} of {partitions} never in {options.timeout:.0f} s"
                    else:
                        taken[peer].append(ended.said["seconds"] * 1000)
        for peer in peers:
            failed |= peer in missed and peer != BEFORE
            print(_row(brokers, peer, taken[peer], missed.get(peer)), flush=True)
    return 1 if failed else 0


def _row(brokers: int, peer: str, taken_ms: list[float], missed: str | None) -> str:
    if missed is not None:
        return f"| {brokers} | {peer} | {missed} | | |"
    median_ms = statistics.median(taken_ms)
    return f"| {brokers} | {peer} | {median_ms:.0f} | {max(taken_ms):.0f} | {median_ms / FETCH_MAX_WAIT_MS:.2f} |"


def _run(peer: str, bootstrap: str, partitions: int, options: argparse.Namespace) -> running.Ended:
    command = [sys.executable, __file__, "--read", peer.partition("@")[0], "--bootstrap", bootstrap]
    command += ["--partitions", str(partitions), "--timeout", str(options.timeout)]
    environment = {"PYTHONPATH": str(options.before.resolve())} if peer == BEFORE else {}
    return running.run(command, timeout_seconds=options.timeout + 60, environment=environment)


def _read(client: str, bootstrap: str, partitions: int, timeout_seconds: float) -> None:
    """In a process of its own: read until every partition has given its record; print how long that took."""
    read = {"monedula": _monedula, "confluent": _confluent}[client]
    waited_for, begun = set(range(partitions)), 0.0
    for partition in read(bootstrap, partitions):
        if partition is None:
            begun = begun or time.monotonic()
            if time.monotonic() - begun > timeout_seconds:
                break
            continue
        waited_for.discard(partition)
        if not waited_for:
            break
    print(json.dumps({"seconds": time.monotonic() - begun, "missing": len(waited_for)}))


def _monedula(bootstrap: str, partitions: int) -> Iterable[int | None]:
    import monedula

    with monedula.Consumer({"bootstrap.servers": bootstrap}) as consumer:
        yield None
        consumer.assign({(TOPIC, partition): 0 for partition in range(partitions)})
        while True:
            for record in consumer.poll(0.1).records():
                yield record.partition
            yield None


def _confluent(bootstrap: str, partitions: int) -> Iterable[int | None]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    yield None
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(partitions)])
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            yield message.partition()
        yield None


def _options() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=numbers, default=[3, 9, 30, 50], help="default 3,9,30,50")
    parser.add_argument("--partitions", type=int, default=1, help="that each broker leads (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for each reading (default %(default)s)")
    parser.add_argument(
        "--before", type=Path, help="a folder with another build of the package monedula: one more peer"
    )
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Reads with `order="partition"` beside those without, of few large and of many small partitions.

The topics are on the embedded broker.
"""

import argparse
import statistics
import time

import monedula
import pyarrow as pa
from monedula.reading.read import Order
from monedula.testing import Broker

VALUE_BYTES = 100
TOPICS = {"large": (3, 1_000_000), "middling": (200, 1_000), "small": (1_000, 10)}
"""Partitions of each topic, and records of each partition."""


def main() -> None:
    """Fill the topics, read each in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("| partitions | records of each | without | by partition |\n|---:|---:|---:|---:|")
    with Broker(topics={name: partitions for name, (partitions, _) in TOPICS.items()}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        for name, (partitions, records) in TOPICS.items():
            _fill(settings, name, partitions, records)
            times: dict[Order | None, list[float]] = {None: [], "partition": []}
            for _ in range(rounds):
                for order, seconds in times.items():
                    seconds.append(_read(settings, name, order, partitions * records))
            without, by_partition = (f"{statistics.median(seconds):.3f} s" for seconds in times.values())
            print(f"| {partitions:,} | {records:,} | {without} | {by_partition} |", flush=True)


def _fill(settings: dict[str, str], topic: str, partitions: int, records: int) -> None:
    values = pa.array([b"x" * VALUE_BYTES] * min(records, 10_000))
    with monedula.Producer(settings) as producer:
        for partition in range(partitions):
            rows = {"value": values, "partition": pa.array([partition] * len(values), pa.int32())}
            for _ in range(records // len(values)):
                producer.send_batch(pa.table(rows), topic)


def _read(settings: dict[str, str], topic: str, order: Order | None, expected: int) -> float:
    began = time.perf_counter()
    with monedula.read(settings, topic, order=order) as stream:
        assert sum(map(len, stream)) == expected
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

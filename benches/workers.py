"""Records per second through a handler that does nothing: `run`, a plain loop, and confluent-kafka with a ThreadPool.

The topic is in an embedded broker, in a process of its own; the readers take turns, each in a process of its own.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/workers.py` works as well as `python -m benches.workers`

from benches.turns import PARTITIONS, TOPIC, take_turns  # noqa: E402

KEYS = 10_000
THREADS = 32


def settings(bootstrap: str) -> dict[str, Any]:
    """The settings of a member of a new group."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": f"benches-{time.monotonic_ns()}",
        "auto.offset.reset": "earliest",
    }


def loop(bootstrap: str, records: int) -> float:
    """`Consumer.records` in one thread."""
    import monedula

    with monedula.Consumer(settings(bootstrap), topics=[TOPIC]) as consumer:
        rows = consumer.records()
        next(rows)
        began = time.perf_counter()
        for _ in range(records - 1):
            handle(next(rows))
        return time.perf_counter() - began


def run(bootstrap: str, records: int, **arguments: Any) -> float:
    """`Consumer.run`."""
    import monedula

    began: list[float] = []

    def handle(_: object) -> None:
        if not began:
            began.append(time.perf_counter())

    with monedula.Consumer(settings(bootstrap), topics=[TOPIC]) as consumer:
        consumer.run(handle, until="latest", **arguments)
        seconds = time.perf_counter() - began[0]
        assert consumer.metrics()["run_handled"] >= records
        return seconds


def run_async(bootstrap: str, records: int) -> float:
    """`AsyncConsumer.run`."""
    import monedula

    began: list[float] = []

    async def handle(_: object) -> None:
        if not began:
            began.append(time.perf_counter())

    async def main() -> float:
        async with monedula.AsyncConsumer(settings(bootstrap), topics=[TOPIC]) as consumer:
            await consumer.run(handle, until="latest", concurrency=THREADS)
            seconds = time.perf_counter() - began[0]
            assert consumer.metrics()["run_handled"] >= records
            return seconds

    return asyncio.run(main())


def confluent(bootstrap: str, records: int) -> float:
    """confluent-kafka `consume` into a ThreadPool: neither order by key, nor commits by what is finished."""
    from concurrent.futures import ThreadPoolExecutor, wait

    from confluent_kafka import Consumer

    consumer = Consumer(settings(bootstrap))
    consumer.subscribe([TOPIC])
    seen, began = 0, 0.0
    with ThreadPoolExecutor(THREADS) as pool:
        while seen < records:
            messages = consumer.consume(1000, 1.0)
            if messages and not began:
                began = time.perf_counter()
            seen += len(messages)
            wait([pool.submit(handle, message) for message in messages])
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


def handle(_: object) -> None:
    """Do nothing."""


READERS: dict[str, Callable[[str, int], float]] = {
    "records() loop": loop,
    "run, key, 32 threads": lambda bootstrap, records: run(bootstrap, records, concurrency=THREADS),
    "run, key, 1 thread": lambda bootstrap, records: run(bootstrap, records, concurrency=1),
    "run, lists of 100 by partition, 4 threads": lambda bootstrap, records: run(
        bootstrap, records, concurrency=4, order="partition", batch_size=100
    ),
    "async run, key, 32 tasks": run_async,
    "confluent-kafka, ThreadPool of 32": confluent,
}


def fill(broker: Any, records: int) -> None:
    """Write the records."""
    for partition in range(PARTITIONS):
        pairs = [(f"key {number % KEYS}", "x" * 100) for number in range(records // PARTITIONS)]
        broker.append(TOPIC, pairs, partition=partition)


def main() -> None:
    turns = take_turns(__file__, READERS, fill, about=__doc__, records=200_000)
    if turns is not None:
        for name, seconds in turns.results.items():
            print(f"{name:45} {turns.records / statistics.median(seconds):>12,.0f} records/s")


if __name__ == "__main__":
    main()

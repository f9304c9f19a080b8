"""Records per second through a handler that does nothing: `run`, a plain loop, and confluent-kafka with a ThreadPool.

The topic is in an embedded broker, in a process of its own; the readers take turns, each in a process of its own.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/workers.py` works as well as `python -m benches.workers`

TOPIC = "orders"
PARTITIONS = 4
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


def serve(records: int) -> None:
    """An embedded broker with the topic, until standard input ends."""
    from monedula.testing import Broker

    with Broker(topics={TOPIC: PARTITIONS}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        value = "x" * 100
        for partition in range(PARTITIONS):
            broker.append(
                TOPIC,
                [(f"key {number % KEYS}", value) for number in range(records // PARTITIONS)],
                partition=partition,
            )
        print(broker.bootstrap_servers, flush=True)
        sys.stdin.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="a part of a reader's name")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.records)
    if given.read:
        name, bootstrap = given.read
        print(json.dumps(READERS[name](bootstrap, given.records)))
        return None
    command = [sys.executable, __file__, "--records", str(given.records)]
    with subprocess.Popen([*command, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        bootstrap = server.stdout.readline().strip()
        readers = [name for name in READERS if given.only is None or given.only in name]
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(given.rounds):
            for name in readers:
                ended = subprocess.run(
                    [*command, "--read", name, bootstrap], capture_output=True, text=True, check=False
                )
                if ended.returncode:
                    sys.exit(f"{name}: {ended.stderr}")
                seconds[name].append(float(json.loads(ended.stdout)))
        server.stdin.close()  # type: ignore[union-attr]
    for name, took in seconds.items():
        print(f"{name:45} {given.records / statistics.median(took):>12,.0f} records/s")
    return None


if __name__ == "__main__":
    main()

"""Time from produce to the record in Python, for monedula and confluent-kafka, in turns within one run.

A producer process of its own (confluent-kafka, linger 0) sends one small record every few milliseconds, whose value is
its own monotonic clock; every process of a machine shares that clock. The readers take turns, each in a process of its
own, and look at the clock as soon as the client hands them something.
"""

import argparse
import json
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python benches/latency.py` works as well as `python -m benches.latency`

RATE_PER_SECOND = 200
WARM_UP_SECONDS = 1.0
TURN_SECONDS_MAX = 120.0
"""How long a turn may take besides what is measured: a new share group may wait for its state topic."""
MAX_WAIT_SECONDS = 0.0
STAMP = struct.Struct("<q")

Arrivals = Iterator[tuple[int, Sequence[bytes]]]
"""When something arrived (monotonic nanoseconds), and the values that did."""


def produce(bootstrap: str, topic: str) -> None:
    """Send stamps at a steady rate until this process is ended."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    due = time.monotonic()
    while True:
        producer.produce(topic, STAMP.pack(time.monotonic_ns()))
        producer.poll(0)
        due += 1 / RATE_PER_SECOND
        time.sleep(max(0.0, due - time.monotonic()))


def read_confluent(bootstrap: str, topic: str, offset: int) -> Arrivals:
    """confluent-kafka `poll`, one message at a time."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benches", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, offset)])
    while True:
        message = consumer.poll(1.0)
        now = time.monotonic_ns()
        if message is not None and message.error() is None:
            yield now, [message.value() or b""]


def read_monedula_batches(bootstrap: str, topic: str, offset: int) -> Arrivals:
    """`monedula.Consumer.batches` that waits for no company."""
    import monedula

    with monedula.Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign({(topic, 0): offset})
        for batch in consumer.batches(max_wait=MAX_WAIT_SECONDS):
            yield time.monotonic_ns(), values_of(batch)


def read_monedula_poll(bootstrap: str, topic: str, offset: int) -> Arrivals:
    """`monedula.Consumer.poll`."""
    import monedula

    with monedula.Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign({(topic, 0): offset})
        while True:
            batch = consumer.poll(1.0)
            now = time.monotonic_ns()
            if batch is not None:
                yield now, values_of(batch)


Reader = Callable[[str, str, int], Arrivals]
"""Reads from a broker the topic's only partition, from an offset."""

READERS: dict[str, Reader] = {
    "monedula_batches": read_monedula_batches,
    "monedula_poll": read_monedula_poll,
    "confluent_poll": read_confluent,
}


def values_of(batch: Any) -> list[bytes]:
    """The values of a batch, as Python has them."""
    import pyarrow

    values: Any = pyarrow.record_batch(batch).column("value")
    return list(values.to_pylist())


def read(arrivals: Arrivals, seconds: float) -> list[float]:
    """One turn of one reader: milliseconds from produce to arrival, after a warm-up that begins with the first one.

    Records produced before the reader was warm are left out: they waited for it to start.
    """
    warm_ns = end_ns = 0
    waits_ms = []
    for now_ns, values in arrivals:
        warm_ns = warm_ns or now_ns + int(WARM_UP_SECONDS * 1e9)
        end_ns = end_ns or warm_ns + int(seconds * 1e9)
        for value in values:
            (stamp_ns,) = STAMP.unpack(value)
            if stamp_ns >= warm_ns:
                waits_ms.append((now_ns - stamp_ns) / 1e6)
        if now_ns >= end_ns:
            break
    return waits_ms


def take_turns(
    program: Sequence[str],
    readers: Mapping[str, Reader],
    *,
    about: str | None,
    config: Mapping[str, object] | None = None,
) -> None:
    """Start Kafka and the producer, let the readers take turns, print p50 and p99.

    Args:
        program: the command of the bench, which is run again for the producer and for each turn.
        readers: what is measured, by name.
        about: the docstring of the bench.
        config: settings of the broker.
    """
    options = _options(readers, about)
    if options.role == "produce":
        produce(options.bootstrap, options.topic)
    elif options.role == "read":
        arrivals = readers[options.reader](options.bootstrap, options.topic, options.offset)
        print(json.dumps(read(arrivals, options.seconds)))
    else:
        _compare(program, options, config or {})


def _options(readers: Mapping[str, Reader], about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", default=",".join(readers))
    parser.add_argument("--turns", type=int, default=4, help="of each reader (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn (default %(default)s)")
    parser.add_argument("--output", help="write every sample to this JSON file")
    for hidden in ("role", "bootstrap", "topic", "reader"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    parser.add_argument("--offset", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _compare(program: Sequence[str], options: argparse.Namespace, config: Mapping[str, object]) -> None:
    from tests.kafka import KafkaCluster

    readers, seconds = options.readers.split(","), options.seconds
    samples_ms: dict[str, list[list[float]]] = {reader: [] for reader in readers}
    topic = "stamps"
    with KafkaCluster(config=config, fast_start=False) as kafka:
        kafka.helper.create_topic(topic)
        common = [*program, "--bootstrap", kafka.bootstrap, "--topic", topic]
        producer = subprocess.Popen([*common, "--role", "produce"])
        try:
            for _ in range(options.turns):
                for reader in readers:
                    offset = kafka.helper.offsets(topic)[0][1]
                    turn = [*common, "--role", "read", "--reader", reader]
                    turn += ["--offset", str(offset), "--seconds", str(seconds)]
                    ran = subprocess.run(
                        turn, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + TURN_SECONDS_MAX
                    )
                    samples_ms[reader].append(json.loads(ran.stdout))
        finally:
            producer.kill()
            producer.wait()
    print(_table(samples_ms, seconds))
    if options.output:
        Path(options.output).write_text(json.dumps(samples_ms) + "\n")


def _table(samples_ms: dict[str, list[list[float]]], seconds: float) -> str:
    lines = ["| reader | records | p50 ms | p99 ms | p99 ms of each turn |", "|---|---:|---:|---:|---|"]
    for reader, turns in samples_ms.items():
        every = [wait for turn in turns for wait in turn]
        if len(every) < RATE_PER_SECOND * seconds * len(turns) / 2:
            raise SystemExit(f"{reader} saw only {len(every)} records: the figures would mean nothing")
        each = ", ".join(f"{_percentile(turn, 99):.2f}" for turn in turns)
        lines.append(
            f"| {reader} | {len(every)} | {statistics.median(every):.2f} | {_percentile(every, 99):.2f} | {each} |"
        )
    return "\n".join(lines)


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    take_turns([sys.executable, __file__], READERS, about=__doc__)

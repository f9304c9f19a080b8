"""`make demo`: a broker, a topic with generated events, and what monedula makes of it.

The broker is the embedded one; `make demo-kafka` has a real Kafka instead.
"""

import argparse
import json
import sys
import time
from typing import Literal

import monedula
import polars
import pyarrow
from monedula.testing import Broker

from benches import data
from tests.kafka import KafkaCluster, KafkaUnavailable

TOPIC = "events"
BATCHES_SHOWN = 4
ROWS_SHOWN = 5
CHUNK = 50_000
TIMEOUT_SECONDS = 60.0


def main() -> int:
    """Start, fill, read in three ways; ends with 1 if records are missing."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="in the topic (default %(default)s)")
    parser.add_argument("--codec", default="zstd", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    parser.add_argument("--kafka", action="store_true", help="on a real Kafka instead of the embedded broker")
    options = parser.parse_args()
    if options.kafka:
        return on_kafka(options.records, options.codec)
    started = time.perf_counter()
    with Broker(topics={TOPIC: data.PARTITIONS}) as broker:
        print(f"an embedded broker, up after {(time.perf_counter() - started) * 1000:.1f} ms")
        generate(broker, options.records, None if options.codec == "none" else options.codec)
        return show(broker.bootstrap_servers, options.records, options.codec)


def on_kafka(records: int, codec: str) -> int:
    """The same on a real Kafka."""
    print("starting Apache Kafka (the first time, Maven fetches its jars) ...", flush=True)
    try:
        with KafkaCluster(config=data.BROKER_SETTINGS, fast_start=False) as kafka:
            data.fill(kafka, TOPIC, records, codec, data.PARTITIONS, data.BATCH_SIZE_BYTES, data.LINGER_MS)
            return show(kafka.bootstrap, records, codec)
    except KafkaUnavailable as error:
        raise SystemExit(str(error)) from error


def generate(broker: Broker, records: int, codec: Literal["gzip", "snappy", "lz4", "zstd"] | None) -> None:
    """Fill the topic, a chunk of events to a partition at a time."""
    for number, first in enumerate(range(0, records, CHUNK)):
        events = [
            (f"{event % 100_000:08}", f'{{"id":{event},"user":"user-{event % 1_000}","amount":{event % 9_973 / 100}}}')
            for event in range(first, min(first + CHUNK, records))
        ]
        broker.append(TOPIC, events, partition=number % data.PARTITIONS, compression=codec)


def show(bootstrap: str, records: int, codec: str) -> int:
    """Read the topic in three ways."""
    print(f"topic {TOPIC!r} on {bootstrap}: {data.PARTITIONS} partitions, {codec}\n")
    first = show_batches(bootstrap)
    show_frame(first)
    return show_table(bootstrap, records)


def show_batches(bootstrap: str) -> monedula.Batch:
    """A consumer, and the first batches that it hands out."""
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    first: monedula.Batch | None = None
    with monedula.Consumer(settings) as consumer:
        consumer.assign(TOPIC)
        for number, batch in enumerate(consumer.batches(max_rows=100_000, timeout=TIMEOUT_SECONDS), start=1):
            print(batch)
            first = first or batch
            if number == BATCHES_SHOWN:
                break
    if first is None:
        raise SystemExit(f"nothing came within {TIMEOUT_SECONDS} s")
    return first


def show_frame(batch: monedula.Batch) -> None:
    """A batch as polars sees it, its JSON values as columns of their own."""
    frame = polars.DataFrame(batch)
    print(f"\nthe first of them in polars:\n{frame.head(ROWS_SHOWN)}")
    values = [json.loads(value) for value in frame["value"].head(ROWS_SHOWN)]
    print(f"\nand its values:\n{polars.DataFrame(values)}")


def show_table(bootstrap: str, records: int) -> int:
    """The whole topic as one pyarrow table, and how long that took."""
    started = time.perf_counter()
    table = pyarrow.table(monedula.read({"bootstrap.servers": bootstrap}, TOPIC))
    seconds = time.perf_counter() - started
    print(f"\npyarrow.table(monedula.read(...)): {table.num_rows:,} rows, {table.nbytes / 1e6:,.0f} MB of columns")
    print(f"in {seconds:.2f} s, connecting included: {table.num_rows / seconds:,.0f} records/s")
    if table.num_rows != records:
        print(f"WRONG: {records:,} records were written", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

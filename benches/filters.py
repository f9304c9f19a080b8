"""Bytes and time that queries of one hour, and of one key, take of a topic of a day, beside reading all of it.

The topic is on a real Kafka of one node, or with `--on embedded` on the embedded broker. A relay between client and
broker counts the bytes of all answers to Fetch requests. The last column is the CPU time of the thread that reads,
which decodes.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import monedula
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `python benches/filters.py` works as well

from tests.kafka import KafkaCluster
from tests.relay import Relay

FETCH = 1
PARTITIONS = 4
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
BATCH_ROWS = 500
KEYS = 997
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ORDER = monedula.Json("order string, customer string, city string, amount bigint, note string")


def main() -> None:
    """Fill the topic, run each query, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--on", choices=("kafka", "embedded"), default="kafka")
    options = parser.parse_args()
    with _broker(options.on) as bootstrap:
        now = datetime.now(UTC)
        _fill({"bootstrap.servers": bootstrap}, options.records, now)
        print(f"{options.records:,} records of a day in {PARTITIONS} partitions, on {options.on}\n")
        print("| query | rows | fetched MB | of all | seconds | of the thread |\n|---|---:|---:|---:|---:|---:|")
        whole = 0
        for name, query in _queries(now).items():
            with Relay(bootstrap) as relay:
                started, thread_started = time.perf_counter(), time.thread_time()
                rows = query({"bootstrap.servers": relay.bootstrap_servers})
                seconds, thread = time.perf_counter() - started, time.thread_time() - thread_started
                fetched = relay.answered_bytes(FETCH)
            whole = whole or fetched
            share = f"1/{whole / max(fetched, 1):.1f}"
            print(f"| {name} | {rows:,} | {fetched / 1e6:.2f} | {share} | {seconds:.2f} | {thread:.2f} |")


def _queries(now: datetime) -> dict[str, Callable[[dict[str, Any]], int]]:
    since = now - HOUR
    midday = [("timestamp", ">=", now - 13 * HOUR), ("timestamp", "<", now - 12 * HOUR)]
    last = ("timestamp", ">=", since)
    key, header = ("key", "=", "customer-7"), ("headers.source", "=", "web")
    return {
        "all of it, `read`": lambda settings: _rows(monedula.read(settings, "day")),
        "the last hour, `read(where=...)`": lambda settings: _rows(monedula.read(settings, "day", where=last)),
        "the last hour, `scan`": lambda settings: (
            monedula.scan(settings, "day").filter(pl.col("timestamp") >= since).collect().height
        ),
        "the last hour, `scan`, two columns": lambda settings: (
            monedula.scan(settings, "day")
            .filter(pl.col("timestamp") >= since)
            .select("offset", "value")
            .collect(engine="streaming")
            .height
        ),
        "the last hour, DuckDB": lambda settings: _sql(settings, "timestamp > now() - INTERVAL 1 HOUR"),
        "the last hour of a partition, DuckDB": lambda settings: _sql(
            settings, "timestamp > now() - INTERVAL 1 HOUR AND partition = 1"
        ),
        "the last hour, pyarrow": lambda settings: (
            monedula.dataset(settings, "day").to_table(filter=pc.field("timestamp") >= since).num_rows
        ),
        "an hour twelve hours ago, `read`": lambda settings: _rows(monedula.read(settings, "day", where=midday)),
        "an hour twelve hours ago, `max_lateness=60`": lambda settings: _rows(
            monedula.read(settings, "day", where=midday, max_lateness=60)
        ),
        "all of it, decoded": lambda settings: _rows(monedula.read(settings, "day", value=ORDER)),
        "one key, decoded": lambda settings: _rows(monedula.read(settings, "day", value=ORDER, where=key)),
        "one header, decoded": lambda settings: _rows(monedula.read(settings, "day", value=ORDER, where=header)),
        "one key, `read`": lambda settings: _rows(monedula.read(settings, "day", where=key)),
        "one key, `scan`": lambda settings: (
            monedula.scan(settings, "day").filter(pl.col("key") == b"customer-7").collect().height
        ),
        "`scan(...).head(10)`": lambda settings: monedula.scan(settings, "day").head(10).collect().height,
    }


def _rows(stream: monedula.RecordStream) -> int:
    return sum(batch.num_rows for batch in stream)


def _sql(settings: dict[str, Any], condition: str) -> int:
    with duckdb.connect() as connection:
        connection.register("day", monedula.dataset(settings, "day"))
        (row,) = connection.sql(f"SELECT count(value) FROM day WHERE {condition}").fetchall()
        return int(row[0])


def _fill(settings: dict[str, Any], records: int, now: datetime) -> None:
    with monedula.Admin(settings) as admin:
        admin.create_topics("day", partitions=PARTITIONS, replication_factor=1, configs={"retention.ms": -1})
    first_ms = int((now - DAY).timestamp() * 1000)
    step_ms = DAY.total_seconds() * 1000 / (records / PARTITIONS)
    with monedula.Producer(settings) as producer:
        for start in range(0, records // PARTITIONS, BATCH_ROWS):
            times = [first_ms + int(step_ms * number) for number in range(start, start + BATCH_ROWS)]
            values = [f'{{"order": "{number:09}", "customer": "{number % KEYS:05}", "city": "Praha", "amount": {number % 9999}, "note": "{"x" * 30}"}}' for number in range(start, start + BATCH_ROWS)]  # fmt: skip  # noqa: E501
            sources = [b"app" if number % 100 else b"web" for number in range(start, start + BATCH_ROWS)]
            for partition in range(PARTITIONS):
                columns = {
                    "key": pa.array([f"customer-{number % KEYS}" for number in range(start, start + BATCH_ROWS)]),
                    "headers": pa.array([[("source", source)] for source in sources], HEADERS),
                    "value": pa.array(values, pa.string()),
                    "partition": pa.array([partition] * BATCH_ROWS, pa.int32()),
                    "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
                }
                producer.send_batch(pa.table(columns), "day")
        producer.flush(120.0)


@contextmanager
def _broker(on: str) -> Iterator[str]:
    if on == "embedded":
        from monedula.testing import Broker

        with Broker() as broker:
            yield broker.bootstrap_servers
    else:
        with KafkaCluster() as kafka:
            yield kafka.bootstrap


if __name__ == "__main__":
    main()

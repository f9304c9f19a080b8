"""What is compared: each arm lands a whole topic in a new table, in a process of its own.

`python -m benches.landing.arms ARM FORMAT BOOTSTRAP TOPIC RECORDS PATH` prints seconds and rows as JSON.
"""

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from benches.landing.orders import EVERY_SECONDS, NAME, SCHEMA, catalog_of, count, target

CHUNK = 10_000
FLUSH_ROWS = 1_000_000
WARMING_ROWS = 10_000


def monedula(form: str, bootstrap: str, topic: str, records: int, path: Path) -> float:  # noqa: ARG001
    """Ours, as it comes."""
    import monedula

    table = target(form, path)
    table._table("imports")
    began = time.perf_counter()
    options: Any = {"value": monedula.Json(SCHEMA), "until": "latest", "every": EVERY_SECONDS}
    monedula.land({"bootstrap.servers": bootstrap}, topic, table, **options)
    return time.perf_counter() - began


def floor(form: str, bootstrap: str, topic: str, records: int, path: Path) -> float:  # noqa: ARG001
    """Ready-made rows, which are in memory, through the Parquet writer of landing jobs, and one commit."""
    import monedula
    from monedula.landing import LandingJob
    from monedula.landing.commits import PendingCommit

    settings, value = {"bootstrap.servers": bootstrap}, monedula.Json(SCHEMA)
    job = LandingJob(settings, topic, target(form, path), value=value, until="latest")
    table = job._table
    table.prepare(job.schema)
    table.topic_ids(job._consumer.topic_ids([topic]))
    names = ["key", "value", "topic", "partition", "offset", "timestamp"]
    with monedula.read(settings, topic, columns=names, value=value, max_rows=100_000, max_bytes=16 << 20) as stream:
        ends = {partition: (None, end) for partition, (_, end) in dict(stream.ranges).items()}
        ready_made = [job._columns.rows(batch) for batch in stream]
    began = time.perf_counter()
    files = table.files(64 << 20)
    for rows in ready_made:
        table.write(files, rows)
    assert table.commit(PendingCommit(files.finish(), ends))
    return time.perf_counter() - began


def confluent(form: str, bootstrap: str, topic: str, records: int, path: Path) -> float:
    """confluent-kafka, polars, and an append to the table every million rows; then the offsets, at least once."""
    import polars as pl
    from confluent_kafka import Consumer

    fields: Any = pl.DataFrame(SCHEMA.empty_table()).schema
    append = _append_to(form, path)

    def framed(messages: list[Any]) -> Any:
        lines = b"\n".join([message.value() for message in messages])
        origin = pl.DataFrame(
            {
                "topic": [message.topic() for message in messages],
                "partition": pl.Series([message.partition() for message in messages], dtype=pl.Int32),
                "offset": [message.offset() for message in messages],
                "timestamp": pl.Series([message.timestamp()[1] * 1000 for message in messages]).cast(
                    pl.Datetime("us", "UTC")
                ),
            }
        )
        key = pl.Series("key", [message.key() for message in messages], dtype=pl.Binary)
        return pl.read_ndjson(io.BytesIO(lines), schema=fields).with_columns(key, origin.to_struct("_kafka"))

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    frames: list[Any] = []
    seen = waiting = 0
    began = time.perf_counter()
    consumer.subscribe([topic])
    while seen < records:
        messages = consumer.consume(CHUNK, 1.0)
        if messages:
            frames.append(framed(messages))
        seen, waiting = seen + len(messages), waiting + len(messages)
        if waiting >= FLUSH_ROWS or (waiting and seen >= records):
            append(pl.concat(frames).to_arrow(compat_level=pl.CompatLevel.oldest()))
            consumer.commit(asynchronous=False)
            frames, waiting = [], 0
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


def _append_to(form: str, path: Path) -> Callable[[Any], None]:
    if form == "delta":
        from deltalake import WriterProperties, write_deltalake

        properties = WriterProperties(compression="ZSTD")
        return lambda rows: write_deltalake(path, rows, mode="append", writer_properties=properties)
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("default", **catalog_of(path))
    catalog.create_namespace_if_not_exists(NAME.partition(".")[0])
    return lambda rows: catalog.create_table_if_not_exists(NAME, schema=rows.schema).append(rows)


def spark(form: str, bootstrap: str, topic: str, records: int, path: Path) -> float:  # noqa: ARG001
    """Spark structured streaming with its own Kafka source, `from_json` and Delta's own sink, on `local[2]`.

    Its JVM is up, and has read and written a few rows.
    """
    from tests.kafka import jars
    from tests.spark._support import session

    if form != "delta":
        raise SystemExit("spark: there is no Iceberg runtime of this version of Spark")
    conf = {
        "spark.driver.memory": "4g",
        "spark.jars": ",".join(map(str, (*jars.spark_connector(), *jars.delta()))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    fields = "user BIGINT, event STRING, cents INT, item INT, `from` STRING, at BIGINT, ok BOOLEAN"
    origin = "struct(topic, partition, offset, timestamp) AS _kafka"
    columns = ["value.*", "key", "_kafka"]
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}

    def rows(reader: Any) -> Any:
        read = reader.format("kafka").options(**options).load()
        decoded = read.selectExpr(f"from_json(cast(value AS STRING), '{fields}') AS value", "key", origin)
        return decoded.select(*columns)

    folder = path.with_name(f"{path.name}-spark")
    with session.running(folder, conf=conf, fast_start=False) as started:
        rows(started.read).limit(WARMING_ROWS).write.format("delta").save(str(folder / "warm"))
        began = time.perf_counter()
        writer = rows(started.readStream).writeStream.format("delta").option("checkpointLocation", str(folder / "c"))
        writer.trigger(availableNow=True).start(str(path)).awaitTermination()
        return time.perf_counter() - began


ARMS: dict[str, Callable[[str, str, str, int, Path], float]] = {
    "monedula": monedula,
    "floor": floor,
    "confluent": confluent,
    "spark": spark,
}
OF_FORMAT = {"delta": list(ARMS), "iceberg": ["monedula", "floor", "confluent"]}
"""The arms of each format: there is no Iceberg runtime for this version of Spark."""


def main() -> None:
    """Run one arm."""
    name, form, bootstrap, topic, records, path = sys.argv[1:]
    seconds = ARMS[name](form, bootstrap, topic, int(records), Path(path))
    print(json.dumps({"seconds": seconds, "rows": count(form, Path(path))}))


if __name__ == "__main__":
    main()

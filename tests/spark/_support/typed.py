"""Topics with values of a format, which the source reads into typed columns."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import monedula

from tests.consumer.schema_registry import Registry
from tests.kafka import KafkaCluster
from tests.spark._support.sources import OURS, options_for
from tests.spark._support.streams import MicroBatch, committed_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SUBJECT = "orders/value"
"""The subject of the reader's schema, unless a test names another one."""


def send(kafka: KafkaCluster, name: str, values: Iterable[tuple[int, bytes | None]]) -> None:
    """Write values, each to its partition."""
    with monedula.Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
        for partition, value in values:
            producer.send(name, value, partition=partition)


def with_registry(kafka: KafkaCluster, name: str, registry: Registry, format_: str, **more: Any) -> dict[str, str]:
    """The options of a query whose reader's schema is that of a subject; a user and a password are in the URL."""
    return {
        **options_for(kafka, subscribe=name, value_format=format_, **{"value_subject": SUBJECT, **more}),
        "kafka.schema.registry.url": registry.url.replace("://", "://me:hush@"),
        "kafka.schema.registry.retries.wait.ms": "1",
    }


def typed(spark: "SparkSession", options: dict[str, str], schema: str | None = None) -> "DataFrame":
    """A batch of our source, with the fields that are named."""
    reader = spark.read.format(OURS).options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def rows(frame: "DataFrame") -> "list[Row]":
    """Partition, offset and value, in the order of the first two."""
    return sorted(frame.select("partition", "offset", "value").collect(), key=lambda row: row[:2])


def once(first: list[MicroBatch], second: list[MicroBatch], checkpoint: Path) -> list[tuple[Any, ...]]:
    """The rows of a stream that was started twice, sorted; a batch that ran twice had the same rows twice."""
    by_id = {batch.batch_id: batch.rows for batch in (*first, *second)}
    assert sorted(by_id) == committed_batches(checkpoint)
    for batch in first:
        again = next((each for each in second if each.batch_id == batch.batch_id), batch)
        assert sorted(again.rows) == sorted(batch.rows)
    return sorted(tuple(row) for batch in by_id.values() for row in batch)

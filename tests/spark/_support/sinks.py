"""Rows written by Spark's own Kafka sink and by ours, and what is in the topics then."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.kafka import KafkaCluster
from tests.spark._support.sources import options_for, same_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
"""Partition, key, value and headers."""


def to(kafka: KafkaCluster, topic: str | None = None, **options: Any) -> dict[str, str]:
    """Options that write; `kafka_acks` is `kafka.acks`."""
    return options_for(kafka, **({} if topic is None else {"topic": topic}), **options)


def write(frame: "DataFrame", sink: str, options: Mapping[str, str]) -> None:
    """Write a batch by one of the sinks."""
    frame.write.format(sink).options(**options).mode("append").save()


def rows_in(spark: "SparkSession", kafka: KafkaCluster, topic: str) -> "list[Row]":
    """What both sources read in a topic: the same."""
    return same_rows(spark, options_for(kafka, subscribe=topic, includeHeaders="true"))


def records_in(spark: "SparkSession", kafka: KafkaCluster, topic: str) -> list[Record]:
    """The same without offsets and times, in one order whoever wrote them: tasks run side by side."""
    records = [
        (row.partition, _bytes(row.key), _bytes(row.value), row.headers and [_header(each) for each in row.headers])
        for row in rows_in(spark, kafka, topic)
    ]
    return sorted(records, key=repr)


def values_in(spark: "SparkSession", kafka: KafkaCluster, topic: str) -> list[str]:
    """The values of a topic, sorted."""
    return sorted(row.value.decode() for row in rows_in(spark, kafka, topic))


def _header(header: "Row") -> tuple[str, bytes | None]:
    return header.key, _bytes(header.value)


def _bytes(data: bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)

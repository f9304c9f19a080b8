"""One topic read by Spark's own Kafka source and by ours."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.kafka import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

JVM, OURS = "kafka", "monedula"
SOURCES = (JVM, OURS)


def options_for(kafka: KafkaCluster, **options: Any) -> dict[str, str]:
    """Options by Spark's names; `kafka_isolation_level` is `kafka.isolation.level`."""
    dotted = {name.replace("_", "."): str(value) for name, value in options.items()}
    return {"kafka.bootstrap.servers": kafka.bootstrap, **dotted}


def load(spark: "SparkSession", source: str, options: Mapping[str, str]) -> "DataFrame":
    """A batch of one of the sources."""
    return spark.read.format(source).options(**options).load()


def rows_of(frame: "DataFrame") -> "list[Row]":
    """All rows, in the order of the topics, their partitions and their offsets."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def same_rows(spark: "SparkSession", options: Mapping[str, str]) -> "list[Row]":
    """The rows that our source reads, which are those that Spark's own reads."""
    jvm, ours = (rows_of(load(spark, source, options)) for source in SOURCES)
    assert ours == jvm
    return ours

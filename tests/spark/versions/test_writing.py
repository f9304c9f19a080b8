"""The sink, batch and streaming, on whichever Spark this is. Rows come as Arrow; to streams of Spark 4.0 one by one."""

from pathlib import Path

import pytest
from monedula.spark.sink.sink import TAKES_ARROW
from pyspark import __version__
from pyspark.sql import DataFrame, Row, SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support.streams import QUERY_TIMEOUT_SECONDS
from tests.spark.versions.conftest import produce

HEADERS = (
    "IF(CAST(partition AS INT) = 0, array(named_struct('key', 'h', 'value', CAST('1' AS BINARY))), NULL) AS headers"
)

# For the Spark that the other tests use, they prove the same.
pytestmark = pytest.mark.thorough


def rows_in(spark: SparkSession, kafka: KafkaCluster, topic: str) -> list[Row]:
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "includeHeaders": "true"}
    frame = spark.read.format("monedula").options(**options).load()
    rows: list[Row] = frame.selectExpr("partition", "CAST(key AS STRING)", "CAST(value AS STRING)", "headers").collect()
    return rows


def whole(rows: list[Row]) -> list[tuple[int, str, str, list[tuple[str, bytes]]]]:
    return sorted(
        (row.partition, row.key, row.value, [(each.key, bytes(each.value)) for each in row.headers or []])
        for row in rows
    )


EXPECTED = sorted((n % 2, f"k{n}", f"v{n}", [] if n % 2 else [("h", b"1")]) for n in range(10))


def of_orders(frame: DataFrame) -> DataFrame:
    # The sink does not send this column, and knows no type of Python or Arrow for it.
    return frame.selectExpr("timestamp", "CAST(key AS STRING) AS key", "value", "partition", HEADERS)


def test_a_batch_is_written(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, orders: dict[str, str]
) -> None:
    name = topic(2)
    frame = of_orders(spark.read.format("monedula").options(**orders).load())
    servers = {"kafka.bootstrap.servers": kafka.bootstrap}
    frame.write.format("monedula").options(**servers, topic=name).mode("append").save()
    assert whole(rows_in(spark, kafka, name)) == EXPECTED


def test_a_stream_is_written(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, orders: dict[str, str], checkpoint: Path
) -> None:
    name = topic(2)
    frame = of_orders(spark.readStream.format("monedula").options(**orders, startingOffsets="earliest").load())
    servers = {"kafka.bootstrap.servers": kafka.bootstrap}
    for numbers in (range(10), range(10, 12)):
        if numbers.start:
            produce(kafka, orders["subscribe"], numbers)
        writer = frame.writeStream.format("monedula").options(**servers, topic=name)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_TIMEOUT_SECONDS), query.status
        if not numbers.start:
            assert whole(rows_in(spark, kafka, name)) == EXPECTED
    assert sorted(row.value for row in rows_in(spark, kafka, name)) == sorted(f"v{n}" for n in range(12))


def test_streams_come_as_arrow_from_spark_4_1_on() -> None:
    assert (tuple(map(int, __version__.split(".")[:2])) >= (4, 1)) == TAKES_ARROW

"""Batch queries, on whichever Spark this is."""

from datetime import datetime

import monedula.spark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

SCHEMA = [
    "key binary",
    "value binary",
    "topic string",
    "partition int",
    "offset bigint",
    "timestamp timestamp",
    "timestampType int",
]
NOWHERE = {"kafka.bootstrap.servers": "localhost:1"}
HEADERS = "headers array<struct<key:string,value:binary>>"

# For the Spark that the other tests use, they prove the same.
pytestmark = pytest.mark.thorough


def test_the_format_is_known_without_registration(spark: SparkSession, orders: dict[str, str]) -> None:
    assert spark.read.format("monedula").options(**orders).load().count() == 10


def test_a_session_can_be_told_of_the_format(spark: SparkSession, orders: dict[str, str]) -> None:
    session = spark.newSession()
    monedula.spark.register(session)
    assert session.read.format("monedula").options(**orders).load().count() == 10


def test_rows_are_whole(spark: SparkSession, orders: dict[str, str]) -> None:
    frame = spark.read.format("monedula").options(**orders).load()
    assert [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema] == SCHEMA
    assert all(field.nullable for field in frame.schema)
    rows = frame.orderBy("timestamp").collect()
    assert [tuple(row) for row in rows] == [
        (
            bytearray(f"k{number}".encode()),
            bytearray(f"v{number}".encode()),
            orders["subscribe"],
            number % 2,
            number // 2,
            datetime.fromtimestamp(1_700_000_000 + number / 1000),
            0,
        )
        for number in range(10)
    ]


def test_headers_come_when_asked_for(spark: SparkSession, orders: dict[str, str]) -> None:
    frame = spark.read.format("monedula").options(**orders, includeHeaders="true").load()
    assert [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema] == [*SCHEMA, HEADERS]
    first, *others = frame.orderBy("timestamp").select("headers").collect()
    assert [(header.key, header.value) for header in first.headers] == [("h", bytearray(b"1")), ("h", None)]
    assert [row.headers for row in others] == [None] * 9


def test_a_schema_projects_columns_in_its_order(spark: SparkSession, orders: dict[str, str]) -> None:
    frame = spark.read.format("monedula").options(**orders).schema("offset bigint, value binary").load()
    assert frame.columns == ["offset", "value"]
    rows = sorted((row.offset, bytes(row.value)) for row in frame.collect())
    assert rows == sorted((number // 2, f"v{number}".encode()) for number in range(10))


def test_an_option_projects_columns_in_the_order_of_the_source(spark: SparkSession, orders: dict[str, str]) -> None:
    frame = spark.read.format("monedula").options(**orders, columns="offset,value").load()
    assert frame.columns == ["value", "offset"]
    assert sorted(bytes(row.value) for row in frame.collect()) == [f"v{number}".encode() for number in range(10)]


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters_select_rows_whether_they_are_passed_on_or_not(
    spark: SparkSession, orders: dict[str, str], pushed: str
) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"  # Spark 4.0 does not know it
    spark.conf.set(setting, pushed)
    try:
        frame = spark.read.format("monedula").options(**orders).load()
        since = "timestamp_millis(1700000000004)"
        rows = frame.filter(f"partition = 1 and offset < 4 and timestamp >= {since}").orderBy("offset").collect()
    finally:
        spark.conf.unset(setting)
    assert [bytes(row.value) for row in rows] == [b"v5", b"v7"]


def test_rows_are_counted(spark: SparkSession, orders: dict[str, str]) -> None:
    frame = spark.read.format("monedula").options(**orders).load()
    assert tuple(frame.selectExpr("count(*)", "sum(offset)").first()) == (10, 20)


def test_min_partitions_splits_ranges(spark: SparkSession, orders: dict[str, str]) -> None:
    frame = spark.read.format("monedula").options(**orders, minPartitions="5").load()
    rows = frame.select("partition", "offset", spark_partition_id().alias("task")).collect()
    assert len({row.task for row in rows}) >= 5
    assert sorted((row.partition, row.offset) for row in rows) == [(p, n) for p in range(2) for n in range(5)]


def test_a_range_without_records_has_no_rows(spark: SparkSession, orders: dict[str, str]) -> None:
    name = orders["subscribe"]
    bounds = f'{{"{name}": {{"0": 3, "1": 5}}}}'
    frame = spark.read.format("monedula").options(**orders, startingOffsets=bounds, endingOffsets=bounds).load()
    assert frame.collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "localhost:1"}, "subscribe"),
        ({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "minPartitions": "0"}, "minPartitions"),
        (
            {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "kafka.auto.offset.reset": "x"},
            "startingoffsets",
        ),
    ],
)
def test_wrong_options_are_named_when_loading(spark: SparkSession, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=rf"(?s)ConfigError.*{message}"):
        spark.read.format("monedula").options(**options).load()


def test_a_wrong_schema_is_explained(spark: SparkSession, orders: dict[str, str]) -> None:
    with pytest.raises(Exception, match="column 'value' is binary, not string"):
        spark.read.format("monedula").options(**orders).schema("value string").load().collect()


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, orders: dict[str, str]) -> None:
    wrong = {**orders, "subscribe": "no-such-topic", "fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(Exception, match=r"(?s)UnknownTopicError.*no-such-topic"):
        spark.read.format("monedula").options(**wrong).load().collect()

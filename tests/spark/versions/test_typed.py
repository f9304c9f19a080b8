"""Typed columns and filters, on whichever Spark this is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.spark._support.streams import run_stream

pytestmark = pytest.mark.thorough

HAS_PUSHDOWN = tuple(map(int, __version__.split(".")[:2])) >= (4, 1)
ENABLED = "spark.sql.python.filterPushdown.enabled"
SCHEMA = "offset bigint, value struct<id: bigint, user: string, items: array<struct<n: int>>>, partition int"

Fill = Callable[[range], None]


def document(number: int) -> str:
    items = ",".join(f'{{"n":{n}}}' for n in range(number % 3))
    return f'{{"id":{number},"user":"ü{number}","items":[{items}],"more":{{}}}}'


@pytest.fixture
def name(topic: TopicFactory) -> str:
    """A topic of two partitions."""
    return topic(2)


@pytest.fixture
def fill(kafka: KafkaCluster, name: str) -> Fill:
    """Writes records into it, by turns."""

    def write(numbers: range) -> None:
        records: list[Record] = [{"value": document(number), "partition": number % 2} for number in numbers]
        kafka.helper.produce(name, records)

    write(range(20))
    return write


@pytest.fixture
def options(kafka: KafkaCluster, name: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "value.format": "json"}


def values(rows: Any) -> list[Any]:
    found = [(row.value.id, row.value.user, [item.n for item in row.value["items"]]) for row in rows]
    return sorted(found)


def expected(numbers: range) -> list[Any]:
    return [(number, f"ü{number}", list(range(number % 3))) for number in numbers]


@pytest.mark.usefixtures("fill")
def test_a_batch_query_has_typed_columns(spark: SparkSession, options: dict[str, str]) -> None:
    reader = spark.read.format("monedula").options(**options)
    assert values(reader.schema(SCHEMA).load().collect()) == expected(range(20))
    flat = reader.option("value.flatten", "true").schema("user string, offset bigint").load()
    assert flat.columns == ["user", "offset"]
    assert {row.user for row in flat.collect()} == {f"ü{number}" for number in range(20)}


def test_a_stream_has_typed_columns_and_goes_on_from_the_checkpoint(
    spark: SparkSession, options: dict[str, str], fill: Fill, checkpoint: Path
) -> None:
    frame = spark.readStream.format("monedula").options(**options, startingOffsets="earliest").schema(SCHEMA).load()
    first = run_stream(frame, checkpoint, frame.columns)
    assert values(row for batch in first for row in batch.rows) == expected(range(20))
    fill(range(20, 31))
    second = run_stream(frame, checkpoint, frame.columns)
    assert values(row for batch in second for row in batch.rows) == expected(range(20, 31))


@pytest.mark.usefixtures("fill")
def test_bad_values_are_null_dropped_or_an_error(
    spark: SparkSession, kafka: KafkaCluster, name: str, options: dict[str, str]
) -> None:
    kafka.helper.produce(name, [{"value": '{"id": "x", "user": "kept"}', "partition": 0}])
    reader = spark.read.format("monedula").options(**options)
    fields = "value struct<id: bigint, user: string, _corrupt_record: string>"
    (bad,) = reader.schema(fields).load().filter("value._corrupt_record is not null").collect()
    assert (bad.value.id, bad.value.user) == (None, "kept")
    assert reader.option("value.mode", "DROPMALFORMED").schema(fields).load().count() == 20
    with pytest.raises(PySparkException, match=r"at offset 10: .*: id: .*The option value\.mode is FAILFAST"):
        reader.option("value.mode", "FAILFAST").schema(fields).load().collect()


@pytest.mark.usefixtures("fill")
@pytest.mark.parametrize("enabled", [False, True])
def test_filters_and_typed_columns_go_together(spark: SparkSession, options: dict[str, str], enabled: bool) -> None:
    if HAS_PUSHDOWN:
        spark.conf.set(ENABLED, str(enabled).lower())
    try:
        frame = spark.read.format("monedula").options(**options).schema(SCHEMA).load()
        found = frame.filter("partition = 1 and offset >= 4 and value.id < 17")
        assert values(found.collect()) == [each for each in expected(range(9, 17)) if each[0] % 2]
        assert frame.filter("offset in (0, 9)").count() == 4
        assert frame.filter("partition = 7").count() == 0
    finally:
        if HAS_PUSHDOWN:
            spark.conf.unset(ENABLED)

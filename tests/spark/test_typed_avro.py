"""Avro values as typed columns of the source: what Spark's own source has with `from_avro`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.conftest import TopicFactory
from tests.consumer.avro_values import field, record, written
from tests.consumer.schema_registry import Registry
from tests.consumer.test_schema_registry import framed
from tests.kafka import KafkaCluster
from tests.spark._support.sources import JVM, OURS, load, options_for
from tests.spark._support.streams import forget_commits, run_stream
from tests.spark._support.typed import SUBJECT, once, rows, send, typed, with_registry

ITEM = record(field("n", "int"), field("day", {"type": "int", "logicalType": "date"}), name="Item")
ORDER: dict[str, Any] = record(
    field("id", "long"),
    field("user", ["null", "string"], default=None),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}),
    field("clock", {"type": "long", "logicalType": "local-timestamp-millis"}),
    field("time", {"type": "int", "logicalType": "time-millis"}),
    field("items", {"type": "array", "items": ITEM}),
    field("first", ["null", "Item"], default=None),
    field("either", ["int", "string"]),
    name="Order",
)
NEWER: dict[str, Any] = {**ORDER, "fields": [*ORDER["fields"], field("amount", "double", default=1.5)]}


def order(number: int, **more: Any) -> dict[str, Any]:
    items = [{"n": n, "day": n} for n in range(number % 3)]
    return {
        "id": number,
        "user": None if number % 5 == 0 else f"ü{number}",
        "at": 1_700_000_000_000_000 + number,
        "clock": 1_700_000_000_000 + number,
        "time": number,
        "items": items,
        "first": items[0] if items else None,
        "either": number if number % 2 else str(number),
        **more,
    }


@pytest.fixture
def filled(kafka: KafkaCluster, topic: TopicFactory, registry: Registry) -> str:
    """A topic of two partitions with 40 orders, whose schema is version 1 of a subject."""
    name = topic(2)
    produce(kafka, name, registry, ORDER, range(40))
    return name


def produce(kafka: KafkaCluster, name: str, registry: Registry, schema: Any, numbers: range, **more: Any) -> None:
    number = registry.avro(SUBJECT, schema)
    send(kafka, name, [(n % 2, framed(number, schema, order(n, **more))) for n in numbers])


def options(kafka: KafkaCluster, name: str, registry: Registry, **more: Any) -> dict[str, str]:
    return with_registry(kafka, name, registry, "avro", **more)


def by_spark(
    spark: SparkSession, kafka: KafkaCluster, name: str, schema: Any, skipped: int = 5, **more: str
) -> DataFrame:
    from pyspark.sql.avro.functions import from_avro

    frame = load(spark, JVM, options_for(kafka, subscribe=name))
    bare = f.expr(f"substring(value, {skipped + 1})")
    return frame.withColumn("value", from_avro(bare, json.dumps(schema), more))


def nullable(frame: DataFrame) -> str:
    return str(frame.schema["value"].dataType.simpleString())


def test_values_and_types_are_those_of_from_avro(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    ours, theirs = typed(spark, options(kafka, filled, registry)), by_spark(spark, kafka, filled, ORDER)
    assert nullable(ours) == nullable(theirs)
    assert rows(ours) == rows(theirs)
    assert "/subjects/orders%2Fvalue/versions/latest" in registry.asked


def test_a_schema_of_bare_values_needs_no_registry(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(1)
    send(kafka, name, [(0, written(ORDER, order(n))) for n in range(3)])
    given = options_for(kafka, subscribe=name, value_format="avro", value_schema=json.dumps(ORDER))
    assert rows(typed(spark, given)) == rows(by_spark(spark, kafka, name, ORDER, skipped=0))


def test_a_query_may_ask_for_some_fields_in_any_order(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    # The type of `first` is defined in a field that is left out.
    fields = "first: struct<day: date>, id: bigint"
    frame = typed(spark, options(kafka, filled, registry), f"offset bigint, value struct<{fields}>, partition int")
    theirs = by_spark(spark, kafka, filled, ORDER).selectExpr(
        "partition",
        "offset",
        "if(value is null, null, struct(if(value.first is null, null, "
        "struct(value.first.day as day)) as first, value.id as id)) as value",
    )
    assert rows(frame) == rows(theirs)
    both = "items: array<struct<n: int>>, first: struct<day: date, n: int>"
    frame = typed(spark, options(kafka, filled, registry), f"value struct<{both}>")
    assert sorted(row.value for row in frame.filter("value.first.n = 0 and size(value.items) = 1").collect())


def test_flattened_fields_are_columns(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    given = options(kafka, filled, registry, value_flatten="true")
    frame = typed(spark, given)
    assert frame.columns[:3] == ["key", "id", "user"]
    assert sorted(row.id for row in frame.select("id").collect()) == [*range(40)]
    assert typed(spark, given, "user string, offset bigint").columns == ["user", "offset"]


def test_bad_records_fail_the_query_are_null_or_are_dropped(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    send(kafka, filled, [(0, b"\x00\x00\x00\x00\x63x"), (1, None)])
    counted = {
        mode: typed(spark, options(kafka, filled, registry, value_mode=mode), "value struct<id: bigint>")
        for mode in ("PERMISSIVE", "DROPMALFORMED")
    }
    assert (counted["PERMISSIVE"].count(), counted["DROPMALFORMED"].count()) == (42, 41)
    assert counted["PERMISSIVE"].filter("value.id is null").count() == 2
    with pytest.raises(
        PySparkException, match=r"at offset 20: .*schema id 99.* The option value\.mode is FAILFAST"
    ) as raised:
        typed(spark, options(kafka, filled, registry)).collect()
    assert "CorruptRecord" not in str(raised.value)


def test_a_registry_that_fails_is_told_and_its_password_is_not(
    spark: SparkSession, kafka: KafkaCluster, filled: str, registry: Registry
) -> None:
    frame = typed(spark, options(kafka, filled, registry, kafka_schema_registry_max_retries="0"))
    registry.instead = lambda path: (500, b"{}") if "/ids/" in path else None
    with pytest.raises(PySparkException, match=r"SchemaRegistryError.*answered 500") as raised:
        frame.collect()
    assert "hush" not in str(raised.value)
    registry.instead = lambda _: (500, b"{}")
    with pytest.raises(PySparkException, match=r"latest version of subject orders/value.*answered 500") as raised:
        typed(spark, options(kafka, filled, registry, kafka_schema_registry_max_retries="0"))
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "given", "message"),
    [
        (None, {"value_schema": '"int"'}, "value.schema and value.subject say two things"),
        (None, {"value_version": "x"}, "option 'value.version' is 'x': expected the number of a version"),
        (None, {"value_columnNameOfCorruptRecord": "x"}, "is for value.format=json"),
        (None, {"value_subject": "none"}, "latest version of subject none"),
        ("value struct<x: int>", {}, "value: the Avro schema has no field 'x'"),
        ("value struct<id: int>", {}, "value.id is bigint by the Avro schema, not int"),
        ("value struct<items: array<struct<x: int>>>", {}, r"value.items\[\]: the Avro schema has no field 'x'"),
        (None, {"schema_registry_url": "http://x"}, "option 'schema.registry.url' is 'kafka.schema.registry.url' here"),
    ],
)
def test_mistakes_are_said_before_anything_is_read(
    spark: SparkSession,
    kafka: KafkaCluster,
    registry: Registry,
    schema: str | None,
    given: dict[str, str],
    message: str,
) -> None:
    registry.avro(SUBJECT, ORDER)
    with pytest.raises(PySparkException, match=message):
        typed(spark, options(kafka, "nothing", registry, **given), schema).collect()


@pytest.mark.parametrize("format_", ["read", "readStream"])
def test_a_subject_needs_a_registry(spark: SparkSession, kafka: KafkaCluster, format_: str) -> None:
    given = options_for(kafka, subscribe="x", value_format="avro", value_subject="s")
    with pytest.raises(PySparkException, match=r"option 'value\.subject': .*give kafka\.schema\.registry\.url"):
        getattr(spark, format_).format(OURS).options(**given).load()


def _stream(spark: SparkSession, given: dict[str, str]) -> DataFrame:
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    return spark.readStream.format(OURS).options(**given, **limits).load()


@pytest.mark.parametrize(
    "crash", [lambda _: None, lambda checkpoint: forget_commits(checkpoint, 1)], ids=["stop", "crash"]
)
def test_a_restarted_stream_reads_each_record_once_also_those_of_a_newer_schema(
    spark: SparkSession,
    kafka: KafkaCluster,
    filled: str,
    registry: Registry,
    checkpoint: Path,
    crash: Callable[[Path], None],
) -> None:
    columns = ("partition", "offset", "value.id")
    given = options(kafka, filled, registry)
    first = run_stream(_stream(spark, given), checkpoint, columns)
    crash(checkpoint)
    frame = _stream(spark, {**given, "value.version": "1"})
    # A schema that is registered while the query is there is read into the one that it has.
    produce(kafka, filled, registry, NEWER, range(40, 60), amount=2.5)
    assert "amount" not in frame.schema.simpleString()
    second = run_stream(frame, checkpoint, columns)
    got = once(first, second, checkpoint)
    assert got == sorted((n % 2, n // 2, n) for n in range(60))
    newest = typed(spark, given)
    assert newest.agg(f.sum("value.amount")).collect()[0][0] == 40 * 1.5 + 20 * 2.5

"""JSON values as typed columns of the source: what Spark's own source has with `from_json`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from monedula.spark.source.typed import typed_columns
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.conftest import TopicFactory
from tests.consumer.avro_values import field, record
from tests.kafka import KafkaCluster
from tests.kafka.tools import Record
from tests.spark._support.sources import JVM, OURS, load, options_for
from tests.spark._support.streams import forget_commits, run_stream
from tests.spark._support.typed import once, rows

FIELDS = "id: bigint, user: string, amount: decimal(10,2), at: timestamp, items: array<struct<n: int, t: date>>"
COUNT = 60


def document(number: int) -> str:
    items = [{"n": n, "t": f"2026-11-{n + 1:02}"} for n in range(number % 4)]
    at = f"2026-11-26T12:00:{number % 60:02}.25+01:00"
    return json.dumps({"id": number, "user": f"ü{number}", "amount": f"{number}.5", "at": at, "items": items, "x": {}})


BROKEN: list[Record] = [
    {"value": '{"id": "no number", "user": "kept"}', "partition": 0},
    {"value": "no json", "partition": 1},
    {"value": None, "partition": 0},
    {"value": '{"id": 7', "partition": 1},
]


@pytest.fixture
def filled(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """A topic of two partitions with sound records."""
    name = topic(2)
    fill(kafka, name, range(COUNT))
    return name


def fill(kafka: KafkaCluster, name: str, numbers: range) -> None:
    kafka.helper.produce(name, [{"value": document(number), "partition": number % 2} for number in numbers])


def typed(spark: SparkSession, kafka: KafkaCluster, name: str, schema: str, **options: Any) -> DataFrame:
    given = options_for(kafka, **{"subscribe": name, "value_format": "json", **options})
    return spark.read.format(OURS).options(**given).schema(schema).load()


def by_spark(spark: SparkSession, kafka: KafkaCluster, name: str, fields: str, **options: str) -> DataFrame:
    frame = load(spark, JVM, options_for(kafka, subscribe=name))
    return frame.withColumn("value", f.from_json(f.col("value").cast("string"), f"struct<{fields}>", options))


def test_values_are_those_of_from_json(spark: SparkSession, kafka: KafkaCluster, filled: str) -> None:
    kafka.helper.produce(filled, BROKEN)
    fields = f"{FIELDS}, _corrupt_record: string"
    ours = typed(spark, kafka, filled, f"offset bigint, value struct<{fields}>, partition int")
    assert ours.columns == ["offset", "value", "partition"]
    assert rows(ours) == rows(by_spark(spark, kafka, filled, fields))
    assert ours.filter("value._corrupt_record is not null").count() == 3


def test_flattened_fields_are_columns(spark: SparkSession, kafka: KafkaCluster, filled: str) -> None:
    frame = typed(spark, kafka, filled, "user string, offset bigint, id bigint", value_flatten="true")
    assert frame.columns == ["user", "offset", "id"]
    assert sorted(tuple(row[::2]) for row in frame.collect()) == sorted((f"ü{n}", n) for n in range(COUNT))


SESSION_TIME_ZONE = "spark.sql.session.timeZone"
WITHOUT_ZONE = "at: timestamp, clock: timestamp_ntz, day: date"


@pytest.fixture
def without_zone(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> Iterator[str]:
    """A topic of times without a zone, in summer and in winter. Puts the session's zone back."""
    name, zone = topic(1), spark.conf.get(SESSION_TIME_ZONE)
    times = ("2026-07-01 12:00:00", "2026-12-01T12:00:00.5", "2026-07-01T12:00:00+05:00")
    texts = [json.dumps({"at": at, "clock": at[:19], "day": at[:10]}) for at in times]
    kafka.helper.produce(name, [{"value": text, "partition": 0} for text in texts])
    yield name
    spark.conf.set(SESSION_TIME_ZONE, zone)


@pytest.mark.parametrize("zone", ["Europe/Prague", "-03:30", "UTC"])
def test_times_without_a_zone_are_in_that_of_the_session(
    spark: SparkSession, kafka: KafkaCluster, without_zone: str, zone: str
) -> None:
    schema = f"offset bigint, value struct<{WITHOUT_ZONE}>, partition int"
    spark.conf.set(SESSION_TIME_ZONE, zone)
    theirs = rows(by_spark(spark, kafka, without_zone, WITHOUT_ZONE))
    assert all(None not in tuple(row.value) for row in theirs)
    assert rows(typed(spark, kafka, without_zone, schema)) == theirs
    theirs = rows(by_spark(spark, kafka, without_zone, WITHOUT_ZONE, timeZone="Asia/Tokyo"))
    assert rows(typed(spark, kafka, without_zone, schema, value_timeZone="Asia/Tokyo")) == theirs


def test_a_session_that_sets_no_zone_has_that_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, expected in (("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo"), ("CET-1CEST", "UTC")):
        monkeypatch.setenv("TZ", name)
        (column,) = typed_columns({"value.format": "json"})
        assert dict(column.in_task().from_json) == {"timeZone": expected}


def test_options_of_from_json_reach_the_decoder(spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(1)
    texts = ("{'at': '01.07.2026 12:00', day: '1/7/26'} // kept", '{"at": "soon", "day": "2/7/26"}')
    kafka.helper.produce(name, [{"value": text, "partition": 0} for text in texts])
    given = {
        "timestampFormat": "dd.MM.yyyy HH:mm",
        "dateFormat": "d/M/yy",
        "allowUnquotedFieldNames": "true",
        "allowComments": "true",
    }
    fields = "at: timestamp, day: date"
    theirs = rows(by_spark(spark, kafka, name, fields, **given))
    assert [None in tuple(row.value) for row in theirs] == [False, True]
    ours = {f"value_{option}": text for option, text in given.items()}
    assert rows(typed(spark, kafka, name, f"partition int, offset bigint, value struct<{fields}>", **ours)) == theirs


def test_malformed_records_are_dropped_or_fail_the_query(spark: SparkSession, kafka: KafkaCluster, filled: str) -> None:
    kafka.helper.produce(filled, BROKEN[:2])
    schema = f"value struct<{FIELDS}>"
    assert typed(spark, kafka, filled, schema, value_mode="DROPMALFORMED").count() == COUNT
    fault = (
        r"at offset 30: the value cannot be decoded: .*\(byte \d+\)\. The option value\.mode is FAILFAST\. With PERMISS"
    )
    with pytest.raises(PySparkException, match=fault) as raised:
        typed(spark, kafka, filled, schema, value_mode="FAILFAST").collect()
    assert "A read that starts" not in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("value binary", {}, "column 'value' is decoded from JSON, so it is a struct, not binary"),
        ("value struct<a: bigint NOT NULL>", {}, "column 'value.a' cannot be NOT NULL"),
        ("value struct<a: interval day>", {}, "schema: value"),
        ("value struct<a: bigint>", {"value_mode": "IGNORE"}, "expected PERMISSIVE, FAILFAST, DROPMALFORMED"),
        ("value struct<a: bigint>", {"value_flatten": "true"}, "there is no 'value'"),
        (
            "value struct<a: bigint>",
            {"value_timeZone": "Europe/Praha"},
            "option 'value.timeZone': .*Europe/Praha",
        ),
        ("value struct<a: bigint>", {"value_dateFormat": "GG"}, "option 'value.dateFormat': .*GG is not supported"),
        ("value struct<a: bigint>", {"value_dateFormt": "yy"}, "did you mean 'value.dateFormat'"),
        (
            "value binary",
            {"value_format": "binary", "value_locale": "en-US"},
            "'value.locale' is for value.format=json",
        ),
    ],
)
def test_mistakes_are_said_before_anything_is_read(
    spark: SparkSession, kafka: KafkaCluster, schema: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        typed(spark, kafka, "nothing", schema, **options).collect()


AVRO = json.dumps(record(field("id", "long"), field("user", "string"), name="Order"))
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string user = 2; }'


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ({}, "value struct<id: bigint, user: string>"),
        ({"value_format": "avro", "value_schema": AVRO}, None),
        ({"value_format": "protobuf", "value_schema": PROTO, "value_message": "Order"}, None),
    ],
    ids=["json", "avro", "protobuf"],
)
def test_the_plan_shows_the_types_of_fields(
    spark: SparkSession,
    kafka: KafkaCluster,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
    schema: str | None,
) -> None:
    reader = spark.read.format(OURS).options(
        **options_for(kafka, subscribe="none", **{"value_format": "json", **options})
    )
    (reader if schema is None else reader.schema(schema)).load().select("value.id").explain("formatted")
    plan = capsys.readouterr().out
    read = next(line for line in plan.splitlines() if line.startswith("ReadSchema: "))
    assert "value:struct<id:bigint,user:string>" in read, plan


def test_fields_must_be_named(spark: SparkSession, kafka: KafkaCluster) -> None:
    with pytest.raises(PySparkException, match=r"name the fields before load\(\)"):
        load(spark, OURS, options_for(kafka, subscribe="nothing", value_format="json"))


def _stream(spark: SparkSession, kafka: KafkaCluster, name: str, schema: str) -> DataFrame:
    options = options_for(
        kafka, subscribe=name, value_format="json", startingOffsets="earliest", maxOffsetsPerTrigger=20
    )
    return spark.readStream.format(OURS).options(**options).schema(schema).load()


@pytest.mark.parametrize(
    "crash", [lambda _: None, lambda checkpoint: forget_commits(checkpoint, 1)], ids=["stop", "crash"]
)
def test_a_restarted_stream_reads_each_record_once(
    spark: SparkSession, kafka: KafkaCluster, filled: str, checkpoint: Path, crash: Callable[[Path], None]
) -> None:
    schema, columns = f"value struct<{FIELDS}>, partition int, offset bigint", ("partition", "offset", "value.id")
    first = run_stream(_stream(spark, kafka, filled, schema), checkpoint, columns)
    crash(checkpoint)
    fill(kafka, filled, range(COUNT, COUNT + 20))
    kafka.helper.produce(filled, BROKEN[:2])
    second = run_stream(_stream(spark, kafka, filled, schema), checkpoint, columns)
    got = once(first, second, checkpoint)
    expected = [(n % 2, n // 2, n) for n in range(COUNT + 20)] + [(0, 40, None), (1, 40, None)]
    assert [row[:2] for row in got] == sorted(row[:2] for row in expected)
    assert {row[:2]: row[2] for row in got} == {row[:2]: row[2] for row in expected}

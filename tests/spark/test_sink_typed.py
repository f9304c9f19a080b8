"""The sink with `value.format`: rows as JSON, Avro and Protobuf, beside what Spark's own functions and sink write."""

import datetime
import io
import json
import re
from typing import Any

import fastavro
import monedula
import pyarrow as pa
import pytest
from monedula import Avro, Json, Protobuf
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.conftest import TopicFactory
from tests.consumer.avro_values import field, record
from tests.consumer.schema_registry import serving
from tests.kafka import KafkaCluster
from tests.spark._support.sinks import records_in, rows_in, to, write
from tests.spark._support.sources import JVM, OURS
from tests.spark.test_mistakes import said

ORDER = record(
    field("id", "long"),
    field("user", ["null", "string"], default=None),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}),
    field("items", {"type": "array", "items": ["null", "int"]}),
    name="Order",
)
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; optional string user = 2; google.protobuf.Timestamp at = 3; repeated int32 items = 4; }
"""
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "user": {"type": ["null", "string"]},
        "at": {"type": "string", "format": "date-time"},
        "items": {"type": "array", "items": {"type": "integer", "connect.type": "int32"}},
    },
}
FIELDS = [
    "id",
    "IF(id % 5 = 0, NULL, concat('ü', id)) AS user",
    "timestamp_micros(1700000000000000 + id * 1000) AS at",
    "IF(id % 3 = 0, array(), array(CAST(id AS INT), 7)) AS items",
]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, 60, numPartitions=2).selectExpr(*FIELDS)


def order(number: int) -> dict[str, Any]:
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=number)
    items = [] if number % 3 == 0 else [number, 7]
    return {"id": number, "user": None if number % 5 == 0 else f"ü{number}", "at": at, "items": items}


def read(kafka: KafkaCluster, topic: str, value: Any) -> list[Any]:
    with monedula.read({"bootstrap.servers": kafka.bootstrap}, topic, value=value) as stream:
        rows = pa.table(stream)["value"].to_pylist()
    return sorted(rows, key=lambda row: -1 if row is None else row["id"])


ZONES: list[dict[str, str]] = [{}, {"timeZone": "Asia/Tokyo", "timestampFormat": "yyyy/MM/dd HH:mm:ss.SSS XXX"}]


@pytest.mark.parametrize("options", [*ZONES, {"ignoreNullFields": "false"}])
def test_json_is_what_spark_writes_with_to_json(
    kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame, options: dict[str, str]
) -> None:
    from pyspark.sql import functions as f

    theirs, ours = topic(), topic()
    text = f.to_json(f.struct("*"), options)
    write(frame.select(f.col("id").cast("string").alias("key"), text.alias("value")), JVM, to(kafka, theirs))
    given = {f"value.{name}": value for name, value in options.items()}
    keyed = frame.select(f.col("id").cast("string").alias("key"), f.struct("*").alias("value"))
    write(keyed, OURS, to(kafka, ours) | {"value.format": "json", **given})
    assert records_in(frame.sparkSession, kafka, ours) == records_in(frame.sparkSession, kafka, theirs)


def test_the_zone_of_times_is_that_of_the_session(kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    theirs, ours, spark = topic(), topic(), frame.sparkSession
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Prague")
    try:
        write(frame.select(f.to_json(f.struct("*")).alias("value")), JVM, to(kafka, theirs))
        write(frame, OURS, to(kafka, ours) | {"value.format": "json"})
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert records_in(spark, kafka, ours) == records_in(spark, kafka, theirs)
    assert b"+01:00" in rows_in(spark, kafka, ours)[0].value


def test_avro_is_read_back_with_keys_of_a_format_of_their_own(
    kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame
) -> None:
    name = topic()
    given = {"value.format": "avro", "value.schema": json.dumps(ORDER), "key.format": "avro", "key.schema": '"long"'}
    write(frame.selectExpr("id AS key", "*"), OURS, to(kafka, name) | given)
    assert read(kafka, name, Avro(ORDER)) == [order(number) for number in range(60)]
    rows = rows_in(frame.sparkSession, kafka, name)
    keys: list[Any] = [fastavro.schemaless_reader(io.BytesIO(row.key), "long", None) for row in rows]
    assert sorted(keys) == [*range(60)]


def test_avro_is_what_spark_writes_with_to_avro(kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame) -> None:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import to_avro

    theirs, ours, schema = topic(), topic(), json.dumps(ORDER)
    write(frame.select(to_avro(f.struct("*"), schema).alias("value")), JVM, to(kafka, theirs))
    write(frame, OURS, to(kafka, ours) | {"value.format": "avro", "value.schema": schema})
    assert records_in(frame.sparkSession, kafka, ours) == records_in(frame.sparkSession, kafka, theirs)


def test_protobuf_is_read_back(kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame) -> None:
    name = topic()
    given = {"value.format": "protobuf", "value.schema": PROTO, "value.message": "Order"}
    write(
        frame.selectExpr("struct(*) AS value").union(frame.selectExpr("NULL").limit(1)), OURS, to(kafka, name) | given
    )
    assert read(kafka, name, Protobuf(PROTO)) == [None, *(order(number) for number in range(60))]


def test_a_field_called_value_is_one_with_flatten(
    kafka: KafkaCluster, topic: TopicFactory, spark: SparkSession
) -> None:
    name = topic()
    given = {"value.format": "json", "value.flatten": "true"}
    write(spark.range(1).selectExpr("'k' AS key", "1.5D AS value", "2 AS other"), OURS, to(kafka, name) | given)
    (row,) = rows_in(spark, kafka, name)
    assert (bytes(row.key), bytes(row.value)) == (b"k", b'{"value":1.5,"other":2}')


def test_schemas_are_registered_or_those_of_a_subject(
    kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame
) -> None:
    with serving() as registry:
        url = {"kafka.schema.registry.url": registry.url}
        given: list[tuple[Any, dict[str, str]]] = [
            (Avro(ORDER), {"value.format": "avro", "value.schema": json.dumps(ORDER)}),
            (Protobuf(PROTO), {"value.format": "protobuf", "value.schema": PROTO}),
            (Json(framing="confluent", subject="by json"), {"value.format": "json", "value.subject": "by json"}),
        ]
        registry.register("by json", {"schema": json.dumps(JSON_SCHEMA), "schemaType": "JSON"})
        for form, options in given:
            name = topic()
            write(frame, OURS, to(kafka, name) | url | options)
            first: bytes = bytes(rows_in(frame.sparkSession, kafka, name)[0].value)
            assert first[0] == 0
            known: Any = registry.schemas
            assert known[int.from_bytes(first[1:5]) - 1]["schema"]
            settings = {"bootstrap.servers": kafka.bootstrap, "schema.registry.url": registry.url}
            with monedula.read(settings, name, value=form) as stream:
                rows: list[Any] = pa.table(stream)["value"].to_pylist()
            assert sorted(rows, key=lambda row: row["id"]) == [order(number) for number in range(60)]
            # What it wrote names the schema of a subject.
            if options["value.format"] != "json":
                again = topic()
                subject = {"value.subject": f"{name}-value", "value.format": options["value.format"]}
                write(frame, OURS, to(kafka, again) | url | subject)
                assert bytes(rows_in(frame.sparkSession, kafka, again)[0].value)[:5] == first[:5]
        said_of = said(
            lambda: write(frame, OURS, to(kafka, "t") | url | {"value.format": "avro", "value.subject": "none"})
        )
        assert said_of[0] == "SchemaRegistryError"


def test_a_schema_is_registered_once_and_tasks_ask_for_nothing(
    kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame
) -> None:
    name, key = topic(), {"key.format": "avro", "key.schema": '"long"'}
    fields = {"value.format": "json", "value.framing": "confluent"}
    forms = (
        {"value.format": "avro", "value.schema": json.dumps(ORDER)},
        {"value.format": "protobuf", "value.schema": PROTO},
    )
    with serving() as registry:
        url = {"kafka.schema.registry.url": registry.url}
        subjects = ["s0", "s1", f"{name}-value"]
        given = [{"value.subject": subject, **form} for subject, form in zip(subjects, forms, strict=False)]
        for options in (*given, fields):
            write(frame.selectExpr("id AS key", "*"), OURS, to(kafka, name) | url | key | options)
        # The driver asks for the key and the value of each query.
        asked = [f"/subjects/{each}/versions" for subject in subjects for each in (f"{name}-key", subject)]
        assert (registry.posted, registry.asked) == (asked, [])
        ids = [versions[0] for versions in registry.subjects.values()]
        rows = rows_in(frame.sparkSession, kafka, name)
        assert {int.from_bytes(row.key[1:5]) for row in rows} == {ids[0]}
        assert {int.from_bytes(row.value[1:5]) for row in rows} == set(ids[1:])
        # It may be one that is there already, and a client that writes with the newest one asks by itself.
        del registry.posted[:]
        lookup = {"kafka.auto.register.schemas": "false"}
        write(frame, OURS, to(kafka, topic()) | url | {"value.subject": "s0"} | forms[0] | lookup)
        assert registry.posted == ["/subjects/s0"]
        kind, told = said(
            lambda: write(frame, OURS, to(kafka, name) | url | {"value.subject": "none"} | forms[0] | lookup)
        )
        assert kind == "SchemaRegistryError"
        assert "auto.register.schemas=false" in told


def test_a_subject_that_nothing_names_is_told_on_the_driver(
    kafka: KafkaCluster, topic: TopicFactory, frame: DataFrame
) -> None:
    name = topic()
    options = to(kafka, name) | {"value.format": "avro", "value.schema": json.dumps(ORDER)}
    del options["topic"]
    with serving() as registry:
        url = {"kafka.schema.registry.url": registry.url}
        routed = frame.selectExpr(f"'{name}' AS topic", "*")
        kind, told = said(lambda: write(routed, OURS, options | url))
        assert kind == "ConfigError"
        assert (
            "give the option topic, or value.subject, or set kafka.value.subject.name.strategy=RecordNameStrategy"
            in told
        )
        write(routed, OURS, options | url | {"kafka.value.subject.name.strategy": "RecordNameStrategy"})
        assert list(registry.subjects) == ["Order"]


UNSIGNED = """
syntax = "proto3"; import "google/protobuf/wrappers.proto";
message Order {
    uint32 a = 1; uint64 b = 2; fixed32 c = 3; fixed64 d = 4; repeated uint32 e = 5; google.protobuf.UInt64Value f = 6;
}
"""


@pytest.mark.parametrize("options", [{}, {"value.upcast.unsigned.ints": "true"}])
def test_unsigned_numbers_that_the_source_has_read_are_written_as_they_were(
    kafka: KafkaCluster, topic: TopicFactory, spark: SparkSession, options: dict[str, str]
) -> None:
    name, again = topic(), topic()
    row = {
        "a": (1 << 32) - 1,
        "b": (1 << 64) - 1,
        "c": 1 << 31,
        "d": 1 << 63,
        "e": [0, (1 << 32) - 1],
        "f": (1 << 64) - 1,
    }
    with monedula.Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
        table = pa.table({"value": [row]}, schema=pa.table(Protobuf(UNSIGNED).spec.decode([])).schema)
        producer.send_batch(table, name, value=Protobuf(UNSIGNED)).result()
    given = {"value.format": "protobuf", "value.schema": UNSIGNED, **options}
    read_from = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, **given}
    frame = spark.read.format(OURS).options(**read_from).load().select("value")
    write(frame, OURS, to(kafka, again) | given)
    assert [bytes(row.value) for row in rows_in(spark, kafka, again)] == [
        bytes(row.value) for row in rows_in(spark, kafka, name)
    ]


def test_unions_that_the_source_has_read_with_names_of_their_own_are_written(
    kafka: KafkaCluster, topic: TopicFactory, spark: SparkSession
) -> None:
    name, again, schema = topic(), topic(), record(field("id", "long"), field("u", ["int", "string"]))
    given = {
        "value.format": "avro",
        "value.schema": json.dumps(schema),
        "value.enableStableIdentifiersForUnionType": "true",
        "value.stableIdentifierPrefixForUnionType": "or_",
    }
    frame = spark.range(3).selectExpr(
        "id", "named_struct('or_int', CAST(IF(id = 1, NULL, id) AS INT), 'or_string', IF(id = 1, 'x', NULL)) AS u"
    )
    write(frame, OURS, to(kafka, name) | given)
    read_from = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, **given}
    write(spark.read.format(OURS).options(**read_from).load().select("value"), OURS, to(kafka, again) | given)
    values = [sorted(bytes(row.value) for row in rows_in(spark, kafka, each)) for each in (name, again)]
    assert values[0] == values[1] == [b"\x00\x00\x00", b"\x02\x02\x02x", b"\x04\x00\x04"]


def test_a_streaming_query_writes_too(
    kafka: KafkaCluster, topic: TopicFactory, spark: SparkSession, checkpoint: Any
) -> None:
    name = topic()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    query = (
        stream.selectExpr("value AS id", "concat('ü', value) AS user")
        .writeStream.format(OURS)
        .options(**to(kafka, name), **{"value.format": "json"})
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    values = sorted(bytes(row.value) for row in rows_in(spark, kafka, name))
    assert values == sorted(f'{{"id":{number},"user":"ü{number}"}}'.encode() for number in range(len(values)))
    assert values


AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'
REFUSED: dict[str, tuple[list[str], dict[str, str], str]] = {
    "no such format": (
        ["id"],
        {"value.format": "xml"},
        r"option 'value\.format' is 'xml': expected json, avro, protobuf",
    ),
    "no schema": (["id"], {"value.format": "avro"}, r"value\.format=avro needs the schema .*: value\.schema"),
    "an option of another format": (
        ["id"],
        {"value.format": "json", "value.message": "M"},
        r"option 'value\.message' is for value\.format=protobuf",
    ),
    "a schema without a format": (
        ["'a' AS value"],
        {"value.schema": AVRO},
        r"'value\.schema' is for value\.format=json",
    ),
    "a column of another type": (
        ["'x' AS id"],
        {"value.format": "avro", "value.schema": AVRO},
        r"value\.format: value\.id: the column is of type Utf8, and the schema has int there",
    ),
    "a column that the schema lacks": (
        ["1 AS id", "2 AS more"],
        {"value.format": "avro", "value.schema": AVRO},
        r"more: the record R has no such field",
    ),
    "a bad schema": (["1 AS id"], {"value.format": "avro", "value.schema": "{"}, r"value\.schema: "),
    "a column that would be lost": (
        ["1 AS id", "current_timestamp() AS timestamp"],
        {"value.format": "json"},
        r"the column 'timestamp' is one of Kafka's records.*struct\(timestamp",
    ),
    "a column that may be a field": (
        ["1 AS id", "2 AS partition"],
        {"value.format": "json"},
        r"the column 'partition' has the name of one of Kafka's, .*struct\(partition",
    ),
    "a column that is a field": (
        ["1 AS id", "'a' AS topic"],
        {"value.format": "json", "value.schema": "id int, topic string"},
        "the column 'topic' has the name of one of Kafka's",
    ),
    "no key": (["1 AS id"], {"value.format": "json", "key.format": "json"}, r"key\.format says how the column 'key'"),
    "a pattern that is none": (
        ["1 AS id"],
        {"value.format": "json", "value.dateFormat": "{"},
        r"option 'value\.dateFormat': pattern",
    ),
    "fields without a format": (
        ["id"],
        {"value.flatten": "true"},
        r"'value\.flatten' makes values .* set value\.format",
    ),
    "a text that is no struct": (["'{}' AS value"], {"value.format": "json"}, "Texts that are JSON already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_before_a_task_runs(
    kafka: KafkaCluster, spark: SparkSession, case: str
) -> None:
    columns, options, says = REFUSED[case]
    frame = spark.range(3).selectExpr(*columns)
    kind, words = said(lambda: write(frame, OURS, to(kafka, "never-written") | options))
    assert kind == "ConfigError"
    assert re.search(says, words), words


def test_a_bad_row_fails_its_task_with_its_place(kafka: KafkaCluster, topic: TopicFactory, spark: SparkSession) -> None:
    name = topic()
    frame = spark.range(0, 5, numPartitions=1).selectExpr("IF(id = 3, NULL, CAST(id AS INT)) AS id")
    with pytest.raises(PySparkException, match=r"of the task's rows from 0 on, row 3: value\.id: is null"):
        write(frame, OURS, to(kafka, name) | {"value.format": "avro", "value.schema": AVRO})
    assert rows_in(spark, kafka, name) == []

"""Values of Apicurio's and AWS Glue's serializers, and of other framings, as typed columns of the source."""

import json
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import monedula
import pyarrow as pa
import pytest
from monedula import ConfigError
from monedula.config import RawSettings
from monedula.spark.sink.encoded_columns import encoded_columns
from monedula.spark.source.typed import typed_columns
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.consumer.avro_values import field, record, written
from tests.kafka import KafkaCluster
from tests.spark._support.sources import OURS, options_for

VERSION = "89791762-2336-4186-9674-299b90a802e2"
PLAIN, ZLIB = b"\x03\x00" + UUID(VERSION).bytes, b"\x03\x05" + UUID(VERSION).bytes
APICURIO = bytes(8) + b"\x07"
ORDER = record(field("id", "long"), name="Order")
NEWER = record(field("id", "long"), field("more", "string", default=""), name="Order")
PROTO = 'syntax = "proto3"; message Aye { int64 x = 1; } message Order { int64 id = 1; }'
NEWER_PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string more = 2; }'
OF_PROTO = {"value.schema": PROTO, "value.message": "Order"}

old, second = (written(ORDER, {"id": number}) for number in (1, 2))
new = written(NEWER, {"id": 2, "more": "x"})


def fingerprint(schema: Any) -> bytes:
    form = fastavro.schema.to_parsing_canonical_form(fastavro.parse_schema(schema))
    return bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))


CASES: dict[str, tuple[list[bytes], dict[str, str]]] = {
    "avro apicurio": (
        [APICURIO + old, b"\0\0\0\0\x09" + new],
        {"value.schemas": json.dumps({"7": ORDER, "9": NEWER}), "value.schema": json.dumps(ORDER)},
    ),
    "avro glue": ([PLAIN + old, ZLIB + zlib.compress(second)], {"value.schemas": json.dumps({VERSION: ORDER})}),
    "avro confluent": ([b"\0\0\0\0\x07" + old, b"\0\0\0\0\x09" + new], {"value.schemas": "FILE"}),
    "avro single_object": (
        [b"\xc3\1" + fingerprint(ORDER) + old, b"\xc3\1" + fingerprint(NEWER) + new],
        {"value.schemas": json.dumps([NEWER, ORDER])},
    ),
    "avro bare": (
        [old, second],
        {"value.schema": json.dumps(ORDER), "kafka.schema.registry.url": "http://127.0.0.1:1"},
    ),
    "protobuf apicurio": ([APICURIO + b"\7\n\5Order\x08\1", b"\0\0\0\0\x09\7\n\5Order\x08\2"], OF_PROTO),
    "protobuf glue": ([PLAIN + b"\1\x08\1", ZLIB + zlib.compress(b"\1\x08\2")], OF_PROTO),
    "protobuf confluent": (
        [b"\0\0\0\0\7\2\2\x08\1", b"\0\0\0\0\x09\0\x08\2\x12\1x"],
        {**OF_PROTO, "value.schemas": json.dumps({"7": PROTO, "9": NEWER_PROTO})},
    ),
    "json apicurio": ([APICURIO + b'{"id": 1}', b'\0\0\0\0\x09{"id": 2}'], {}),
    "json glue": ([PLAIN + b'{"id": 1}', ZLIB + zlib.compress(b'{"id": 2}')], {}),
    "json confluent": ([b'\0\0\0\0\7{"id": 1}', b'\0\0\0\0\7{"id": 2}'], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_read_behind_any_frame(
    spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path, case: str
) -> None:
    values, more = CASES[case]
    (tmp_path / "new.avsc").write_text(json.dumps(NEWER))
    (tmp_path / "FILE").write_text(json.dumps({"7": ORDER, "9": str(tmp_path / "new.avsc")}))
    more = {name: str(tmp_path / text) if text == "FILE" else text for name, text in more.items()}
    name = topic()
    with monedula.Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
        for value in values:
            producer.send(name, value)
    form, framing = case.split()
    given = {**options_for(kafka, subscribe=name), "value.format": form, "value.framing": framing, **more}
    reader = spark.read.format(OURS).options(**given)
    frame = (reader.schema("value struct<id: bigint>") if form == "json" else reader).load()
    assert [row.id for row in frame.select("value.id").collect()] == [1, 2]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"value.format": "avro", "value.framing": "aws"}, "option 'value.framing' is 'aws': expected bare, confluent"),
        ({"value.format": "json", "value.framing": "single_object"}, "expected bare, confluent, apicurio, glue"),
        ({"value.framing": "glue"}, "option 'value.framing' is for value.format=json or avro or protobuf"),
        (
            {"value.format": "json", "value.schemas": "{}"},
            "'value.schemas' is for value.format=avro or protobuf",
        ),
        ({"value.format": "avro", "value.schemas": "none.json"}, "option 'value.schemas': none.json: No such file"),
        ({"value.format": "avro", "value.schemas": '{"7": "none.avsc"}'}, "'value.schemas': none.avsc: No such file"),
        (
            {"value.format": "avro", "value.schema": '"long"', "value.framing": "glue"},
            "option 'value.framing' is 'glue': AWS Glue's own API is not asked; give value.schemas={UUID",
        ),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused(
    spark: SparkSession, kafka: KafkaCluster, given: dict[str, str], reason: str
) -> None:
    reader = spark.read.format(OURS).options(**options_for(kafka, subscribe="mistakes"), **given)
    if given.get("value.format") == "json":
        reader = reader.schema("value struct<id: bigint>")
    with pytest.raises(PySparkException) as caught:
        reader.load().collect()
    assert reason in str(caught.value)


def test_a_list_of_schemas_is_that_of_single_objects() -> None:
    (column,) = typed_columns({"value.format": "avro", "value.schemas": json.dumps([ORDER, NEWER])})
    values = [b"\xc3\1" + fingerprint(ORDER) + old, b"\xc3\1" + fingerprint(NEWER) + new]
    rows = pa.table(column.pinned(RawSettings).decoder().spec.decode(values))
    assert rows["value"].to_pylist() == [{"id": 1, "more": ""}, {"id": 2, "more": "x"}]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"value.format": "avro", "value.framing": "confluent"}, "a list of schemas is for value.framing='single_obj"),
        ({"value.format": "avro", "value.framing": "glue"}, "give value.schemas={UUID"),
        ({"value.format": "protobuf", "value.schema": PROTO, "value.message": "Order"}, "expected {id: schema}"),
    ],
)
def test_a_list_of_schemas_has_no_ids(given: dict[str, str], reason: str) -> None:
    (column,) = typed_columns({**given, "value.schemas": json.dumps([PROTO if "value.schema" in given else ORDER])})
    with pytest.raises(ConfigError) as caught:
        column.pinned(RawSettings)
    assert reason in str(caught.value)


def test_the_schema_may_be_a_file_on_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    given = {"value.format": "avro", "value.schema": str(file)}
    (read,), (sent,) = typed_columns(given), encoded_columns(given)
    read, sent = read.pinned(RawSettings), sent.pinned(RawSettings)
    file.unlink()  # tasks have no such file
    assert pa.table(read.decoder().spec.decode([old]))["value"].to_pylist() == [{"id": 1}]
    assert sent.form().spec.encode(pa.table({"id": [1]})) == [old]
    for pinned in (typed_columns(given)[0].pinned, encoded_columns(given)[0].pinned):
        with pytest.raises(ConfigError, match=r"option 'value.schema': .*avsc: No such file .* a file with it"):
            pinned(RawSettings)

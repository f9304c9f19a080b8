"""Avro keys and values that are decoded into typed columns while they are read."""

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka.schema_registry.avro as confluent
import fastavro
import monedula
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula import Avro
from monedula.testing import Broker

from tests.consumer.conftest import Opens

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
NEWER: dict[str, Any] = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "amount", "type": "double", "default": 1.5}],
}


@pytest.fixture
def topic(empty_topic: str) -> str:
    return empty_topic


def anything(value: object) -> Any:
    """What a type checker would refuse."""
    return value


def order(number: int) -> dict[str, Any]:
    return {"id": number, "user": f"u{number}" if number % 2 else None, "tags": ["t"] * (number % 3)}


def bare(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(ORDER)), order(number))
    return out.getvalue()


def confluent_framed(schema_id: int, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def read(broker: Broker, topic: str, **arguments: Any) -> pa.Table:
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, **arguments) as stream:
        return stream.to_pyarrow().sort_by("offset")


def test_a_value_is_a_struct_of_the_schemas_fields(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [*map(bare, range(10)), ("k", None)])
    reader = opens(topic, value=Avro(ORDER))
    batch = reader.poll(timeout=20)
    table = pa.record_batch(batch)
    table.validate(full=True)
    expected = [*map(order, range(10)), None]
    assert table["value"].to_pylist() == expected
    assert [record.value for record in batch.records()] == expected
    assert pa.schema(reader.schema) == table.schema


def test_what_confluents_serializer_writes_of_two_schemas_is_one_column(broker: Broker, topic: str) -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    context = SerializationContext(topic, MessageField.VALUE)
    ids: dict[int, Any] = {}
    values: list[tuple[bytes, bytes]] = []
    key = confluent.AvroSerializer(registry, json.dumps("string"))
    key_context = SerializationContext(topic, MessageField.KEY)
    for number in range(6):
        schema, more = (ORDER, {}) if number % 2 == 0 else (NEWER, {"amount": number / 4})
        serializer = confluent.AvroSerializer(registry, json.dumps(schema))
        value = serializer({**order(number), **more}, context)
        values.append((key(f"k{number}", key_context), value))
        ids[int.from_bytes(value[1:5], "big")] = schema
    assert len(ids) == 2
    broker.append(topic, values)
    key_schemas = {int.from_bytes(values[0][0][1:5], "big"): '"string"'}
    table = read(broker, topic, key=Avro(schemas=key_schemas), value=Avro(NEWER, schemas=ids, flatten=True))
    assert table["key"].to_pylist() == [f"k{number}" for number in range(6)]
    assert table["amount"].to_pylist() == [1.5, 0.25, 1.5, 0.75, 1.5, 1.25]
    assert table["id"].to_pylist() == list(range(6))
    deserializer = confluent.AvroDeserializer(registry, json.dumps(NEWER))
    expected = [deserializer(value, context) for _, value in values]
    assert table.select(["id", "user", "tags", "amount"]).to_pylist() == expected


def test_headers_name_the_schema_by_its_guid(broker: Broker, topic: str) -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    guids: dict[str, Any] = {}
    for number, schema in enumerate((ORDER, NEWER, ORDER)):
        headers: list[tuple[str, bytes]] = [("other", b"x"), ("__key_schema_id", b"not the key's")]
        context = SerializationContext(topic, MessageField.VALUE, headers)
        configuration = {"schema.id.serializer": header_schema_id_serializer}
        serializer = confluent.AvroSerializer(registry, json.dumps(schema), conf=configuration)
        value = serializer({**order(number), "amount": 2.5}, context)
        guids[str(UUID(bytes=headers[-1][1][1:]))] = schema
        broker.append(topic, [value], headers=headers)
    assert len(guids) == 2
    table = read(broker, topic, value=Avro(NEWER, schemas=guids, flatten=True))
    assert table["id"].to_pylist() == [0, 1, 2]
    assert table["amount"].to_pylist() == [1.5, 2.5, 1.5]


def test_a_guid_may_stand_before_the_value_as_well(broker: Broker, topic: str, opens: Opens) -> None:
    guid, other = UUID(int=7 << 100), UUID(int=8)
    broker.append(
        topic, [b"\x01" + guid.bytes + bare(1), confluent_framed(7, bare(2)), b"\x01" + other.bytes + bare(3)]
    )
    schemas: dict[int | str, Any] = {7: ORDER, str(guid): ORDER}
    reader = opens(topic, value=Avro(schemas=schemas))
    assert [anything(record.value)["id"] for record in reader.take(2)] == [1, 2]
    with pytest.raises(monedula.DecodeError, match=f"no schema was given for GUID {other}"):
        reader.poll(timeout=20)


def test_a_header_that_names_no_schema_is_a_bad_value(broker: Broker, topic: str, opens: Opens) -> None:
    headers = [("__value_schema_id", b"\x00\x00")]
    broker.append(topic, [confluent_framed(7, bare(1))], headers=headers)
    with pytest.raises(monedula.DecodeError, match="does not begin with a zero byte and the id"):
        opens(topic, value=Avro(schemas={7: ORDER})).poll(timeout=20)


def test_single_objects_name_their_schema_by_its_fingerprint(broker: Broker, topic: str) -> None:
    canonical = fastavro.schema.to_parsing_canonical_form(fastavro.parse_schema(dict(ORDER)))
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    broker.append(topic, [b"\xc3\x01" + fingerprint + bare(number) for number in range(3)])
    table = read(broker, topic, value=Avro(NEWER, schemas=[ORDER], flatten=True))
    assert table["id"].to_pylist() == [0, 1, 2]
    assert table["amount"].to_pylist() == [1.5] * 3


def test_a_key_is_of_any_type(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [(b"\x0e", bare(1)), (None, bare(2))])
    reader = opens(topic, key=Avro('"long"'), value=Avro(ORDER), columns=["key", "value"])
    assert [record.key for record in reader.poll(timeout=20).records()] == [7, None]


def test_a_schema_that_is_not_known_stops_the_partition_and_a_seek_passes_it(
    broker: Broker, topic: str, opens: Opens
) -> None:
    broker.append(topic, [confluent_framed(schema_id, bare(1)) for schema_id in (7, 7, 8, 7)])
    reader = opens(topic, value=Avro(schemas={7: ORDER}))
    assert [record.offset for record in reader.poll(timeout=20).records()] == [0, 1]
    with pytest.raises(
        monedula.DecodeError, match="the value cannot be decoded: no schema was given for id 8"
    ) as raised:
        reader.poll(timeout=20)
    assert (raised.value.offset, raised.value.column, raised.value.path) == (2, "value", "")
    reader.seek((topic, 0), raised.value.next_offset)
    assert [record.offset for record in reader.poll(timeout=20).records()] == [3]


def test_a_bad_value_says_where_it_is_bad(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [bare(5)[:-1] + b"\x04"])
    with pytest.raises(monedula.DecodeError) as raised:
        opens(topic, value=Avro(ORDER)).poll(timeout=20)
    assert raised.value.path == "tags"
    assert "a length of 2, which the rest of the value has not" in str(raised.value)


def test_a_frame_that_was_not_expected_is_named(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [confluent_framed(7, bare(1))])
    with pytest.raises(
        monedula.DecodeError, match=r"behind a frame of Confluent's.* id 7.*=\{id: schema\}, or .*schema\.registry\.url"
    ):
        opens(topic, value=Avro(ORDER)).poll(timeout=20)


def test_batches_that_are_full_of_larger_columns_do_not_wait_for_more_records(
    broker: Broker, topic: str, opens: Opens
) -> None:
    writer = {"type": "record", "name": "R", "fields": []}
    reader = {**writer, "fields": [{"name": "text", "type": "string", "default": "x" * 1000}]}
    broker.append(topic, [b""] * 100)
    batches = opens(topic, value=Avro(reader, writer=writer)).batches(max_rows=50, max_bytes=10_000, max_wait=3600)
    rows = [next(batches).num_rows for _ in range(8)]
    # Fewer are left than make a batch by their own number and bytes, and no more will come.
    assert 50 < sum(rows) < 100
    assert max(rows) < 12


def test_bad_values_are_null_or_left_out_and_counted(broker: Broker, topic: str, opens: Opens) -> None:
    broker.append(topic, [bare(0), b"\x00\x01", bare(2)])
    reader = opens(topic, value=Avro(ORDER, mode="null"))
    values: list[Any] = [record.value for record in reader.take(3)]
    assert values == [order(0), {"id": None, "user": None, "tags": None}, order(2)]
    assert reader.metrics()["records_with_nulls"] == 1
    reader = opens(topic, value=Avro(ORDER, mode="drop"))
    assert [record.offset for record in reader.take(2)] == [0, 2]
    assert reader.metrics()["records_dropped"] == 1


def test_bad_values_are_dead_letters(broker: Broker, topic: str, opens: Opens) -> None:
    broker.create_topic(f"{topic}-failed", 1)
    broker.append(topic, [confluent_framed(7, bare(0)), b"no frame", confluent_framed(7, bare(2))])
    reader = opens(topic, value=Avro(schemas={7: ORDER}, dead_letter=f"{topic}-failed"))
    assert [record.offset for record in reader.take(2)] == [0, 2]
    (letter,) = opens(f"{topic}-failed", headers=True).take(1)
    assert letter.value == b"no frame"
    reasons = [value for name, value in letter.headers or [] if b"does not begin with a zero byte" in (value or b"")]
    assert len(reasons) == 1


def test_every_type_has_a_value_in_python(broker: Broker, topic: str, opens: Opens) -> None:
    kinds = [("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-nanos"), ("int", "date")]
    fields = [{"name": logical, "type": {"type": kind, "logicalType": logical}} for kind, logical in kinds]
    broker.append(topic, [b"\xd0\x0f\x02\x06\x02"])  # 1000, 1, 3 and 1
    (row,) = opens(topic, value=Avro({"type": "record", "name": "R", "fields": fields})).take(1)
    shown = {name: str(value) for name, value in anything(row.value).items()}
    assert shown == {
        "time-millis": "00:00:01",
        "time-micros": "00:00:00.000001",
        "timestamp-nanos": "3",
        "date": "1970-01-02",
    }


def nested(outer: dict[str, Any], child: str, depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {**outer, child: schema}
    return schema


def _nothing() -> dict[str, Any]:
    return {"bootstrap_servers": "localhost:1"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Avro(framing="bare"), "give the reader's schema, those of the writers, or subject="),
        (lambda: Avro(framing="single_object"), "give the reader's schema, those of the writers, or subject="),
        (lambda: Avro("{"), "schema: is not JSON"),
        (lambda: Avro(5), "schema: expected an Avro schema as text, dict or list, and not int"),
        (lambda: Avro(Path("order.avsc")), r"not pathlib\..*Path; its read_text\(\) is the schema's text"),
        (lambda: Avro("order.avsc"), r"schema: is not JSON.*'order.avsc'; that of a file is Path\(...\).read_text\(\)"),
        (lambda: Avro("id bigint, user string"), "schema: is not JSON.*'id bigint, user string'"),
        (lambda: Avro(b'"int"'), r"not bytes; decode\(\) makes text of it"),
        (lambda: Avro(schemas={7: Schema('"int"', "AVRO")}), r"schemas\[7\]: .*; its schema_str is the schema's text"),
        (
            lambda: Avro({"schema": '"int"', "id": 7}),
            "schema: is what a registry answers; give the text in its 'schema'",
        ),
        (lambda: Avro(nested({"type": "array", "items": None}, "items", 70)), "types are nested deeper than 64"),
        (lambda: Avro(nested({"type": "array", "items": None}, "items", 130)), "schema: is nested too deep"),
        (lambda: Avro(ORDER, options={"envelope": "debezium"}), "option envelope: is of Json alone; name after and op"),
        (lambda: Avro(ORDER, options={"mode": "PERMISSIVE"}), "mode: it is an argument of its own, mode=$"),
        (lambda: Avro({"type": "record", "name": "R", "fields": [{"name": "a"}]}), "schema: a: it has no type"),
        (lambda: Avro(ORDER, writer='"int"'), "int of the writer's cannot be read as record"),
        (lambda: Avro(ORDER, schemas={7: '"int"'}), "the schema of id 7 cannot be read: int of the writer's"),
        (lambda: Avro(ORDER, schemas={7: "{"}), r"schemas\[7\]: is not JSON"),
        (lambda: Avro(ORDER, schemas={}), r"schemas=\{\}: there are none: no value could be decoded"),
        (lambda: Avro(ORDER, schemas=anything({"7": ORDER})), "'7' is neither the id of a schema"),
        (lambda: Avro(ORDER, schemas={7: ORDER}, writer=ORDER), "give one of them"),
        (lambda: Avro(ORDER, schemas=[ORDER], framing="bare"), "give writer="),
        (lambda: Avro(ORDER, schemas={7: ORDER}, framing="single_object"), "schemas by id are for framing='confluent'"),
        (
            lambda: Avro(ORDER, framing=anything("aws")),
            "expected 'bare', 'confluent', 'single_object'",
        ),
        (lambda: Avro(ORDER, schemas=anything("x")), "expected {id: schema}, or a list"),
        (lambda: Avro(ORDER, mode="drop", dead_letter="t"), "give one of them"),
        (
            lambda: Avro(ORDER, options={"recursiveFieldMaxDepth": 16}),
            "option recursiveFieldMaxDepth: expected a number",
        ),
        (lambda: Avro(ORDER, options={"timeZone": "UTC"}), "option timeZone: there is no such option of from_avro"),
        (lambda: monedula.Consumer(key=Avro(ORDER, flatten=True), **_nothing()), r"key=Avro\(flatten=True\)"),
        (
            lambda: monedula.Consumer(value=Avro('"int"', flatten=True), **_nothing()),
            "value is not decoded to a struct",
        ),
    ],
)
def test_a_mistake_is_said_at_once(make: Callable[[], object], message: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=message):
        make()


def test_a_decoder_can_be_pickled_and_printed() -> None:
    made = pickle.loads(pickle.dumps(Avro(schemas={7: ORDER, 9: json.dumps(NEWER)}, mode="null", flatten=True)))
    fields = "id: int64, user: utf8, tags: list(utf8, field: 'element'), amount: float64"
    assert repr(made) == f"Avro({fields}, framing='confluent', mode='null', flatten=True)"
    assert repr(Avro('"string"')) == "Avro(utf8)"

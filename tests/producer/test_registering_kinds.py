"""The schemas of Protobuf and JSON at a registry, those that refer to others, and what other clients read."""

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka.schema_registry.avro as confluent_avro
import confluent_kafka.schema_registry.json_schema as confluent_json
import confluent_kafka.schema_registry.protobuf as confluent_protobuf
import monedula
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula import ArgumentError, Avro, Json, Protobuf
from monedula.errors import SchemaRegistryError
from monedula.formats.schemas import schema_of
from monedula.testing.registry.schemas import parse

from tests.consumer.avro_values import field, record
from tests.consumer.protobuf_values import File
from tests.consumer.schema_registry import Registry, serving
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
TABLE = pa.table({"id": [1, 2], "user": ["a", None]})
ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "item.proto";
import "google/protobuf/timestamp.proto";
message Refund { int64 id = 1; }
message Order { int64 id = 1; optional string user = 2; repeated Item items = 3; google.protobuf.Timestamp at = 4; }
"""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


def at(registry: Registry, **more: Any) -> dict[str, Any]:
    return {"schema_registry_url": registry.url, "schema_registry_retries_wait_ms": 1, **more}


def read(ground: Ground, registry: Registry, topic: str, value: Any) -> list[Any]:
    settings = {"bootstrap.servers": ground.bootstrap, "schema.registry.url": registry.url}
    with monedula.read(settings, topic, value=value) as stream:
        rows: list[Any] = stream.to_pyarrow()["value"].to_pylist()
    return rows


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_a_message_is_registered_with_the_files_that_it_imports(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, sender = ground.topic(), producer(**at(registry))
    form = Protobuf({"item.proto": ITEM, "order.proto": ORDER}, message="shop.Order")
    for _ in range(2):
        sender.send_batch(TABLE, topic, value=form).result(PATIENCE)
    item, order = registry.schemas
    assert item == {"schema": parse("PROTOBUF", ITEM, []).canonical, "schemaType": "PROTOBUF"}
    references = [{"name": "item.proto", "subject": "item.proto", "version": 1}]
    text = parse("PROTOBUF", ORDER, [("item.proto", ITEM)]).canonical
    assert order == {"schema": text, "schemaType": "PROTOBUF", "references": references}
    assert registry.subjects == {"item.proto": [1], f"{topic}-value": [2]}
    first = stored(ground.bootstrap, topic)[0].value or b""
    # The id, and the place of the message, which is not the first one.
    assert first[:7] == b"\0\0\0\0\2\2\2"
    rows = read(ground, registry, topic, form)
    assert [(row["id"], row["user"], row["items"]) for row in rows[:2]] == [(1, "a", []), (2, None, [])]


def test_confluents_deserializer_reads_messages(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    file = File("orders.proto")
    file.message("Order", {"id": "int64", "user": "optional string"})
    (kind,) = file.build("Order")
    topic = ground.topic()
    producer(**at(registry)).send_batch(TABLE, topic, value=Protobuf(kind)).result(PATIENCE)
    deserializer = confluent_protobuf.ProtobufDeserializer(kind, {"use.deprecated.format": False})
    values: list[Any] = [deserializer(record.value, context(topic)) for record in stored(ground.bootstrap, topic)]
    assert [(value.id, value.HasField("user")) for value in values] == [(1, True), (2, False)]
    # What Confluent's serializer registers for the same class is the same schema.
    serializer = confluent_protobuf.ProtobufSerializer(
        kind, SchemaRegistryClient({"url": registry.url}), {"use.deprecated.format": False}
    )
    made = serializer(values[0], context(topic))
    assert made == stored(ground.bootstrap, topic)[0].value
    assert registry.subjects[f"{topic}-value"] == [len(registry.schemas)]


def test_the_newest_message_is_written(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    topic = ground.topic()
    newest = ORDER.replace("int64 id = 1; optional", "int64 id = 7; optional").replace('import "item.proto";', "")
    newest = newest.replace("repeated Item items = 3;", "")
    registry.register(f"{topic}-value", {"schema": newest, "schemaType": "PROTOBUF"})
    form = Protobuf({"item.proto": ITEM, "order.proto": ORDER}, message="shop.Order")
    producer(**at(registry, use_latest_version=True)).send_batch(TABLE, topic, value=form).result(PATIENCE)
    assert registry.posted == []
    assert (stored(ground.bootstrap, topic)[1].value or b"")[5:] == b"\2\2\x38\2"


def test_a_record_names_a_subject_of_protobuf(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    sender = producer(**at(registry, value_subject_name_strategy="RecordNameStrategy"))
    form = Protobuf({"item.proto": ITEM, "order.proto": ORDER}, message="shop.Order")
    sender.send_batch(TABLE, ground.topic(), value=form).result(PATIENCE)
    assert list(registry.subjects) == ["item.proto", "shop.Order"]


def test_bare_values_and_those_with_ids_ask_nothing(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, texts = ground.topic(), {"item.proto": ITEM, "order.proto": ORDER}
    sender = producer(**at(registry))
    sender.send_batch(TABLE, topic, value=Protobuf(texts, message="shop.Order", framing="bare")).result(PATIENCE)
    form = Protobuf(texts, message="shop.Order", schemas={7: texts})
    sender.send_batch(TABLE, topic, value=form).result(PATIENCE)
    sender.send_batch(TABLE, topic, value=Json()).result(PATIENCE)
    values = [record.value for record in stored(ground.bootstrap, topic)]
    assert values[0] == b"\x08\1\x12\1a"
    assert values[2] == b"\0\0\0\0\7\2\2\x08\1\x12\1a"
    assert values[4] == b'{"id":1,"user":"a"}'
    assert registry.posted == []


def test_json_is_registered_with_the_schema_of_its_fields(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, sender = ground.topic(), producer(**at(registry))
    for form in (Json(framing="confluent"), Json(TABLE.schema, framing="confluent", flatten=True)):
        sender.send_batch(TABLE, topic, value=form).result(PATIENCE)
    (kept,) = registry.schemas
    assert kept["schemaType"] == "JSON"
    assert schema_of(kept["schema"]) == TABLE.schema
    deserializer = confluent_json.JSONDeserializer(
        None, schema_registry_client=SchemaRegistryClient({"url": registry.url})
    )
    values = [deserializer(record.value, context(topic)) for record in stored(ground.bootstrap, topic)]
    assert values == [{"id": 1, "user": "a"}, {"id": 2}] * 2
    rows = TABLE.to_pylist() * 2
    assert read(ground, registry, topic, Json(TABLE.schema, framing="confluent")) == rows
    assert read(ground, registry, topic, Json(subject=f"{topic}-value")) == rows


def test_numbers_of_64_bits_without_a_sign_are_read_back_by_the_subject(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, sender = ground.topic(), producer(**at(registry))
    table = pa.table({"id": pa.array([2**64 - 1, 7], pa.uint64())})
    sender.send_batch(table, topic, value=Json(framing="confluent")).result(PATIENCE)
    form = Json(subject=f"{topic}-value")
    assert read(ground, registry, topic, form) == [{"id": 2**64 - 1}, {"id": 7}]
    sender.send_batch(table, topic, value=form).result(PATIENCE)
    assert [record.value for record in stored(ground.bootstrap, topic)][2:] == [
        b'\0\0\0\0\x01{"id":18446744073709551615}',
        b'\0\0\0\0\x01{"id":7}',
    ]


def test_json_is_written_with_the_columns_of_the_newest_schema(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, sender = ground.topic(), producer(**at(registry, use_latest_version=True))
    newest = {"type": "object", "properties": {"id": {"type": "integer"}, "user": {"type": "string"}}}
    registry.register(f"{topic}-value", {"schema": json.dumps(newest), "schemaType": "JSON"})
    for form in (Json(framing="confluent"), Json(TABLE.schema, framing="confluent", flatten=True)):
        sender.send_batch(TABLE, topic, value=form).result(PATIENCE)
        with pytest.raises(ArgumentError, match=r"id: the column is of type Utf8, and the schema has Int64 there"):
            sender.send_batch(pa.table({"id": ["x"]}), topic, value=form)
    with pytest.raises(ArgumentError, match="price: the schema has no such field"):
        sender.send_batch(TABLE.append_column("price", pa.array([1, 2])), topic, value=Json(framing="confluent"))
    assert len(stored(ground.bootstrap, topic)) == 4
    registry.register(f"{topic}-key", {"schema": '{"type": "string"}', "schemaType": "JSON"})
    keyed = pa.table({"key": [{"a": 1}], "id": [1]})
    with pytest.raises(SchemaRegistryError, match=f"the newest schema of subject {topic}-key cannot be read"):
        sender.send_batch(keyed, topic, key=Json(framing="confluent"), value=Json())
    assert registry.posted == []


DOCUMENT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "user": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
}


def test_a_json_schema_that_is_given_is_registered_as_it_is(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic = ground.topic()
    sender = producer(**at(registry, value_subject_name_strategy="RecordNameStrategy"))
    sender.send_batch(TABLE, topic, value=Json(DOCUMENT, framing="confluent")).result(PATIENCE)
    assert [json.loads(each["schema"]) for each in registry.schemas] == [DOCUMENT]
    assert list(registry.subjects) == ["Order"]
    with pytest.raises(ArgumentError, match=r"value\.subject\.name\.strategy makes a subject of a record's name"):
        sender.send_batch(TABLE, topic, value=Json(framing="confluent"))


def test_values_of_confluents_json_serializer_are_read(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic = ground.topic()
    serializer = confluent_json.JSONSerializer(json.dumps(DOCUMENT), SchemaRegistryClient({"url": registry.url}))
    sender = producer()
    for row in TABLE.to_pylist():
        sender.send(topic, serializer(row, context(topic))).result(PATIENCE)
    guid = b"\1" + bytes(range(16))
    sender.send(topic, b'{"id":3}', headers=[("__value_schema_id", guid)]).result(PATIENCE)
    assert read(ground, registry, topic, Json(subject=f"{topic}-value")) == [
        *TABLE.to_pylist(),
        {"id": 3, "user": None},
    ]
    with pytest.raises(monedula.DecodeError, match=r"schema's id 1 \(byte 0\); give framing='confluent'"):
        read(ground, registry, topic, Json("id bigint"))
    sender.send(topic, b'{"id":4}').result(PATIENCE)
    with pytest.raises(monedula.DecodeError, match=r"leave framing= out"):
        read(ground, registry, topic, Json("id bigint", framing="confluent"))


def test_a_json_schema_may_refer_to_others(ground: Ground, producer: ProducerFactory, registry: Registry) -> None:
    name = {"definitions": {"short": {"type": "string"}}, "type": "object", "properties": {}}
    registry.register("name", {"schema": json.dumps(name), "schemaType": "JSON"})
    refers = [{"name": "name.json", "subject": "name", "version": 1}]
    document = {"type": "object", "properties": {"user": {"$ref": "name.json#/definitions/short"}}}
    registry.register("orders", {"schema": json.dumps(document), "schemaType": "JSON", "references": refers})
    topic = ground.topic()
    producer().send(topic, b'\0\0\0\0\2{"user":"a"}').result(PATIENCE)
    assert read(ground, registry, topic, Json(subject="orders")) == [{"user": "a"}]


def test_framed_json_needs_a_registry(producer: ProducerFactory) -> None:
    sender = producer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(ArgumentError, match=r"Confluent's framing.*; give the setting schema\.registry\.url"):
        sender.send_batch(TABLE, "t", value=Json(framing="confluent"))
    with pytest.raises(ArgumentError, match=r"name no registry; give the setting schema\.registry\.url"):
        sender.send_batch(TABLE, "t", value=Avro(subject="orders-value"))
    with pytest.raises(ArgumentError, match=r"Json\(\) without a schema is for writing"):
        monedula.Consumer({"bootstrap.servers": "127.0.0.1:1"}, value=Json())


USER = record(field("name", "string"), name="User", namespace="shop")
REFERRING = record(field("id", "long"), field("user", ["null", "shop.User"], default=None), name="Referring")


def test_a_schema_of_avro_is_registered_with_those_that_it_refers_to(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    topic, table = ground.topic(), pa.table({"id": [1], "user": [{"name": "a"}]})
    producer(**at(registry)).send_batch(table, topic, value=Avro(REFERRING, references=[USER])).result(PATIENCE)
    assert list(registry.subjects) == ["shop.User", f"{topic}-value"]
    assert registry.schemas[1]["references"] == [{"name": "shop.User", "subject": "shop.User", "version": 1}]
    deserializer = confluent_avro.AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    (read_back,) = [deserializer(record.value, context(topic)) for record in stored(ground.bootstrap, topic)]
    assert read_back == {"id": 1, "user": {"name": "a"}}
    with pytest.raises(SchemaRegistryError, match=r"40401.*auto\.register\.schemas=false"):
        producer(**at(registry, auto_register_schemas=False)).send_batch(
            table, ground.topic(), value=Avro(REFERRING, references=[USER])
        )


@pytest.mark.parametrize("language", ["avro", "protobuf", "json"])
def test_the_schema_of_a_subject_is_written_with_its_id(
    ground: Ground, producer: ProducerFactory, registry: Registry, language: str
) -> None:
    topic, subject = ground.topic(), "any-subject"
    form: Any
    if language == "avro":
        schema = record(field("id", "long"), field("user", ["null", "string"], default=None), name="Order")
        number, form = registry.avro(subject, schema), Avro(subject=subject)
    elif language == "protobuf":
        text = 'syntax = "proto3"; message Order { int64 id = 1; optional string user = 2; }'
        number = registry.register(subject, {"schema": text, "schemaType": "PROTOBUF"})
        form = Protobuf(subject=subject)
    else:
        number = registry.register(subject, {"schema": json.dumps(DOCUMENT), "schemaType": "JSON"})
        form = Json(subject=subject)
    sender = producer(**at(registry))
    for _ in range(2):
        sender.send_batch(TABLE, topic, value=form).result(PATIENCE)
    assert registry.posted == []
    assert registry.asked.count(f"/subjects/{subject}/versions/latest") == 1
    assert {(each.value or b"")[:5] for each in stored(ground.bootstrap, topic)} == {b"\0" + number.to_bytes(4, "big")}
    assert read(ground, registry, topic, form)[:2] == TABLE.to_pylist()


def test_each_message_of_a_subject_is_written_as_itself(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    text = 'syntax = "proto3"; message Order { int64 id = 1; } message Refund { string reason = 7; int64 id = 2; }'
    registry.register("shop", {"schema": text, "schemaType": "PROTOBUF"})
    topic, sender, table = ground.topic(), producer(**at(registry)), TABLE.select(["id"])[:1]
    for message in ("Order", "Refund"):
        sender.send_batch(table, topic, value=Protobuf(subject="shop", message=message)).result(PATIENCE)
    # Behind the id stands the place of the message in its file, then the field 1 of Order, or 2 of Refund.
    assert [(each.value or b"")[5:] for each in stored(ground.bootstrap, topic)] == [b"\0\x08\1", b"\2\2\x10\1"]
    with pytest.raises(ArgumentError, match="message"):
        sender.send_batch(table, topic, value=Protobuf(subject="shop"))


def test_reasons_that_a_registry_keeps_to_itself_are_asked_for(producer: ProducerFactory, registry: Registry) -> None:
    registry.instead = lambda _path: (409, b'{"error_code": 409, "message": "incompatible"}')
    registry.incompatible = ["field id: another type", "field user: gone"]
    sender = producer(**at(registry, bootstrap_servers="127.0.0.1:1"))
    with pytest.raises(SchemaRegistryError, match="409 incompatible; field id: another type; field user: gone"):
        sender.send_batch(TABLE, "t", value=Json(framing="confluent"))


def test_a_schema_that_is_registered_by_hand_is_the_same_version(
    ground: Ground, producer: ProducerFactory, registry: Registry
) -> None:
    schema = record(field("id", "long"), field("user", ["null", "string"], default=None), name="Order")
    backwards = json.dumps(dict(reversed(schema.items())), indent=2)
    topic = ground.topic()
    number = monedula.SchemaRegistry({"schema.registry.url": registry.url}).register(f"{topic}-value", backwards)
    producer(**at(registry)).send_batch(TABLE, topic, value=Avro(schema)).result(PATIENCE)
    assert registry.subjects == {f"{topic}-value": [number]}

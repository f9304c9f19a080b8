"""`send` of dicts and objects, which a producer with `value=Avro(...)`, `Protobuf(...)` or `Json(...)` encodes."""

import asyncio
import enum
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import confluent_kafka.schema_registry.avro as confluent_avro
import confluent_kafka.schema_registry.json_schema as confluent_json
import monedula
import numpy as np
import pandas as pd
import pyarrow as pa
import pydantic
import pytest
from confluent_kafka.schema_registry import (
    Association,
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from monedula import ArgumentError, Avro, Json, Protobuf
from monedula.errors import ClosedError, ConfigError, KafkaTimeoutError, SchemaRegistryError
from monedula.testing import Broker

from tests.consumer.avro_values import field, record
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
ITEM = record(
    field("name", "string"),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    name="Item",
)
ORDER = record(
    field("id", "long"),
    field("user", ["null", "string"], default=None),
    field("state", {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}, default="NEW"),
    field("items", {"type": "array", "items": ITEM}, default=[]),
    field("tags", {"type": "map", "values": "int"}, default={}),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}, default=0),
    name="Order",
)


class State(enum.Enum):
    NEW = 1
    DONE = 2


@dataclass
class Item:
    name: str
    price: Decimal


@dataclass
class Numbered:
    id: int


@dataclass
class Order:
    id: int
    user: str | None
    items: list[Item]


class Named(NamedTuple):
    id: int
    user: str | None


class Model(pydantic.BaseModel):
    id: int
    user: str | None = None


@attrs.define
class Attributes:
    id: int
    user: str | None = None


@pytest.fixture
def registry() -> Iterator[str]:
    with Broker(registry=True) as broker:
        assert broker.schema_registry_url is not None
        yield broker.schema_registry_url


def context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def by_confluent(registry: str, topic: str, value: Any) -> Any:
    return confluent_avro.AvroDeserializer(SchemaRegistryClient({"url": registry}))(value, context(topic))


def bytes_of(schema: Any, given: Any) -> bytes:
    """The bytes of a value without a frame, from a producer that reaches nobody."""
    with monedula.Producer(bootstrap_servers="127.0.0.1:1", value=schema, delivery_timeout_ms=1, linger_ms=0) as made:
        encoded = made._encoded(_arguments(given))
        made.close(0)
    value = encoded.value
    assert isinstance(value, bytes)
    return value


def _arguments(given: Any) -> Any:
    from monedula.producer._send_queue import SendArguments

    return SendArguments("t", given, None, None, None, None)


def test_dicts_are_encoded_by_the_registrys_schema_and_confluent_reads_them(
    ground: Ground, producer: ProducerFactory, registry: str
) -> None:
    topic = ground.topic()
    sender = producer(schema_registry_url=registry, key=Avro('"string"'), value=Avro(ORDER))
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    items = [{"name": "pen", "price": Decimal("1.50")}, {"name": "ink", "price": 2}]
    given = {"id": 7, "user": "Ada", "state": State.DONE, "items": items, "tags": {"a": 1}, "at": at}
    sender.send(topic, given, key="k").result(PATIENCE)
    sender.send(topic, {"id": 8}).result(PATIENCE)
    sender.send(topic, None, key="k").result(PATIENCE)
    first, second, third = stored(ground.bootstrap, topic)
    read = by_confluent(registry, topic, first.value)
    assert read == {**given, "state": "DONE", "items": [items[0], {"name": "ink", "price": Decimal("2.00")}]}
    assert by_confluent(registry, topic, second.value) == {
        "id": 8,
        "user": None,
        "state": "NEW",
        "items": [],
        "tags": {},
        "at": datetime.fromtimestamp(0, UTC),
    }
    assert third.value is None
    assert isinstance(first.key, bytes)
    assert first.key.endswith(b"\x02k")
    assert SchemaRegistryClient({"url": registry}).get_subjects() == [f"{topic}-key", f"{topic}-value"]


@pytest.mark.parametrize(
    "given",
    [
        Order(7, "Ada", [Item("pen", Decimal("1.5"))]),
        {"id": 7, "user": "Ada", "items": ({"name": "pen", "price": Decimal("1.5")},)},
    ],
)
def test_objects_are_encoded_by_their_fields(given: Any) -> None:
    plain = {"id": 7, "user": "Ada", "items": [{"name": "pen", "price": Decimal("1.50")}]}
    assert bytes_of(Avro(ORDER), given) == bytes_of(Avro(ORDER), plain)


@pytest.mark.parametrize("given", [Named(7, "Ada"), Model(id=7, user="Ada"), Attributes(7, "Ada")])
@pytest.mark.parametrize("form", [Avro(ORDER), Json("id bigint, user string"), Json()])
def test_objects_of_other_libraries_are_encoded_by_their_fields(given: Any, form: Any) -> None:
    assert bytes_of(form, given) == bytes_of(form, {"id": 7, "user": "Ada"})


def test_values_are_those_that_a_table_is_written_as() -> None:
    schema = record(
        field("b", "boolean"),
        field("i", "int"),
        field("f", "float"),
        field("d", "double"),
        field("x", "bytes"),
        field("day", {"type": "int", "logicalType": "date"}),
        field("clock", {"type": "long", "logicalType": "time-micros"}),
        field("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        field("fixed", {"type": "fixed", "name": "F", "size": 2}),
        name="All",
    )
    given = {
        "b": True,
        "i": -5,
        "f": 0.5,
        "d": 3,
        "x": b"ab",
        "day": date(1969, 12, 31),
        "clock": time(1, 2, 3, 4),
        "local": datetime(2026, 1, 1),
        "fixed": b"cd",
    }
    table = pa.table({"value": pa.array([{**given, "d": 3.0}])})
    (expected,) = Avro(schema).spec.encode(table)
    assert bytes_of(Avro(schema), given) == expected


@pytest.mark.parametrize(
    ("given", "branch"),
    [
        (None, b"\x00"),
        (5, b"\x02\x0a"),
        (1 << 40, b"\x04" + b"\x80" * 5 + b"\x40"),
        ("DONE", b"\x06\x08DONE"),
        (State.DONE, b"\x08\x02"),
        ({"name": "pen", "price": 1}, b"\x0a\x06pen\x02\x64"),
        (UUID(int=1), b"\x06\x48" + str(UUID(int=1)).encode()),
        ([1], b"\x0c\x02\x02\x00"),
    ],
)
def test_the_branch_of_a_union_is_the_nearest_to_the_value(given: Any, branch: bytes) -> None:
    state = {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}
    schema = ["null", "int", "long", "string", state, ITEM, {"type": "array", "items": "int"}]
    outer = record(field("u", schema), name="Outer")
    if given == 1 << 40:
        assert bytes_of(Avro(outer), {"u": given})[:1] == b"\x04"
        return
    assert bytes_of(Avro(outer), {"u": given}) == branch


def test_a_recursive_schema_takes_any_depth() -> None:
    schema = record(field("n", "int"), field("next", ["null", "Node"], default=None), name="Node")
    form = Avro(schema, options={"recursiveFieldMaxDepth": "2"})
    assert bytes_of(form, {"n": 1, "next": {"n": 2, "next": {"n": 3}}}) == b"\x02\x02\x04\x02\x06\x00"
    endless: dict[str, Any] = {"n": 1}
    endless["next"] = endless
    with pytest.raises(ArgumentError, match="nested deeper"):
        bytes_of(form, endless)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": "7"}, r"value: id: a str, and the schema has long there; expected an int"),
        ({}, r"value: id: is missing, and the schema has long there, without a default"),
        ({"id": 7, "usr": "x"}, r"value: usr: the schema has no such field, only id, user"),
        ({"id": 1 << 70}, r"value: id: a number that the schema's long cannot hold"),
        ({"id": 1, "items": [{"name": "a", "price": 1}, {"name": 2, "price": 1}]}, r"value: items\[1\]\.name: an int"),
        ({"id": 1, "items": [{"name": "a", "price": Decimal("0.001")}]}, r"items\[0\]\.price: .*more decimal places"),
        ({"id": 1, "tags": {"a": "secret"}}, r"tags\[\"a\"\]: a str"),
        ({"id": 1, "state": "OLD"}, r"state: a str that is no symbol of the enum, which has NEW, DONE"),
        ({"id": 1, "at": datetime(2026, 1, 1)}, r"at: a datetime without a zone"),
        ({"id": 1, "user": object()}, r"user: an object of object; expected"),
        ({"id": 1, "user": "\ud800"}, r"user: a str that cannot be written as UTF-8"),
        ("text", r"value: a str, and the schema has record Order there"),
    ],
)
def test_what_is_no_value_of_the_schema_is_refused_with_its_place(given: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as raised:
        bytes_of(Avro(ORDER), given)
    assert "nothing was sent" in str(raised.value)
    assert "secret" not in str(raised.value)


class Raising:
    """An object whose field cannot be read."""

    __dataclass_fields__ = Order.__dataclass_fields__

    @property
    def id(self) -> int:
        raise ValueError("not loaded")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (timedelta.max, r"value: a: a timedelta of more microseconds than 64 bits hold"),
        (time(12, tzinfo=UTC), r"value: a: a time with a zone, which would be lost"),
        (np.datetime64("2026-01-01T00:00:00.000000001"), r"value: a: a time of numpy with a unit that datetime"),
        (np.timedelta64(5, "ns"), r"value: a: a time of numpy with a unit that datetime"),
        (pd.Timestamp("2026-01-01T00:00:00.000000123", tz="UTC"), r"value: a: is more precise than microseconds"),
        (np.longdouble(1.5), r"value: a: an object of numpy.longdouble; expected"),
        ([pd.NaT], r"value: a\[0\]: reading it raised ValueError"),
        (Raising(), r"value: a\.id: reading it raised ValueError: not loaded"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_times_that_would_be_written_as_others_and_what_cannot_be_read_are_refused(given: Any, message: str) -> None:
    for form in (Avro(record(field("a", "long"))), Json()):
        with pytest.raises(ArgumentError, match=message):
            bytes_of(form, {"a": given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "t", "headers": [5]}, r"^headers=\[5\] \(list\)"),
        ({"topic": "t", "partition": -1}, r"^partition=-1"),
    ],
)
def test_what_is_wrong_beside_the_value_is_told_before_a_registry_is_asked(given: Any, message: str) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "schema.registry.url": "http://127.0.0.1:1"}
    with (
        monedula.Producer(settings, value=Avro(ORDER, id_in_header=True)) as made,
        pytest.raises(ArgumentError, match=message),
    ):
        made.send(value={"id": 1}, **given)


def test_a_dict_that_changes_while_it_is_read_is_written_as_it_was() -> None:
    given: dict[str, Any] = {}

    class Changing:
        __dataclass_fields__ = Numbered.__dataclass_fields__

        @property
        def id(self) -> int:
            given["late"] = 1
            return 7

    given |= {"a": Changing(), "b": 1}
    assert bytes_of(Json(), given) == b'{"a":{"id":7},"b":1}'


def test_a_fault_deep_in_unions_is_found_at_once() -> None:
    second = record(field("next", ["null", "First", "Second", "int"]), name="Second")
    first = record(field("next", ["null", "First", second, "int"]), name="First")
    form = Avro(record(field("a", ["null", first])), options={"recursiveFieldMaxDepth": "2"})
    given: Any = "no int"
    for _ in range(60):
        given = {"next": given}
    with pytest.raises(ArgumentError, match="value: a"):
        bytes_of(form, {"a": given})


PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; package shop;
enum Kind { UNKNOWN = 0; BOOK = 1; }
message Order { int64 id = 1; optional string user = 2; repeated Item items = 3; map<int32, string> notes = 4;
  google.protobuf.Timestamp at = 5; Kind kind = 6; oneof pay { string card = 7; int64 cash = 8; }
  message Item { string name = 1; double price = 2; } }"""


class Kind(enum.IntEnum):
    UNKNOWN = 0
    BOOK = 1


def test_protobuf_messages_are_encoded_from_dicts() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    items = [{"name": "pen", "price": 1.5}]
    given = {"id": 7, "items": items, "notes": {1: "one"}, "at": at, "kind": Kind.BOOK, "cash": 5}
    form = Protobuf(PROTO, message="shop.Order")
    table = pa.table(form.spec.decode([bytes_of(form, given)]))
    (read,) = table["value"].to_pylist()
    assert read == {**given, "user": None, "kind": "BOOK", "card": None, "notes": [(1, "one")]}
    for bad, message in [
        ({"id": 1.5}, "value: id: a float"),
        ({"idd": 1}, "value: idd: the schema has no such field"),
        ({"items": [{"name": "a"}, {"name": 1}]}, r"value: items\[1\]\.name: an int"),
        ({"card": "1", "cash": 2}, "card and cash"),
        ({"kind": "PEN"}, "value: kind"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            bytes_of(form, bad)


def test_messages_of_googles_classes_are_sent_as_they_are(
    ground: Ground, producer: ProducerFactory, registry: str
) -> None:
    topic = ground.topic()
    number = descriptor_pb2.FieldDescriptorProto(name="id", number=1, type=3, label=1)
    message = descriptor_pb2.DescriptorProto(name="Order", field=[number])
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", message_type=[message]
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    sender = producer(schema_registry_url=registry, value=Protobuf(order))
    sender.send(topic, order(id=5)).result(PATIENCE)
    (only,) = stored(ground.bootstrap, topic)
    assert only.value == b"\0\0\0\0\x01\0\x08\x05"
    with pytest.raises(ArgumentError, match=r"a message google\.protobuf\.FileDescriptorSet"):
        sender.send(topic, descriptor_pb2.FileDescriptorSet())


def test_json_is_encoded_with_and_without_a_schema() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    given = {
        "id": 7,
        "at": at,
        "day": date(2026, 1, 2),
        "price": Decimal("1.50"),
        "raw": b"ab",
        "u": UUID(int=1),
        "no": None,
        "list": [1, "two", {"x": True}],
        "kind": State.NEW,
    }
    assert json.loads(bytes_of(Json(), given)) == {
        "id": 7,
        "at": "2026-01-02T03:04:05.000Z",
        "day": "2026-01-02",
        "price": 1.5,
        "raw": "YWI=",
        "u": str(UUID(int=1)),
        "list": [1, "two", {"x": True}],
        "kind": 1,
    }
    form = Json(
        "id bigint, at timestamp, items array<struct<price: decimal(9,2)>>", options={"timestampFormat": "yyyy"}
    )
    typed = bytes_of(form, {"id": 7, "at": at, "items": [{"price": Decimal("1.5")}, {}]})
    assert typed == b'{"id":7,"at":"2026","items":[{"price":1.50},{}]}'
    with pytest.raises(ArgumentError, match=r"value: items\[1\]\.price: a str"):
        bytes_of(form, {"items": [{}, {"price": "1"}]})
    with pytest.raises(ArgumentError, match="value: t: a timedelta"):
        bytes_of(Json(), {"t": timedelta(1)})


def test_registered_json_is_read_by_confluent(ground: Ground, producer: ProducerFactory, registry: str) -> None:
    topic = ground.topic()
    schema = {"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    sender = producer(schema_registry_url=registry, value=Json(schema, framing="confluent"))
    sender.send(topic, {"id": 7}).result(PATIENCE)
    (only,) = stored(ground.bootstrap, topic)
    deserializer = confluent_json.JSONDeserializer(
        json.dumps(schema), schema_registry_client=SchemaRegistryClient({"url": registry})
    )
    assert deserializer(only.value, context(topic)) == {"id": 7}
    with pytest.raises(ArgumentError, match="must be known before the first"):
        producer(schema_registry_url=registry, value=Json(framing="confluent")).send(topic, {"id": 7})


def test_each_topic_may_have_its_own_form(ground: Ground, producer: ProducerFactory) -> None:
    orders, raw = ground.topic(), ground.topic()
    sender = producer(value={orders: Json()})
    sender.send(orders, {"id": 7}).result(PATIENCE)
    sender.send(raw, b"bytes").result(PATIENCE)
    with pytest.raises(ArgumentError, match="expected bytes"):
        sender.send(raw, {"id": 7})
    assert [each.value for each in stored(ground.bootstrap, orders)] == [b'{"id":7}']
    assert [each.value for each in stored(ground.bootstrap, raw)] == [b"bytes"]
    with pytest.raises(ArgumentError, match=r"expected monedula\.Json"):
        producer(value=json.dumps)


def test_a_table_is_written_as_the_producer_says(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    sender = producer(value=Json())
    sender.send_batch(pa.table({"id": [1, 2]}), topic).result(PATIENCE)
    assert [each.value for each in stored(ground.bootstrap, topic)] == [b'{"id":1}', b'{"id":2}']


def test_the_schema_of_a_subject_is_asked_for_once(ground: Ground, producer: ProducerFactory, registry: str) -> None:
    topic = ground.topic()
    monedula.SchemaRegistry(schema_registry_url=registry).register(f"{topic}-value", ORDER)
    sender = producer(schema_registry_url=registry, value=Avro())
    for number in range(3):
        sender.send(topic, {"id": number}).result(PATIENCE)
    read = [by_confluent(registry, topic, each.value)["id"] for each in stored(ground.bootstrap, topic)]
    assert read == [0, 1, 2]
    with pytest.raises(SchemaRegistryError, match="not found"):
        sender.send(ground.topic(), {"id": 1})


def test_send_waits_no_longer_than_max_block_for_a_registry(broker: Broker) -> None:
    with Broker(registry=True) as other:
        held = other.registry.fault(hold=True)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": other.schema_registry_url}
        broker.create_topic("orders")
        with monedula.Producer(settings, value=Avro(ORDER), max_block_ms=100) as sender:
            with pytest.raises(
                KafkaTimeoutError, match=r"orders: the schema registry did not answer within max.block.ms"
            ):
                sender.send("orders", {"id": 7})
            held.remove()
            sender.send("orders", {"id": 8}).result(PATIENCE)
        (only,) = stored(broker.bootstrap_servers, "orders")
        assert by_confluent(str(other.schema_registry_url), "orders", only.value)["id"] == 8


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_registry_that_fails_is_the_reason_that_is_told(broker: Broker, face: str) -> None:
    async def send_async(settings: dict[str, Any]) -> None:
        async with monedula.AsyncProducer(settings, value=Avro(ORDER)) as sender:
            await sender.send("orders", {"id": 7})

    def send(settings: dict[str, Any]) -> None:
        with monedula.Producer(settings, value=Avro(ORDER)) as sender:
            sender.send("orders", {"id": 7})

    with Broker(registry=True) as other:
        other.registry.fault(status=500)
        url = str(other.schema_registry_url)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": url, "max.block.ms": 300}
        settings["schema.registry.max.retries"] = 100
        with pytest.raises(KafkaTimeoutError, match=f"the last error: {url}/.* answered 500") as raised:
            send(settings) if face == "sync" else asyncio.run(send_async(settings))
        assert "answered 500" in str(raised.value.last_error)
        assert "max.block.ms=300" in str(raised.value)


@pytest.mark.parametrize("topic", ["a b", "", "x" * 250])
def test_a_bad_name_of_a_topic_is_told_before_a_registry_is_asked(broker: Broker, topic: str) -> None:
    async def send_async() -> None:
        async with monedula.AsyncProducer(settings, value=Avro(ORDER)) as sender:
            for send in (lambda: sender.send(topic, {"id": 7}), lambda: sender.send_batch(rows, topic)):
                with pytest.raises(ArgumentError, match="is no name for a topic"):
                    await send()

    rows = pa.table({"id": [1]})
    with Broker(registry=True) as other:
        asked = other.registry.fault(status=500)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": other.schema_registry_url}
        asyncio.run(send_async())
        with monedula.Producer(settings, value=Avro(ORDER)) as sender:
            for send in (lambda: sender.send(topic, {"id": 7}), lambda: sender.send_batch(rows, topic)):
                with pytest.raises(ArgumentError, match="is no name for a topic"):
                    send()
        assert asked.hits == 0


def test_a_registry_does_not_block_a_loop_and_records_keep_their_order_and_content(broker: Broker) -> None:
    async def main() -> None:
        with Broker(registry=True) as other:
            held = other.registry.fault(hold=True)
            settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": other.schema_registry_url}
            broker.create_topic("orders")
            async with monedula.AsyncProducer(settings, value=Avro(ORDER)) as sender:
                given = {"id": 0}
                futures = []
                for number in range(50):
                    given["id"] = number
                    futures.append(sender.send("orders", given))
                with pytest.raises(ArgumentError, match="an object of object"):
                    sender.send("orders", {"id": object()})
                bad = sender.send("orders", {"id": "no number"})
                assert not futures[0].done()
                held.remove()
                places = await asyncio.gather(*futures)
                assert [place.offset for place in places] == list(range(50))
                with pytest.raises(ArgumentError, match="id: a str"):
                    await bad
                await sender.send("orders", {"id": 50})
            read = [
                by_confluent(str(other.schema_registry_url), "orders", each.value)["id"]
                for each in stored(broker.bootstrap_servers, "orders")
            ]
            assert read == list(range(51))

    asyncio.run(main())


def test_closing_a_producer_ends_the_wait_for_a_registry(broker: Broker) -> None:
    with Broker(registry=True) as other:
        asked = threading.Event()
        other.registry.fault(hold=True)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": other.schema_registry_url}
        sender = monedula.Producer(settings, value=Avro(ORDER))
        errors: list[BaseException] = []

        def send() -> None:
            asked.set()
            try:
                sender.send("orders", {"id": 7})
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        assert asked.wait(PATIENCE)
        sender.close()
        thread.join(PATIENCE)
        assert [type(error).__name__ for error in errors] == ["ClosedError"]


def test_closing_a_loops_producer_leaves_no_future_open(broker: Broker) -> None:
    async def main() -> None:
        with Broker(registry=True) as other:
            other.registry.fault(hold=True)
            settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": other.schema_registry_url}
            sender = monedula.AsyncProducer(settings, value=Avro(ORDER))
            futures = [sender.send("orders", {"id": number}) for number in range(20)]
            await sender.close(0.2)
            assert all(future.done() for future in futures)
            for future in futures:
                with pytest.raises(ClosedError, match="the producer is closed"):
                    await future

    asyncio.run(main())


def test_a_partitioner_gets_bytes(ground: Ground) -> None:
    topic, seen = ground.topic(2), []

    def partitioner(*given: Any) -> int:
        seen.append(given)
        return 1

    with monedula.Producer(bootstrap_servers=ground.bootstrap, partitioner=partitioner, value=Json()) as sender:
        assert sender.send(topic, {"id": 7}, key="k").result(PATIENCE).partition == 1
    assert seen == [(topic, b"k", b'{"id":7}', 2)]


# Ids in headers


def test_the_guid_is_in_a_header_and_confluent_reads_it(
    ground: Ground, producer: ProducerFactory, registry: str
) -> None:
    topic = ground.topic()
    sender = producer(schema_registry_url=registry, value=Avro(ORDER, id_in_header=True))
    stale = [("trace", b"1"), ("__value_schema_id", b"\x01" + b"\0" * 16)]
    sender.send(topic, {"id": 1}, headers=stale).result(PATIENCE)
    rows = pa.table({"value": pa.array([{"id": 2}]), "headers": pa.array([stale], pa.map_(pa.string(), pa.binary()))})
    sender.send_batch(rows, topic).result(PATIENCE)
    client = SchemaRegistryClient({"url": registry})
    guid = client.get_latest_version(f"{topic}-value").guid
    header = b"\x01" + UUID(guid).bytes
    deserializer = confluent_avro.AvroDeserializer(client, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    for number, each in enumerate(stored(ground.bootstrap, topic), 1):
        assert each.headers == [("trace", b"1"), ("__value_schema_id", header)]
        assert deserializer(each.value, context(topic, each.headers))["id"] == number
        assert each.value == bytes_of(Avro(ORDER), {"id": number})
    settings = {"bootstrap.servers": ground.bootstrap, "schema.registry.url": registry}
    with monedula.read(settings, topic, value=Avro(ORDER, flatten=True)) as stream:
        assert pa.table(stream)["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("form", "given"),
    [
        (Protobuf(PROTO, message="shop.Order.Item", id_in_header=True), {"name": "pen", "price": 1.5}),
        (Json({"type": "object", "properties": {"id": {"type": "integer"}}}, id_in_header=True), {"id": 7}),
    ],
)
def test_the_guid_of_protobuf_and_json_is_in_a_header(
    ground: Ground, producer: ProducerFactory, registry: str, form: Any, given: Any
) -> None:
    topic = ground.topic()
    sender = producer(schema_registry_url=registry, value=form)
    sender.send(topic, given).result(PATIENCE)
    (only,) = stored(ground.bootstrap, topic)
    ((name, header),) = only.headers or []
    assert isinstance(header, bytes)
    assert (name, header[:1]) == ("__value_schema_id", b"\x01")
    # The places of the message in its file follow the GUID.
    assert header[17:] == (b"\x04\0\x02" if isinstance(form, Protobuf) else b"")
    settings = {"bootstrap.servers": ground.bootstrap, "schema.registry.url": registry}
    reader = (
        Protobuf(PROTO, message="shop.Order.Item")
        if isinstance(form, Protobuf)
        else Json("id bigint", framing="confluent")
    )
    with monedula.read(settings, topic, value=reader) as stream:
        assert pa.table(stream)["value"].to_pylist() == [given]


def test_an_id_in_a_header_needs_an_id() -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    with pytest.raises(ArgumentError, match=r"schema\.registry\.url"):
        bytes_of(Avro(ORDER, id_in_header=True), {"id": 1})
    form = Avro(ORDER, schemas={guid: ORDER}, id_in_header=True)
    with monedula.Producer(bootstrap_servers="127.0.0.1:1", value=form) as sender:
        found = sender._encoded(_arguments({"id": 1}))
        assert found.headers == [("__value_schema_id", b"\x01" + UUID(guid).bytes)]
    with pytest.raises(ArgumentError, match="only ids of Confluent's framing"):
        Avro(ORDER, framing="bare", id_in_header=True)


# Associated subjects


def associate(registry: str, topic: str, subject: str, schema: Any = ORDER) -> list[Association]:
    client = SchemaRegistryClient({"url": registry})
    monedula.SchemaRegistry(schema_registry_url=registry).register(subject, schema)
    own = AssociationCreateOrUpdateInfo(subject=subject, association_type="value")
    client.create_association(AssociationCreateOrUpdateRequest(topic, "-", f"id-{topic}", "topic", [own]))
    found: list[Association] = client.get_associations_by_resource_name(topic, "-", "topic", ["value"])
    return found


def test_the_associated_subject_is_written_and_read(ground: Ground, producer: ProducerFactory, registry: str) -> None:
    topic, other = ground.topic(), ground.topic()
    (known,) = associate(registry, topic, "shop.orders")
    assert known.subject == "shop.orders"
    strategy = {"value_subject_name_strategy": "AssociatedNameStrategy", "schema_registry_url": registry}
    sender = producer(**strategy, value=Avro())
    sender.send(topic, {"id": 7}).result(PATIENCE)
    sender = producer(**strategy, value=Avro(ORDER))
    sender.send(topic, {"id": 8}).result(PATIENCE)
    sender.send_batch(pa.table({"id": [9]}), topic).result(PATIENCE)
    sender.send(other, {"id": 1}).result(PATIENCE)
    subjects = SchemaRegistryClient({"url": registry}).get_subjects()
    assert sorted(subjects) == sorted([f"{other}-value", "shop.orders"])
    conf = {"subject.name.strategy.type": "ASSOCIATED"}
    deserializer = confluent_avro.AvroDeserializer(SchemaRegistryClient({"url": registry}), conf=conf)
    read = [deserializer(each.value, context(topic))["id"] for each in stored(ground.bootstrap, topic)]
    assert read == [7, 8, 9]
    settings = {"bootstrap.servers": ground.bootstrap, "schema.registry.url": registry}
    settings["value.subject.name.strategy"] = "AssociatedNameStrategy"
    with monedula.read(settings, topic, value=Avro(flatten=True)) as stream:
        assert pa.table(stream)["id"].to_pylist() == [7, 8, 9]
    consumer = monedula.Consumer({**settings, "group.id": ground.name("group")}, topic, value=Avro(flatten=True))
    with consumer, pytest.raises(ArgumentError, match=f"here of '{topic}'"):
        consumer.subscribe(other)


def test_a_topic_without_an_associated_subject_may_be_refused(
    ground: Ground, producer: ProducerFactory, registry: str
) -> None:
    topic = ground.topic()
    strategy = {"value_subject_name_strategy": "AssociatedNameStrategy", "schema_registry_url": registry}
    sender = producer(**strategy, subject_name_strategy_fallback_type="NONE", value=Avro(ORDER))
    with pytest.raises(ArgumentError, match=f"no subject with the values of the topic {topic}"):
        sender.send(topic, {"id": 7})
    associate(registry, topic, "shop.orders")
    sender.send(topic, {"id": 7}).result(PATIENCE)
    with pytest.raises(ConfigError):
        producer(subject_name_strategy_fallback_type="SOME")

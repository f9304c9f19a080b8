"""Protobuf keys and values that are decoded into typed columns while they are read."""

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import monedula
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp
from monedula import Protobuf
from monedula.testing import Broker

from tests.consumer.protobuf_values import SCALARS, File, expected, fill

EVERY = {
    **{f"{name}_one": name for name in SCALARS},
    **{f"{name}_maybe": f"optional {name}" for name in SCALARS},
    **{f"{name}_many": f"repeated {name}" for name in SCALARS},
    **{f"{name}_unpacked": f"unpacked {name}" for name in SCALARS if name not in ("string", "bytes")},
    "colour": ".t.Colour",
    "colours": "repeated .t.Colour",
    "item": ".t.Item",
    "items": "repeated .t.Item",
    "at": ".google.protobuf.Timestamp",
    "times": "repeated .google.protobuf.Timestamp",
    "took": ".google.protobuf.Duration",
    "wrapped": ".google.protobuf.UInt64Value",
    "text": ".google.protobuf.StringValue",
    "either": "oneof int32",
    "other": "oneof .t.Item",
    "third": "oneof string",
    **{
        f"by_{name}": f"map {name} {value}"
        for name, value in zip(
            [name for name in SCALARS if name not in ("double", "float", "bytes")],
            ["string", ".t.Item", ".t.Colour", *SCALARS],
            strict=False,
        )
    },
}
ITEM = {"name": "string", "price": "double", "tags": "repeated string", "count": "optional sint32"}


@pytest.fixture
def topic(empty_topic: str) -> str:
    return empty_topic


def every(syntax: str) -> File:
    file = File(f"every_{syntax}.proto", syntax)
    file.message("Item", ITEM)
    fields = EVERY if syntax == "proto3" else {**EVERY, "needed": "required int32"}
    file.message("Every", fields)
    return file


ORDERS = File("orders.proto")
ORDERS.message("Order", {"id": "int64", "user": "optional string", "tags": "repeated string"})
ORDERS.message("Refund", {"id": "int64", "reason": "string"})
Order, Refund = ORDERS.build("Order", "Refund")


def anything(value: object) -> Any:
    """What a type checker would refuse."""
    return value


def order(number: int) -> dict[str, Any]:
    return {"id": number, "user": f"u{number}" if number % 2 else None, "tags": ["t"] * (number % 3)}


def written(number: int) -> bytes:
    return bytes(
        anything(Order)(
            **{name: value for name, value in order(number).items() if value is not None}
        ).SerializeToString()
    )


def rows(spec: Protobuf, values: Sequence[bytes | None]) -> list[Any]:
    column = pa.table(spec.spec.decode(values))["value"].combine_chunks()
    column.validate(full=True)
    return [_plain(column.type, value) for value in column.to_pylist()]


def _plain(kind: pa.DataType, value: Any) -> Any:
    """A row whose maps are dicts."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return {key: _plain(kind.item_type, each) for key, each in value}
    if pa.types.is_list(kind):
        return [_plain(kind.value_type, each) for each in value]
    return value


def _equal(one: Any, other: Any) -> bool:
    """Whether two rows are alike, in NaN too."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other or (one != one and other != other))


def read(broker: Broker, topic: str, **arguments: Any) -> pa.Table:
    with monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic, **arguments) as stream:
        return stream.to_pyarrow().sort_by("offset")


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_every_kind_of_field_is_what_googles_package_reads(syntax: str) -> None:
    (kind,) = every(syntax).build("Every")
    chance = random.Random(7)
    values, wanted = [], []
    for _ in range(300):
        message = anything(kind)()
        fill(message, chance)
        values.append(message.SerializeToString())
        wanted.append(expected(kind.FromString(values[-1])))
    assert rows(Protobuf(kind), values) == wanted
    assert rows(Protobuf(every(syntax).text(), message="t.Every"), values) == wanted


def test_messages_in_several_parts_are_merged_as_by_googles_package() -> None:
    """Two messages one behind the other are one: the last scalar counts, lists go on, sub-messages merge."""
    (kind,) = every("proto3").build("Every")
    chance = random.Random(8)
    values = []
    for _ in range(300):
        parts = []
        for _ in range(chance.choice((2, 2, 3, 5))):
            message = anything(kind)()
            fill(message, chance, depth=2)
            parts.append(message.SerializeToString())
        values.append(b"".join(parts))
    assert rows(Protobuf(kind), values) == [expected(kind.FromString(value)) for value in values]


def test_what_is_cut_off_or_changed_is_refused_where_googles_package_refuses_it() -> None:
    """But for a field of another wire type, which is unknown to Google's package, and refused here as in Spark."""
    (kind,) = every("proto3").build("Every")
    chance, compared = random.Random(9), 0
    spec = Protobuf(kind, mode="null")
    for _ in range(40):
        message = anything(kind)()
        fill(message, chance, depth=2)
        value = message.SerializeToString()
        for _ in range(40):
            changed = bytearray(value[: chance.randrange(len(value) + 1)])
            if changed and chance.random() < 0.7:
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            try:
                (row,) = rows(spec, [bytes(changed)])
                wanted = expected(kind.FromString(bytes(changed)))
            except DecodeError:
                wanted = None
            except (OverflowError, ValueError):
                # A time that Python has not.
                continue
            if row is not None or wanted is None:
                assert _equal(row, wanted), bytes(changed)
                compared += 1
    assert compared > 1000


def test_a_value_is_a_struct_of_the_messages_fields(broker: Broker, topic: str) -> None:
    broker.append(topic, [*map(written, range(10)), ("k", None)])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    with monedula.Consumer(settings, value=Protobuf(Order)) as reader:
        reader.assign([topic])
        batch = reader.poll(timeout=20)
        table = pa.record_batch(batch)
        table.validate(full=True)
        wanted = [*map(order, range(10)), None]
        assert table["value"].to_pylist() == wanted
        assert [record.value for record in batch.records()] == wanted
        assert pa.schema(anything(reader.schema)) == table.schema


def test_records_give_values_of_every_kind(broker: Broker, topic: str) -> None:
    (kind,) = every("proto3").build("Every")
    message, chance = anything(kind)(), random.Random(3)
    fill(message, chance, depth=-1)
    broker.append(topic, [message.SerializeToString()])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    with monedula.Consumer(settings, value=Protobuf(kind)) as reader:
        reader.assign([topic])
        (record,) = reader.poll(timeout=20).records()
    assert record.value == expected(message)


def test_fields_are_columns_of_their_own_if_they_are_flattened(broker: Broker, topic: str) -> None:
    broker.append(topic, [(written(7), written(number)) for number in range(5)])
    table = read(broker, topic, key=Protobuf(Order), value=Protobuf(Order, flatten=True))
    assert table["id"].to_pylist() == list(range(5))
    assert table["key"].to_pylist() == [order(7)] * 5


def framed(schema_id: int, indexes: bytes, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + indexes + body


def test_a_frame_must_name_the_message() -> None:
    spec = Protobuf(Order, framing="confluent")
    for indexes in (b"\x00", b"\x02\x00"):
        assert rows(spec, [framed(7, indexes, written(3))]) == [order(3)]
    refused = {
        b"\x02\x02": r"\[1\], which in the given schema is t\.Refund",
        b"\x01\x01": "deprecated format",
        b"\x04\x00\x00": r"names message \[0, 0\]",
        b"\x02": "indexes of the message do not follow",
        b"": "indexes of the message do not follow",
    }
    for indexes, reason in refused.items():
        with pytest.raises(ValueError, match=reason):
            rows(spec, [framed(7, indexes, b"")])
    for message in (written(3), Order(user="u").SerializeToString(), Order(tags=["t"] * 9).SerializeToString()):
        with pytest.raises(ValueError, match="its serializer wrote no indexes, as Confluent's do"):
            rows(spec, [framed(7, b"", message)])
    assert rows(Protobuf(Refund, framing="confluent"), [framed(7, b"\x02\x02", Refund(id=5).SerializeToString())]) == [
        {"id": 5, "reason": ""}
    ]
    with pytest.raises(ValueError, match="behind a frame of Confluent's"):
        rows(Protobuf(Order), [framed(7, b"\x00", written(3))])


def test_schemas_say_which_ids_there_are_and_what_number_the_message_has() -> None:
    other = File("other.proto")
    other.message("Header", {"x": "int32"})
    other.message("Order", {"id": "int64", "user": "optional string", "tags": "repeated string", "more": "string"})
    (newer,) = other.build("Order")
    spec = Protobuf(Order, schemas={7: Order, 8: newer})
    body = anything(newer)(id=4, more="m").SerializeToString()
    assert rows(spec, [framed(7, b"\x00", written(3)), framed(8, b"\x02\x02", body)]) == [
        order(3),
        {"id": 4, "user": None, "tags": []},
    ]
    with pytest.raises(
        ValueError,
        match=r"id 8 names message \[0\], which in its schema is t\.Header; the column is of t\.Order, which is \[1\]",
    ):
        rows(spec, [framed(8, b"\x00", body)])
    with pytest.raises(ValueError, match="no schema was given for id 9"):
        rows(spec, [framed(9, b"\x00", body)])


def test_a_writers_schema_without_messages_is_refused() -> None:
    reason = r"schemas\[7\]: there is no message M: the schema has no messages at all"
    with pytest.raises(monedula.ArgumentError, match=reason):
        Protobuf('syntax = "proto3"; message M { int32 a = 1; }', schemas={7: 'syntax = "proto3"; enum E { A = 0; }'})


@pytest.mark.parametrize("position", range(4))
def test_a_bad_record_is_where_it_is(broker: Broker, topic: str, position: int) -> None:
    values = [written(number) for number in range(4)]
    values[position] += b"\x12\x05x"
    broker.append(topic, values)
    kept = [order(number) for number in range(4) if number != position]
    dropped = read(broker, topic, value=Protobuf(Order, mode="drop"))
    assert dropped["value"].to_pylist() == kept
    nulls = read(broker, topic, value=Protobuf(Order, mode="null"))["value"].to_pylist()
    assert nulls[position] is None
    with pytest.raises(monedula.DecodeError, match="user: a length of 5") as error:
        read(broker, topic, value=Protobuf(Order))
    assert error.value.offset == position


def test_options_are_those_of_sparks_from_protobuf() -> None:
    (kind,) = every("proto3").build("Every")
    spec = Protobuf(
        kind,
        options={
            "emit.default.values": False,
            "enums.as.ints": True,
            "upcast.unsigned.ints": True,
            "unwrap.primitive.wrapper.types": False,
        },
    )
    message = anything(kind)(uint32_one=(1 << 32) - 1, uint64_one=(1 << 64) - 1, colour=2, fixed64_many=[1 << 63])
    message.wrapped.value = 5
    (row,) = rows(spec, [message.SerializeToString()])
    assert (row["uint32_one"], row["uint64_one"]) == ((1 << 32) - 1, (1 << 64) - 1)
    assert (row["colour"], row["fixed64_many"], row["wrapped"]) == (2, [1 << 63], {"value": 5})
    assert (row["int32_one"], row["string_one"], row["items"]) == (None, None, [])
    column = pa.table(spec.spec.decode([]))["value"].type
    assert column.field("uint32_one").type == pa.int64()
    assert column.field("uint64_one").type == pa.decimal128(20, 0)


def test_a_message_in_itself_is_cut_at_a_depth() -> None:
    file = File("tree.proto")
    file.message("Node", {"name": "string", "next": ".t.Node", "all": "repeated .t.Node"})
    (node,) = file.build("Node")
    with pytest.raises(monedula.ArgumentError, match=r"t\.Node is in itself; the option recursive\.fields\.max\.depth"):
        Protobuf(node)
    message = anything(node)(name="a", next={"name": "b", "next": {"name": "c"}})
    spec = Protobuf(node, options={"recursive.fields.max.depth": 2})
    assert rows(spec, [message.SerializeToString()]) == [{"name": "a", "next": {"name": "b"}, "all": []}]


def test_it_is_pickled_and_shown() -> None:
    spec = Protobuf(Order, mode="drop", schemas={7: Order})
    again = pickle.loads(pickle.dumps(spec))
    assert repr(again) == repr(spec)
    assert (
        repr(spec)
        == "Protobuf(id: int64, user: utf8, tags: list(utf8, field: 'element'), framing='confluent', mode='drop')"
    )
    assert rows(again, [framed(7, b"\x00", written(1))]) == [order(1)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Protobuf(b"\x0a\x05"), "no FileDescriptorSet"),
        (lambda: Protobuf(b""), "no message in the schema"),
        (lambda: Protobuf(Order, message="t.Nothing"), r"no message t\.Nothing; there are t\.Refund, t\.Order"),
        (lambda: Protobuf(descriptors(ORDERS)), r"several messages; give message=, one of t\.Order, t\.Refund"),
        (lambda: Protobuf(b"message M {}"), r"these bytes are the text of a \.proto file; give it as str"),
        (lambda: Protobuf(ORDERS.proto.SerializeToString()), "are of one file, and not of a FileDescriptorSet"),
        (lambda: Protobuf("order.proto"), r"is not the text of a \.proto file, but 'order\.proto'"),
        (lambda: Protobuf('syntax = "proto3";\nmessage M { int32 }'), "schema.proto: line 2: expected a name"),
        (
            lambda: Protobuf("message M { optional string a = 1; optional bytes b = 1; }"),
            "two fields have the number 1",
        ),
        (lambda: Protobuf("message M { optional Item a = 1; }"), "type Item is nowhere declared"),
        (lambda: Protobuf("message M { optional int32 a = 0; }"), "0 is not the number of a field"),
        (lambda: Protobuf(anything(5)), "expected descriptors as bytes"),
        (lambda: Protobuf(Order, framing=anything("x")), "expected 'bare', 'confluent', 'apicurio' or 'glue'"),
        (lambda: Protobuf(Order, framing="bare", schemas={7: Order}), "schemas by id are for framing='confluent'"),
        (lambda: Protobuf(Order, schemas={7: Timestamp}), r"schemas\[7\]: there is no message t\.Order"),
        (lambda: Protobuf(Order, options={"convert.any.fields.to.json": True}), "is not supported"),
        (lambda: Protobuf(Order, options={"nothing": True}), "no such option of from_protobuf"),
        (lambda: Protobuf(Order, options={"enums.as.ints": "maybe"}), "expected true or false"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=reason):
        make()


def descriptors(*files: File) -> bytes:
    # Without what they import, which none of their messages needs.
    return bytes(descriptor_pb2.FileDescriptorSet(file=[file.proto for file in files]).SerializeToString())


def test_texts_import_each_other() -> None:
    common = 'syntax = "proto3"; package a.b; message Id { message Part { int64 value = 1; } Part part = 1; }'
    text = """
        syntax = "proto3"; package a.c; import public "common.proto"; import "google/protobuf/timestamp.proto";
        message Order { b.Id id = 1; google.protobuf.Timestamp at = 2; repeated .a.b.Id.Part parts = 3; Kind kind = 4;
                        enum Kind { option allow_alias = true; A = 0; B = 0x10 [deprecated = true]; C = -1; } }
    """
    spec = Protobuf({"common.proto": common, "order.proto": text}, schemas={7: {"common.proto": common, "o": text}})
    value = framed(7, b"\x00", bytes.fromhex("0a040a020805 1202080a 1a020807 2010"))
    wanted = {"id": {"part": {"value": 5}}, "at": 10, "parts": [{"value": 7}], "kind": "B"}
    for each in (spec, pickle.loads(pickle.dumps(spec))):
        (row,) = rows(each, [value])
        assert {**row, "at": row["at"].timestamp()} == wanted


def test_groups_are_structs() -> None:
    text = "message M { repeated group Result = 1 { optional string url = 2; } optional int32 after = 3; }"
    value = bytes.fromhex("0b 120161 0c 0b 5b 080c 5c 120162 0c 1805 7b 7c")
    assert rows(Protobuf(text), [value]) == [{"result": [{"url": "a"}, {"url": "b"}], "after": 5}]


def test_descriptors_are_a_schema() -> None:
    read = descriptor_pb2.FileDescriptorSet.FromString(descriptors(ORDERS))
    for given in (descriptors(ORDERS), read, ORDERS.proto):
        spec = Protobuf(given, message="t.Order")
        for each in (spec, pickle.loads(pickle.dumps(spec))):
            assert rows(each, [written(3)]) == [order(3)]
    # A message of any other type stands for its class.
    assert rows(Protobuf(Order()), [written(3)]) == [order(3)]

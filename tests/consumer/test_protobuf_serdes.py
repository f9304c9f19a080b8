"""Protobuf and JSON of Apicurio's and AWS Glue's own serializers."""

import json
import random
from typing import Any
from uuid import UUID

import monedula
import pyarrow as pa
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import Int32Value
from monedula import Json, Protobuf
from monedula.testing import Broker

from tests.consumer.protobuf_values import File, expected, fill
from tests.consumer.test_avro_serdes import read
from tests.consumer.test_typed_protobuf import EVERY, ITEM
from tests.kafka.serdes import Apicurio, Glue, Schema, Serdes, Written

pytestmark = pytest.mark.jvm

IMPORTED = tuple(module.DESCRIPTOR.file.serialized_pb for module in (Duration, Timestamp, Int32Value))
VERSION = UUID("89791762-2336-4186-9674-299b90a802e2")
SERDES: list[Apicurio | Glue] = [
    *(Apicurio(7, 70, use_id, id_bytes) for use_id in ("contentId", "globalId") for id_bytes in (4, 8)),
    *(Apicurio(7, 70, use_id, in_headers=True) for use_id in ("contentId", "globalId")),
    Apicurio(7, 70, in_headers=True, is_key=True),
    Glue(VERSION),
    Glue(VERSION, zlib=True),
]
EACH = pytest.mark.parametrize("serde", SERDES, ids=str)


def every(chance: random.Random) -> File:
    """A file of some messages, of which each may be the first by number or by name."""
    file = File("t.proto")
    names = [*EVERY]
    for name in chance.sample(["Item", "Every", "Aye", "Zed"], 4):
        some = {name: EVERY[name] for name in names if chance.random() < 0.5} | {"id": "int64"}
        file.message(name, ITEM if name == "Item" else some)
    return file


def of(file: File, message: str) -> Schema:
    # Java's compiler wants all that is imported, and knows the options that there are.
    lines = file.text().replace(', (x.y) = { z: "}];" }', "").splitlines()
    text = "\n".join(line for line in lines if not line.startswith(("service", 'import "a/')))
    return Schema("PROTOBUF", text, (*IMPORTED, file.proto.SerializeToString()), message)


def framing(serde: Apicurio | Glue) -> dict[str, Any]:
    return {"framing": "glue" if isinstance(serde, Glue) else "apicurio"}


def key(serde: Apicurio | Glue) -> Any:
    """What a value names its schema by."""
    if isinstance(serde, Glue):
        return str(serde.version)
    return serde.content_id if serde.use_id == "contentId" else serde.global_id


def column(serde: Apicurio | Glue) -> str:
    return "key" if isinstance(serde, Apicurio) and serde.is_key else "value"


@EACH
def test_messages_of_any_place_in_their_file_are_read(serdes: Serdes, broker: Broker, serde: Apicurio | Glue) -> None:
    chance = random.Random(str(serde))
    for _ in range(6):
        file = every(chance)
        for name, kind in zip(("Item", "Every", "Aye", "Zed"), file.build("Item", "Every", "Aye", "Zed"), strict=True):
            messages = [kind() for _ in range(3)]
            for message in messages:
                fill(message, chance)
            values = serdes.write(serde, of(file, name), [each.SerializeToString() for each in messages])
            rows = [expected(each) for each in messages]
            for schemas in (None, {key(serde): kind}):
                typed = Protobuf(kind, schemas=schemas, **framing(serde))
                assert read(broker, values, typed, column(serde)) == rows


@EACH
def test_another_message_is_not_taken_for_this_one(serdes: Serdes, broker: Broker, serde: Apicurio | Glue) -> None:
    file = File("t.proto")
    file.message("Order", {"id": "int64", "by_name": "map string int64"})
    file.message("Refund", {"id": "int64"})
    order, refund = file.build("Order", "Refund")
    values = serdes.write(serde, of(file, "Refund"), [b"\x08\x05"])
    assert read(broker, values, Protobuf(refund, **framing(serde)), column(serde)) == [{"id": 5}]
    with pytest.raises(monedula.DecodeError, match=r"names message .*Refund; the column is of t\.Order"):
        read(broker, values, Protobuf(order, **framing(serde)), column(serde))


NESTED = """syntax = "proto3";
package t;
message Outer {
  map<string, int64> by_name = 1;
  message Zed { int64 id = 1; }
  message BySomething { int64 id = 1; }
}
message Aye { int64 id = 1; }
"""


@EACH
@pytest.mark.parametrize("name", ["Outer.Zed", "Outer.BySomething", "Aye"])
def test_messages_in_messages_are_read(serdes: Serdes, broker: Broker, serde: Apicurio | Glue, name: str) -> None:
    file = File("t.proto")
    file.message("Outer", {"by_name": "map string int64"})
    file.message("Aye", {"id": "int64"})
    outer = file.proto.message_type[0]
    # Compilers call it so, and AWS Glue counts it by its name.
    outer.nested_type[0].name, outer.field[0].type_name = "ByNameEntry", ".t.Outer.ByNameEntry"
    for nested in ("Zed", "BySomething"):
        outer.nested_type.add(name=nested).field.add(name="id", number=1, label=1, type=3)
    schema = Schema("PROTOBUF", NESTED, (*IMPORTED, file.proto.SerializeToString()), name)
    values = serdes.write(serde, schema, [b"\x08\x05"])
    typed = Protobuf(NESTED, message=f"t.{name}", **framing(serde))
    assert read(broker, values, typed, column(serde)) == [{"id": 5}]


@EACH
def test_json_is_read(serdes: Serdes, broker: Broker, serde: Apicurio | Glue) -> None:
    fields = {"id": {"type": "integer"}, "user": {"type": "string"}, "tags": {"type": "array"}}
    schema = Schema("JSON", json.dumps({"type": "object", "properties": fields}))
    rows = [{"id": number, "user": "é" * number, "tags": ["t"] * number} for number in range(5)]
    values = serdes.write(serde, schema, [json.dumps(row).encode() for row in rows])
    form: Any = [("id", pa.int64()), ("user", pa.string()), ("tags", pa.list_(pa.string()))]
    assert read(broker, values, Json(pa.schema(form), **framing(serde)), column(serde)) == rows
    if values[0].value[:1] == b"\x03":
        with pytest.raises(monedula.DecodeError, match="does not begin with a zero byte"):
            read(broker, values, Json(pa.schema(form), framing="apicurio"))


def test_a_header_of_another_length_is_bad(serdes: Serdes, broker: Broker) -> None:
    serde = Apicurio(7, 70, in_headers=True)
    schema = Schema("JSON", '{"type": "object"}')
    (value,) = serdes.write(serde, schema, [b'{"id":5}'])
    (name, number), *rest = value.headers
    typed = Json("id bigint", framing="apicurio", mode="null")
    for given in (b"", number[:7], number + b"\0"):
        assert read(broker, [Written(value.value, [(name, given), *rest])], typed) == [{"id": None}]
    assert read(broker, [value], typed) == [{"id": 5}]
    # Java ignores what follows the first eight bytes, and takes no fewer.
    assert serdes.read(serde, schema, [Written(value.value, [(name, number + b"\0"), *rest])]) == [b'{"id":5}']
    (short,) = serdes.read(serde, schema, [Written(value.value, [(name, number[:7]), *rest])])
    assert "BufferUnderflow" in str(short)

"""`monedula consume --decode` to text: values of every format as JSON."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow.parquet
import pytest
from google.protobuf import descriptor_pb2
from monedula.testing import Broker

from tests.cli.processes import output, problem, run
from tests.consumer.avro_values import field, record, written
from tests.consumer.schema_registry import Registry, serving

PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; optional string user = 2; repeated Item items = 3; google.protobuf.Timestamp at = 4; }
message Item { string name = 1; bytes blob = 2; }
"""
VALUE = bytes.fromhex("0807 1a06 0a0161 1201ff 2202 0801".replace(" ", ""))
ROW = {
    "id": 7,
    "user": None,
    "items": [{"name": "a", "blob": "/w=="}],
    "at": "1970-01-01T00:00:01Z",
}
FRAME = b"\x00\x00\x00\x00\x01\x00"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


def orders(broker: Broker, topic: str, value: bytes = VALUE) -> str:
    broker.create_topic(topic, 1)
    broker.append(topic, [("k", value), ("k", None)])
    return broker.bootstrap_servers


def test_messages_of_protobuf_are_lines_of_json_and_columns(broker: Broker, tmp_path: Path) -> None:
    servers, file = orders(broker, "proto"), tmp_path / "order.proto"
    file.write_text(PROTO)
    options = ["consume", "proto", "--decode", "protobuf", "--schema", str(file), "--message", "shop.Order"]
    found = [json.loads(line) for line in output(*options, "-f", "json", servers=servers).splitlines()]
    assert [(row["offset"], row["key"], row["value"]) for row in found] == [(0, "k", ROW), (1, "k", None)]
    # Text has the value alone, and a format string too.
    assert json.loads(output(*options, "--null", "{}", servers=servers).splitlines()[0]) == ROW
    assert output(*options, "-f", "%o %s\\n", servers=servers).startswith('0 {"id":7,"user":null,')
    assert output(*options, "-f", "csv", "--columns", "value", servers=servers).startswith('value\n"{""id"":7')
    (line,) = output(*options, "-f", "json", "--key", "k", "-n", "1", servers=servers).splitlines()
    assert json.loads(line)["value"] == ROW
    parquet = tmp_path / "out.parquet"
    output(*options, "--flatten", "-o", str(parquet), servers=servers)
    assert pyarrow.parquet.read_table(parquet)["id"].to_pylist() == [7, None]


def test_a_file_may_have_descriptors(broker: Broker, tmp_path: Path) -> None:
    servers, file = orders(broker, "descriptors", b"\x08\x07"), tmp_path / "order.pb"
    proto = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    proto.message_type.add(name="M").field.add(name="id", number=1, label=1, type=3)
    file.write_bytes(descriptor_pb2.FileDescriptorSet(file=[proto]).SerializeToString())
    text = output("consume", "descriptors", "--decode", "protobuf", "--schema", str(file), servers=servers)
    assert text == '{"id":7}\n\n'


def test_the_schema_is_that_of_the_topics_subject(broker: Broker, registry: Registry) -> None:
    registry.register("asked-value", {"schemaType": "PROTOBUF", "schema": PROTO})
    servers = orders(broker, "asked", FRAME + VALUE)
    options = ["consume", "asked", "--decode", "protobuf", "-X", f"schema.registry.url={registry.url}"]
    assert "give --message, one of shop.Order, shop.Item" in run(*options, servers=servers).stderr.decode()
    text = output(*options, "--message", "shop.Order", servers=servers)
    assert json.loads(text.splitlines()[0]) == ROW


def test_errors_speak_of_the_options_of_the_command_line(broker: Broker) -> None:
    servers = orders(broker, "framed", FRAME + VALUE)
    schema = ["--schema", PROTO, "--message"]
    told = run("consume", "framed", "--decode", "protobuf", *schema, "shop.Order", servers=servers).stderr.decode()
    assert "it can be read (byte 0); give --framing confluent" in told
    broker.create_topic("avro", 1)
    broker.append("avro", [b"\x00\x00\x00\x00\x01" + written("string", "x")])
    told = run("consume", "avro", "--decode", "avro", "--schema", '"string"', servers=servers).stderr.decode()
    assert "it can be read (byte 1); give --schemas, or -X schema.registry.url, where it is asked for" in told


def test_options_that_say_nothing_of_decoded_values_are_refused(broker: Broker) -> None:
    broker.create_topic("none", 1)
    arguments = ("consume", "none", "--decode", "json", "--schema", "id bigint", "-f", "json")
    told = problem(*arguments, "--columns", "id", servers=broker.bootstrap_servers, code=2)
    assert "--columns: 'id' is a field of value, and the column 'value' brings all fields" in told
    assert "Give --columns value, and --schema a schema of the fields that you want" in told
    told = problem(*arguments, "--value-as", "hex", servers=broker.bootstrap_servers, code=2)
    assert "--value-as hex says how bytes become text, and --decode makes JSON of them" in told


def test_values_of_avro_and_json_are_lines_of_json_too(broker: Broker, tmp_path: Path) -> None:
    schema = record(
        field("id", "long"),
        field("price", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
        field("day", {"type": "int", "logicalType": "date"}),
    )
    broker.create_topic("lines", 1)
    broker.append("lines", [written(schema, {"id": 1, "price": Decimal("123456789012345678.90"), "day": 1})])
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(schema))
    options = ["consume", "lines", "--decode", "avro", "--schema", str(file)]
    text = output(*options, servers=broker.bootstrap_servers)
    assert text == '{"id":1,"price":123456789012345678.90,"day":"1970-01-02"}\n'
    broker.create_topic("json", 1)
    broker.append("json", ['{"id": 1, "x": "ü"}'])
    options = ["consume", "json", "--decode", "json", "--schema", "x string, id bigint", "-f", "json"]
    (line,) = output(*options, servers=broker.bootstrap_servers).splitlines()
    assert line.endswith('"value":{"x":"ü","id":1}}')


def test_json_behind_a_frame_has_the_fields_of_its_subject(broker: Broker, registry: Registry) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    registry.register("framed-value", {"schemaType": "JSON", "schema": json.dumps(schema)})
    servers = orders(broker, "framed", b'\x00\x00\x00\x00\x01{"id": 7}')
    options = ["consume", "framed", "--decode", "json", "-f", "json", "-X", f"schema.registry.url={registry.url}"]
    for more in ([], ["--subject", "framed-value"]):
        found = [json.loads(line)["value"] for line in output(*options, *more, servers=servers).splitlines()]
        assert found == [{"id": 7}, None]
    ended = run(*options, "--schema", "id bigint", servers=servers)
    assert ended.returncode == 1
    assert "the schema's id 1 (byte 0); give --framing confluent" in ended.stderr.decode()
    text = output(*options, "--schema", "id bigint", "--framing", "confluent", servers=servers)
    assert json.loads(text.splitlines()[0])["value"] == {"id": 7}
    ended = run("consume", "framed", "--decode", "json", servers=servers)
    assert ended.returncode == 2
    assert "--decode json needs the fields: --schema 'id bigint, user string'" in ended.stderr.decode()


def fingerprint(schema: Any) -> bytes:
    form = fastavro.schema.to_parsing_canonical_form(fastavro.parse_schema(schema))
    return bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))


UUID_TEXT = "89791762-2336-4186-9674-299b90a802e2"
GLUE = b"\x03\x00" + UUID(UUID_TEXT).bytes
APICURIO = bytes(8) + b"\x07"
ORDER = record(field("id", "long"), name="Order")
FRAMED = [
    ("json", "bare", b'{"id": 7}', ["--schema", "id bigint"]),
    ("json", "confluent", b'\0\0\0\0\7{"id": 7}', ["--schema", "id bigint"]),
    ("json", "apicurio", APICURIO + b'{"id": 7}', ["--schema", "id bigint"]),
    ("json", "glue", GLUE + b'{"id": 7}', ["--schema", "id bigint"]),
    ("avro", "bare", b"\x0e", ["--schema", json.dumps(ORDER), "-X", "schema.registry.url=http://127.0.0.1:1"]),
    ("avro", "confluent", b"\0\0\0\0\7\x0e", ["--schemas", json.dumps({"7": ORDER})]),
    ("avro", "single_object", b"\xc3\1" + fingerprint(ORDER) + b"\x0e", ["--schemas", json.dumps([ORDER])]),
    ("avro", "apicurio", APICURIO + b"\x0e", ["--schemas", "FILE"]),
    ("avro", "glue", GLUE + b"\x0e", ["--schemas", json.dumps({UUID_TEXT: ORDER})]),
    ("protobuf", "bare", b"\x08\x07", ["-X", "schema.registry.url=http://127.0.0.1:1"]),
    ("protobuf", "confluent", b"\0\0\0\0\7\0\x08\x07", []),
    ("protobuf", "apicurio", APICURIO + b"\7\n\5Order\x08\x07", ["--schemas", "FILE"]),
    ("protobuf", "glue", GLUE + b"\1\x08\x07", []),
]


@pytest.mark.parametrize(
    ("decode", "framing", "value", "more"), FRAMED, ids=[f"{decode}-{framing}" for decode, framing, *_ in FRAMED]
)
def test_values_may_stand_behind_any_frame(
    broker: Broker, tmp_path: Path, decode: str, framing: str, value: bytes, more: list[str]
) -> None:
    servers = orders(broker, f"{decode}-{framing}", value)
    (tmp_path / "old").write_text(PROTO if decode == "protobuf" else json.dumps(ORDER))
    (tmp_path / "old.proto").write_text(PROTO)
    old = str(tmp_path / ("old.proto" if decode == "protobuf" else "old"))
    (tmp_path / "FILE").write_text(json.dumps({"7": old}))
    more = [str(tmp_path / each) if each == "FILE" else each for each in more]
    if decode == "protobuf":
        more += ["--schema", PROTO, "--message", "shop.Order"]
    arguments = ["consume", f"{decode}-{framing}", "--decode", decode, "--framing", framing, *more, "-f", "json"]
    found = [json.loads(line)["value"] for line in output(*arguments, servers=servers).splitlines()]
    assert found[0]["id"] == 7
    assert found[1] is None


@pytest.mark.parametrize("decode", ["avro", "protobuf", "json"])
def test_a_schema_may_be_longer_than_the_name_of_a_file(broker: Broker, decode: str) -> None:
    long = "x" * 5000
    schema, message = {
        "avro": (json.dumps({**ORDER, "doc": long}), FRAME[:5] + written(ORDER, {"id": 7})),
        "protobuf": (f'syntax = "proto3"; /* {long} */ message Order {{ int64 id = 1; }}', FRAME + b"\x08\x07"),
        "json": (f"id bigint, {long} string", b'{"id": 7}'),
    }[decode]
    servers, more = orders(broker, f"long-{decode}", message), []
    if decode != "json":
        more = ["--schemas", json.dumps({"1": schema})]
    arguments = ["consume", f"long-{decode}", "-n", "1", "--decode", decode, "--schema", schema, *more]
    assert json.loads(output(*arguments, servers=servers))["id"] == 7


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--framing", "glue"], "say how values are decoded; add --decode"),
        (["--decode", "avro", "--schemas", "{"], "--schemas: no JSON, "),
        (["--decode", "avro", "--schemas", '{"7": "\\"int\\"", "7": "\\"long\\""}'], "an object has '7' twice"),
        (
            ["--decode", "avro", "--schemas", '{"7": "\\"int\\"", "07": "\\"long\\""}'],
            "'07' is neither the id of",
        ),
        (["--decode", "avro", "--schemas", f'{{"{"1" * 5000}": "\\"int\\""}}'], "1' is neither the id of a schema"),
        (["--decode", "avro", "--schemas", '{"x": "\\"long\\""}'], "--schemas: 'x' is neither the id of a schema"),
        (
            ["--decode", "avro", "--schemas", "[]", "--framing", "confluent"],
            "--framing confluent: the schemas have no ids; a list of schemas is for --framing single_object",
        ),
        (["--decode", "avro", "--schema", '"long"', "--framing", "glue"], "not asked; give --schemas, as the console"),
        (["--decode", "json", "--schema", "id bigint", "--schemas", "{}"], "--schemas is for --decode avro and proto"),
        (["--decode", "json", "--schema", "id bigint", "--framing", "single_object"], "is for --decode avro"),
        (["--decode", "avro", "--schema", '"long"', "--framing", "apicurio"], "give -X schema.registry.url, where"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused(broker: Broker, options: list[str], reason: str) -> None:
    ended = run("consume", "mistakes", *options, servers=broker.bootstrap_servers)
    assert ended.returncode == 2
    assert reason in ended.stderr.decode()

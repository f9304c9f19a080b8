"""`monedula produce --encode`: JSON and tables as Avro, Protobuf and JSON, with and without a registry."""

import json
import signal
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pyarrow.parquet
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from monedula.cli.encoded import Apart, BadValue, convert_to, joined, nulls_of, shape_of
from monedula.cli.sources import json_of
from monedula.formats._typed import Typed
from monedula.testing import Broker

from tests.cli.processes import output, problem, running

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "blob", "type": "bytes"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": "double", "default": 1.5},
    ],
}
CORNERS: dict[str, Any] = {
    "type": "record",
    "name": "Corners",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "big", "type": "long"},
        {"name": "real", "type": "double"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "short", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "exact", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "either", "type": ["int", "string"]},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
    ],
}
PROTO = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message Order { uint64 id = 1; optional string customer = 2; repeated Item items = 3; map<int32, bool> seen = 4;
google.protobuf.Timestamp at = 5; google.protobuf.Duration took = 6; float ratio = 7; map<bool, string> told = 8; }
message Item { string name = 1; bytes blob = 2; }
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a registry."""
    with Broker(registry=True, topics={"orders": 1, "copy": 1}) as broker:
        yield broker


@pytest.fixture
def where(broker: Broker, tmp_path: Path) -> tuple[str, str]:
    """The option with the registry's settings."""
    file = tmp_path / "registry.properties"
    file.write_text(f"schema.registry.url={broker.schema_registry_url}\n")
    return "-F", str(file)


def file_of(directory: Path, schema: Any) -> str:
    file = directory / "order.avsc"
    file.write_text(json.dumps(schema))
    return str(file)


def records(broker: Broker, topic: str) -> list[dict[str, Any]]:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return [dict(row) for row in pa.table(monedula.read(settings, topic, headers=True)).to_pylist()]


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [row["value"] for row in records(broker, topic)]


def read(broker: Broker, topic: str, value: Typed) -> list[Any]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": broker.schema_registry_url}
    return [row["value"] for row in pa.table(monedula.read(settings, topic, value=value)).to_pylist()]


def test_lines_are_rows_by_field(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    lines = b'{"id": 7, "customer": "Ada", "amount": 3.5}\n{"id": 8, "amount": 2}\n{"id": 9, "customer": null}\n\n'
    arguments = ("--encode", "avro", "--schema", file_of(tmp_path, ORDER), "--null", "", *where)
    output("produce", "orders", *arguments, stdin=lines, servers=broker.bootstrap_servers)
    given = SchemaRegistryClient({"url": broker.schema_registry_url})
    context = SerializationContext("orders", MessageField.VALUE)
    deserialize: Any = AvroDeserializer(given)
    # What a line has not is the schema's default.
    assert [value and deserialize(value, context) for value in values(broker, "orders")] == [
        {"id": 7, "customer": "Ada", "amount": 3.5},
        {"id": 8, "customer": None, "amount": 2.0},
        {"id": 9, "customer": None, "amount": 1.5},
        None,
    ]
    assert json.loads(given.get_latest_version("orders-value").schema.schema_str) == ORDER


def test_every_type_of_avro_goes_round(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    row = {
        "flag": True,
        "big": -(1 << 63),
        "real": 0.1,
        "price": "-123456789012345678.90",
        "day": "2026-11-27",
        "clock": "10:00:00.000001",
        "short": "10:00:00.500000",
        "exact": 1795773600123456789,
        "at": "2026-11-27T10:00:00.123456Z",
        "local": "2026-11-27T10:00:00.123000",
        "kind": "B",
        "four": "AAEC/w==",
        "either": {"member0": None, "member1": "x"},
        "items": [{"blob": "/w=="}, {"blob": ""}],
        "counts": {"a": 1, "b": None},
    }
    given = json.dumps(row).replace('"-123456789012345678.90"', "-123456789012345678.90") + "\n"
    assert_goes_round(broker, where, given, "avro", "--schema", file_of(tmp_path, CORNERS))
    found = read(broker, "copy", monedula.Avro(subject="copy-value"))[0]
    assert (found["price"], found["items"]) == (Decimal("-123456789012345678.90"), [{"blob": b"\xff"}, {"blob": b""}])


def test_every_type_of_protobuf_goes_round(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "order.proto").write_text(PROTO)
    row = {
        "id": (1 << 64) - 1,
        "customer": None,
        "items": [{"name": "a", "blob": "/w=="}],
        "seen": {"-7": True},
        "at": "1970-01-01T00:00:01Z",
        "took": "-1.500005s",
        "ratio": "-Infinity",
        "told": {"true": "t"},
    }
    more = ("--schema", str(tmp_path / "order.proto"), "--message", "shop.Order")
    assert_goes_round(broker, where, json.dumps(row) + "\n", "protobuf", *more)


def test_times_that_python_has_not_go_round(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    kinds = {"day": {"type": "int", "logicalType": "date"}, "at": {"type": "long", "logicalType": "timestamp-micros"}}
    more = {"local": {"type": "long", "logicalType": "local-timestamp-millis"}}
    fields = [{"name": name, "type": kind} for name, kind in (kinds | more).items()]
    (tmp_path / "times.avsc").write_text(json.dumps({"type": "record", "name": "Times", "fields": fields}))
    schema = str(tmp_path / "times.avsc")
    row = {"day": 2_932_897, "at": -62_135_596_800_000_001, "local": 253_402_300_800_000_000}
    assert_goes_round(broker, where, json.dumps(row) + "\n", "avro", "--schema", schema)
    for name, number in (("day", 2_932_896), ("day", 1 << 31), ("at", -62_135_596_800_000_000)):
        line = json.dumps({**row, name: number})
        told = problem(
            *("produce", "orders", "--encode", "avro", "--schema", schema, *where),
            stdin=line.encode(),
            servers=broker.bootstrap_servers,
        )
        assert f"line 1: value.{name}: {number} is not a" in told


def test_json_goes_round_with_and_without_a_frame(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}}}
    arguments = ("--schema", file_of(tmp_path, schema), "--subject", "copy-value")
    assert_goes_round(broker, where, '{"id": 7, "customer": "ü"}\n', "json", *arguments)
    broker.create_topic("bare", 1)
    bare = ("--encode", "json", "--schema", "id bigint, customer string")
    output("produce", "bare", *bare, stdin=b'{"customer": "x", "id": 1}\n', servers=broker.bootstrap_servers)
    assert values(broker, "bare") == [b'{"id":1,"customer":"x"}']


def assert_goes_round(broker: Broker, where: tuple[str, str], lines: str, encode: str, *schema: str) -> None:
    """What is written is read as the same JSON, as a line and in a record, and that is written as the same bytes."""
    servers = broker.bootstrap_servers
    arguments = ("produce", "copy", "--encode", encode, *schema, *where)
    output(*arguments, stdin=lines.encode(), servers=servers)
    message = schema[2:] if encode == "protobuf" else ()
    consume = ("consume", "copy", "--decode", encode, "--subject", "copy-value", *message, *where)
    text = output(*consume, servers=servers)
    assert json.loads(text) == json.loads(lines)
    output(*arguments, stdin=text.encode(), servers=servers)
    record = output(*consume, "-f", "json", "-n", "1", servers=servers)
    output(*arguments, "-f", "json", stdin=record.encode(), servers=servers)
    first, second, third = values(broker, "copy")
    assert first is not None
    assert first == second == third


def test_keys_headers_and_partitions_go_along(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    broker.create_topic("three", 3)
    arguments = ("--encode", "avro", "--schema", file_of(tmp_path, ORDER), *where)
    keys = ("--key-encode", "avro", "--key-schema", '"long"', "-k", "=", "-H", "h=1", "-p", "2")
    lines = b'7={"id": 7}\n{"id": 8}={"id": 8}\n'
    told = problem("produce", "three", *arguments, *keys, stdin=lines, servers=broker.bootstrap_servers)
    assert "line 2: key: an object is no whole number; 1 record was acknowledged" in told
    (row,) = records(broker, "three")
    assert (row["key"][5:], row["partition"], row["headers"]) == (b"\x0e", 2, [{"key": "h", "value": b"1"}])
    record = b'{"value": {"id": 1}, "key": "text", "timestamp": "2026-01-01T00:00:00Z", "headers": {"a": "b"}}\n'
    output("produce", "orders", *arguments, "-f", "json", stdin=record, servers=broker.bootstrap_servers)
    (row,) = records(broker, "orders")
    assert (row["key"], row["timestamp"].year, row["headers"]) == (b"text", 2026, [{"key": "a", "value": b"b"}])
    line = b'{"id": 1}\n'
    common = ("--key-encode", "avro", "--key-schema", '"string"', "--key", '"k"')
    output("produce", "copy", *arguments, *common, stdin=line, servers=broker.bootstrap_servers)
    assert [row["key"] and row["key"][5:] for row in records(broker, "copy")] == [b"\x02k"]


def test_tables_are_written_by_column(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    file = str(tmp_path / "orders.parquet")
    pa.parquet.write_table(pa.table({"id": [7, 8], "customer": ["Ada", None], "amount": [3.5, 1.0]}), file)
    arguments = ("-i", file, "--encode", "avro", "--schema", file_of(tmp_path, ORDER), *where)
    servers = broker.bootstrap_servers
    output("produce", "orders", *arguments, servers=servers)
    rows = [{"id": 7, "customer": "Ada", "amount": 3.5}, {"id": 8, "customer": None, "amount": 1.0}]
    assert read(broker, "orders", monedula.Avro(subject="orders-value")) == rows
    keys = ("--key-column", "id", "--key-encode", "avro", "--key-schema", '"long"')
    output("produce", "copy", *arguments, *keys, servers=servers)
    assert read(broker, "copy", monedula.Avro(subject="copy-value")) == rows
    assert [row["key"][5:] for row in records(broker, "copy")] == [b"\x0e", b"\x10"]
    # What was consumed with decoded values is a column of structs, or with --flatten columns.
    again = str(tmp_path / "again.parquet")
    for more in ([], ["--flatten"]):
        output("consume", "copy", "--decode", "avro", "-o", again, *more, *where, servers=servers)
        broker.create_topic(f"again{len(more)}", 1)
        output(
            "produce",
            f"again{len(more)}",
            "-i",
            again,
            "--encode",
            "avro",
            "--subject",
            "copy-value",
            *where,
            servers=servers,
        )
        assert values(broker, f"again{len(more)}") == values(broker, "copy")


def test_without_a_schema_it_is_that_of_the_subject(broker: Broker, where: tuple[str, str]) -> None:
    assert broker.registry is not None
    number = broker.registry.register("orders-value", ORDER)
    servers = broker.bootstrap_servers
    output("produce", "orders", "--encode", "avro", *where, stdin=b'{"id": 1}\n', servers=servers)
    more = ("--subject", "orders-value")
    output("produce", "copy", "--encode", "avro", *more, *where, stdin=b'{"id": 1}\n', servers=servers)
    (value,) = values(broker, "orders")
    assert value is not None
    assert value[:5] == b"\x00" + number.to_bytes(4)
    assert values(broker, "copy") == [value]
    assert broker.registry.ask("GET", "/subjects") == ["orders-value"]
    told = problem("produce", "copy", "--encode", "avro", *where, stdin=b"{}\n", servers=servers)
    assert "Subject 'copy-value' not found" in told


def test_a_subject_that_is_not_there_may_be_registered(broker: Broker, where: tuple[str, str]) -> None:
    told = problem("produce", "copy", "--encode", "avro", *where, servers=broker.bootstrap_servers)
    assert told.endswith("40401 Subject 'copy-value' not found. With --schema one is registered\n")
    more = ("--encode", "avro", "--schema", json.dumps(ITEM), "--key-encode", "avro")
    told = problem("produce", "copy", *more, *where, servers=broker.bootstrap_servers)
    assert told.endswith("40401 Subject 'copy-key' not found. With --key-schema one is registered\n")


def test_a_schema_may_be_looked_up_only(broker: Broker, where: tuple[str, str], tmp_path: Path) -> None:
    arguments = ("--encode", "avro", "--schema", file_of(tmp_path, ORDER), "-X", "auto.register.schemas=false", *where)
    told = problem("produce", "orders", *arguments, stdin=b'{"id": 1}\n', servers=broker.bootstrap_servers)
    assert "Subject 'orders-value' not found" in told
    assert broker.registry is not None
    broker.registry.register("orders-value", ORDER)
    output("produce", "orders", *arguments, stdin=b'{"id": 1}\n', servers=broker.bootstrap_servers)
    assert len(values(broker, "orders")) == 1


def test_what_cannot_be_written_is_named_by_line_and_field(broker: Broker, tmp_path: Path) -> None:
    def wrong(*lines: str, options: tuple[str, ...] = ()) -> str:
        stdin = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
        arguments = ("produce", "orders", "--encode", "avro", "--schema", file_of(tmp_path, ORDER), *options)
        return problem(*arguments, stdin=stdin, servers=broker.bootstrap_servers)

    good = '{"id": 1, "customer": "x"}'
    assert "line 2: value.id: 'x' is no whole number; 1 record was" in wrong(good, '{"id": "x", "customer": "x"}', good)
    assert "line 3: value.id: is null, and the schema's long takes no null; 2 records" in wrong(
        good, good, '{"id": null, "customer": "x"}'
    )
    assert "line 2: value.id: there is no column for this field of Order" in wrong(good, '{"customer": "x"}')
    assert "line 1: value.name: there is no such field, only id, customer, amount; 0 records" in wrong('{"name": 1}')
    assert "line 1: the value: this is no JSON: Expecting value at column 1" in wrong("x")
    assert "line 1: value: 7 is no object with the fields id, customer, amount" in wrong("7")
    assert "line 1: the value: this is no JSON: byte 2 is not UTF-8" in wrong('"\udcff"')
    assert "line 1: the value: a number has more digits than can be read" in wrong('{"id": ' + "9" * 5000 + "}")
    assert "line 1: the value: objects and arrays are nested too deep" in wrong("[" * 100_000)
    lone = r'"\ud800"'
    assert r"line 1: the name of a header has \ud800, half of a character; 0 records" in wrong(
        f'{{"value": {good}, "headers": {{{lone}: "x"}}}}', options=("-f", "json")
    )
    assert r"line 1: topic has \ud800, half of a character; 0 records" in wrong(
        f'{{"value": {good}, "topic": {lone}}}', options=("-f", "json")
    )
    assert "line 2: value_hex has bytes, and --encode makes them of" in wrong(
        f'{{"value": {good}}}', '{"value_hex": "00"}', options=("-f", "json")
    )
    assert len(values(broker, "orders")) == 5
    file = str(tmp_path / "rows.parquet")
    pa.parquet.write_table(pa.table({"id": [1, None], "customer": ["x", "y"]}), file)
    assert "row 1: id: is null, and the schema's long takes no null; 1 record was" in wrong(options=("-i", file))
    pa.parquet.write_table(pa.table({"id": [1], "name": ["x"]}), file)
    assert "name: the record Order has no such field, only id, customer, amount; drop" in wrong(options=("-i", file))


def test_a_schema_may_be_longer_than_the_name_of_a_file(broker: Broker) -> None:
    schema = json.dumps({**ORDER, "doc": "long " * 100})
    arguments = ("orders", "--schema", schema)
    output("produce", *arguments, "--encode", "avro", stdin=b'{"id": 7}\n', servers=broker.bootstrap_servers)
    text = output("consume", *arguments, "--decode", "avro", servers=broker.bootstrap_servers)
    assert json.loads(text) == {"id": 7, "customer": None, "amount": 1.5}
    proto = f"// {'long ' * 100}\n{PROTO}"
    more = ("--encode", "protobuf", "--schema", proto, "--message", "shop.Item")
    output("produce", "copy", *more, stdin=b"{}\n", servers=broker.bootstrap_servers)
    assert values(broker, "copy") == [b""]


def test_options_that_make_no_sense_are_told_by_their_names(
    broker: Broker, where: tuple[str, str], tmp_path: Path
) -> None:
    def wrong(*options: str, topic: tuple[str, ...] = ("orders",)) -> str:
        return problem("produce", *topic, *options, stdin=b"{}\n", servers=broker.bootstrap_servers, code=2)

    assert "--schema, --message, --subject and --flatten say how values are written; add --encode json" in wrong(
        "--schema", "x"
    )
    assert "--key-schema, --key-message, --key-subject say how keys are written; add --key-encode" in wrong(
        "--key-subject", "x"
    )
    assert "--encode avro needs a schema: --schema order.avsc, or a registry" in wrong("--encode", "avro")
    assert "--key-encode protobuf needs a schema: --key-schema order.proto" in wrong("--key-encode", "protobuf")
    assert "--encode json needs the fields" in wrong("--encode", "json")
    assert "--message is for --encode protobuf" in wrong("--encode", "avro", "--message", "x")
    assert "--subject is that of a registry" in wrong("--encode", "avro", "--subject", "x")
    assert "--flatten makes values of the columns" in wrong("--encode", "avro", "--schema", '"int"', "--flatten")
    assert "--key-schema: is not JSON, as Avro schemas are, but 'x'; nor is there a file of that name" in wrong(
        "--key-encode", "avro", "--key-schema", "x"
    )
    assert "give --key-message, one of shop.Order, shop.Item" in wrong(
        "--key-encode", "protobuf", "--key-schema", PROTO
    )
    imports = 'syntax = "proto3"; import "common.proto"; message A { common.B b = 1; }'
    assert "nowhere declared; give descriptors with the files that are imported: protoc --include_imports" in wrong(
        "--encode", "protobuf", "--schema", imports
    )
    text = tmp_path / "order.txt"
    text.write_text(PROTO)
    assert (
        "these bytes are the text of a .proto file; the name of a file with a text, and not descriptors, ends"
        in wrong("--encode", "protobuf", "--schema", str(text))
    )
    assert "--encode avro without a topic needs --schema or --subject" in wrong(
        "--encode", "avro", "-f", "json", *where, topic=()
    )
    for command in ("--encode", "--key-encode"):
        given = (command, "avro", command.replace("encode", "schema"), '"int"', "-X", "schema.registry.url=")
        assert "schema.registry.url is empty, as of a variable that is not set" in wrong(*given)
    consume = ("consume", "orders", "--decode", "avro", "--schema", '"int"', "-X", "schema.registry.url=")
    assert "schema.registry.url is empty" in problem(*consume, servers=broker.bootstrap_servers, code=2)
    assert "--key x: this is no JSON" in wrong("--key-encode", "avro", "--key-schema", '"string"', "--key", "x")


def test_a_record_with_one_field_member0_is_no_union(broker: Broker, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "One", "fields": [{"name": "member0", "type": "int", "default": 5}]}
    arguments = ("--encode", "avro", "--schema", file_of(tmp_path, schema))
    output("produce", "orders", *arguments, stdin=b"{}\n", servers=broker.bootstrap_servers)
    assert values(broker, "orders") == [b"\x0a"]


def test_rows_that_lack_fields_whose_default_is_null_are_of_one_batch() -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [*ORDER["fields"][1:], {"name": "x", "type": ["int", "null"]}],
    }
    nested = {**ORDER, "fields": [*ORDER["fields"], {"name": "in", "type": ["null", inner], "default": None}]}
    kind = pa.table(monedula.Avro(nested).spec.decode([])).schema.field("value").type

    def are_of_one(*rows: dict[str, Any]) -> bool:
        one, other = (shape_of(row, kind, nulls_of(json.dumps(nested))) for row in rows)
        try:
            joined(one, other)
        except Apart:
            return False
        return True

    whole = {"id": 1, "customer": "x", "amount": 1.5}
    assert are_of_one(whole, {"id": 1, "amount": 1.5})
    assert not are_of_one(whole, {"id": 1, "customer": "x"})  # the default of amount is not null
    assert are_of_one(whole, {**whole, "in": {"amount": 1.5, "x": 1}})
    assert are_of_one(
        {**whole, "in": {"amount": 1.5, "x": 1, "customer": "x"}}, {**whole, "in": {"amount": 1.5, "x": 1}}
    )
    assert not are_of_one({**whole, "in": {"amount": 1.5, "x": 1}}, {**whole, "in": {"x": 1}})
    assert not are_of_one({**whole, "in": {"amount": 1.5, "x": 1}}, {**whole, "in": {"amount": 1.5}})  # it has none


def test_what_is_piped_is_sent_while_the_pipe_is_open(broker: Broker, tmp_path: Path) -> None:
    arguments = ("produce", "orders", "--encode", "avro", "--schema", file_of(tmp_path, ORDER))
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    with (
        running(*arguments, servers=broker.bootstrap_servers, stdin=subprocess.PIPE) as process,
        monedula.Consumer(settings, value=monedula.Avro(ORDER)) as consumer,
    ):
        assert process.stdin is not None
        assert process.stderr is not None
        consumer.assign("orders")
        row = {"customer": None, "amount": 1.5}
        for number in range(3):
            process.stdin.write(b'{"id": %d}\n' % number)
            assert [record.value for record in consumer.poll(60).records()] == [{**row, "id": number}]
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"")


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (pa.int8(), "128", "128 is not between -128 and 127"),
        (pa.uint32(), "-1", "-1 is not between 0 and 4294967295"),
        (pa.int64(), "7.0", "7.0 is no whole number"),
        (pa.float64(), "9007199254740993", "9007199254740993 has more digits than a floating number holds"),
        (pa.float32(), "16777217", "16777217 has more digits than a floating number holds"),
        (pa.float32(), "3.5e38", "3.5e38 is too large for a floating number of 32 bits"),
        (pa.float64(), "1" + "0" * 400, "is too large for a floating number of 64 bits"),
        (pa.decimal128(4, 2), "1.005", "1.005 does not fit into 4 digits, 2 of them behind the point"),
        (pa.bool_(), '"true"', "'true' is neither true nor false"),
        (pa.string(), r'"\ud800"', r"\ud800 in it is half of a character"),
        (pa.binary(), '"?"', "'?' is not base64, as bytes are in JSON"),
        (pa.timestamp("ms", "UTC"), '"2026-01-01T00:00:00.1234Z"', "is not a timestamp, as"),
        (pa.timestamp("us"), '"2026-01-01T00:00:00Z"', "is not a timestamp, as"),
        (pa.timestamp("us"), "1795773600000000", "1795773600000000 is not a timestamp, as"),
        (pa.time32("ms"), '"10:00:00.5001"', "is not a time, as"),
        (pa.date32(), '"2026-02-30"', "'2026-02-30' is not a date, as \"2026-11-27\""),
        (pa.duration("ms"), '"0.0001s"', "0.0001s has more than 3 digits behind the point"),
        (pa.list_(pa.struct([("a", pa.int8())])), '[{"a": 1}, {"a": true}]', "[1].a: true is no whole number"),
        (pa.map_(pa.int32(), pa.bool_()), '{"x": true}', "[x]: 'x' is no whole number"),
    ],
)
def test_nothing_is_rounded_or_cut(kind: pa.DataType, text: str, told: str) -> None:
    with pytest.raises(BadValue) as raised:
        convert_to(kind)(json_of(text))
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.float32(), "3.4028234663852886e38", 3.4028234663852886e38),
        (pa.float64(), str(1 << 1000), float(1 << 1000)),
        (pa.float64(), "0", 0.0),
        (pa.time32("ms"), '"10:00:00.500000"', 36_000_500),
        (pa.time32("ms"), '"10:00:00.000000"', 36_000_000),
        (pa.timestamp("ms", "UTC"), '"1970-01-01T00:00:01.120000+00:00"', 1_120),
        (pa.timestamp("ns"), "1795773600123456789", 1_795_773_600_123_456_789),
    ],
)
def test_what_consume_writes_is_read(kind: pa.DataType, text: str, value: Any) -> None:
    assert convert_to(kind)(json_of(text)) == value

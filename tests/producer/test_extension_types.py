"""Columns of Arrow's extension types: they are written as what they mean, or refused by name."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pytest
from monedula import ArgumentError, Avro, Json, Protobuf

from tests.consumer.avro_values import field, record
from tests.groups.ground import Ground
from tests.producer.conftest import ProducerFactory, stored

PATIENCE = 30.0
ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")


def extension(name: str, storage: Any, metadata: bytes = b"") -> pa.Table:
    """A table whose column `a` is of an extension type."""
    told = {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}
    return pa.Table.from_arrays([storage], schema=pa.schema([pa.field("a", storage.type, metadata=told)]))


UUIDS = extension("arrow.uuid", pa.array([ID.bytes, None], pa.binary(16)))
TEXTS = extension("arrow.json", pa.array(['{"b": [1.10]}', '"x"', None]))
FLAGS = extension("arrow.bool8", pa.array([1, 0, -3, None], pa.int8()))


def nested(table: pa.Table) -> pa.Table:
    """The column in a struct, a list and a map."""
    kind, column = table.schema.field("a"), table["a"].combine_chunks()
    structs = pa.StructArray.from_arrays([column], fields=[kind])
    offsets = pa.array(range(len(column) + 1), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, column, type=pa.list_(kind))
    keys: Any = pa.array(["k"] * len(column))
    arrow: Any = pa  # its stubs know fewer arguments than it takes
    maps = arrow.MapArray.from_arrays(offsets, keys, column, type=arrow.map_(pa.field("key", pa.string(), False), kind))
    return pa.table({"s": structs, "l": lists, "m": maps})


def test_json_has_what_they_mean() -> None:
    encode = Json().spec.encode
    assert encode(UUIDS) == [b'{"a":"%s"}' % str(ID).encode(), b"{}"]
    assert encode(TEXTS) == [b'{"a":{"b": [1.10]}}', b'{"a":"x"}', b"{}"]
    assert encode(FLAGS) == [b'{"a":true}', b'{"a":false}', b'{"a":true}', b"{}"]
    text = str(ID)
    (first, *_) = encode(nested(UUIDS))
    assert first is not None
    assert json.loads(first) == {"s": {"a": text}, "l": [text], "m": {"k": text}}
    (first, *_) = encode(nested(TEXTS))
    assert first is not None
    assert json.loads(first) == {"s": {"a": {"b": [1.1]}}, "l": [{"b": [1.1]}], "m": {"k": {"b": [1.1]}}}
    (first, *_) = encode(nested(FLAGS))
    assert first is not None
    assert json.loads(first) == {"s": {"a": True}, "l": [True], "m": {"k": True}}


def test_a_schema_says_what_json_has() -> None:
    assert Json("a string").spec.encode(UUIDS[:1]) == [b'{"a":"%s"}' % str(ID).encode()]
    assert Json("a string").spec.encode(TEXTS[:1]) == [b'{"a":"{\\"b\\": [1.10]}"}']
    assert Json("a boolean").spec.encode(FLAGS[:1]) == [b'{"a":true}']
    assert Json("a binary").spec.encode(UUIDS[:1]) == [b'{"a":"VQ6EAOKbQdSnFkRmVUQAAA=="}']


def test_a_text_that_is_no_json_is_refused() -> None:
    for text in ('{"b":', "", "{} {}", "NaN"):
        with pytest.raises(ArgumentError, match="row 1: a: the column's type is JSON, and this text is none"):
            Json().spec.encode(extension("arrow.json", pa.array(["{}", text])))


def test_avro_and_protobuf_have_what_they_mean() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}
    assert Avro(record(field("a", fixed))).spec.encode(UUIDS[:1]) == [ID.bytes]
    text = str(ID).encode()
    for kind in ("string", {"type": "string", "logicalType": "uuid"}):
        assert Avro(record(field("a", kind))).spec.encode(UUIDS[:1]) == [b"\x48" + text]
    assert Avro(record(field("a", ["null", "string"]))).spec.encode(UUIDS) == [b"\x02\x48" + text, b"\0"]
    assert Avro(record(field("a", "bytes"))).spec.encode(UUIDS[:1]) == [b"\x20" + ID.bytes]
    assert Avro(record(field("a", "boolean"))).spec.encode(FLAGS[:3]) == [b"\1", b"\0", b"\1"]
    assert Avro(record(field("a", "string"))).spec.encode(TEXTS[1:2]) == [b'\x06"x"']
    proto = 'syntax = "proto3"; message M {{ {} a = 1; }}'
    assert Protobuf(proto.format("bool")).spec.encode(FLAGS[:1]) == [b"\x08\x01"]
    assert Protobuf(proto.format("string")).spec.encode(UUIDS[:1]) == [b"\x0a\x24" + text]
    assert Protobuf(proto.format("repeated bytes")).spec.encode(
        nested(UUIDS[:1]).select(["l"]).rename_columns(["a"])
    ) == [b"\x0a\x10" + ID.bytes]
    assert Protobuf(proto.format("repeated string")).spec.encode(
        nested(UUIDS[:1]).select(["l"]).rename_columns(["a"])
    ) == [b"\x0a\x24" + text]
    with pytest.raises(ArgumentError, match="the column is of type Boolean"):
        Avro(record(field("a", "int"))).spec.encode(FLAGS[:3])


def of_duckdb(query: str, lossless: bool) -> Any:
    connection = duckdb.connect()
    connection.execute(f"SET arrow_lossless_conversion = {lossless}")
    return connection.sql(f"SELECT {query} AS a").to_arrow_table()


@pytest.mark.parametrize("number", [0, 1, -1, 255, -300, 2**64, 10**38 - 1, 1 - 10**38])
@pytest.mark.parametrize("column", ["hugeint", "bignum"])
def test_large_numbers_of_duckdb_are_numbers(column: str, number: int) -> None:
    table = of_duckdb(f"'{number}'::{column}", lossless=True)
    assert Json().spec.encode(table) == [b'{"a":%d}' % number]


def test_large_numbers_of_duckdb_without_a_sign_are_numbers() -> None:
    assert Json().spec.encode(of_duckdb(f"'{2**100}'::uhugeint", lossless=True)) == [b'{"a":%d}' % 2**100]


@pytest.mark.parametrize("value", [f"'{10**38}'::hugeint", f"'{10**38}'::uhugeint", f"'-{10**40}'::bignum"])
def test_numbers_of_duckdb_that_no_decimal_has_are_refused(value: str) -> None:
    with pytest.raises(ArgumentError, match=r"a: a whole number of more than 38 digits.* cast the column to VARCHAR"):
        Json().spec.encode(of_duckdb(value, lossless=True))


@pytest.mark.parametrize(
    "value",
    [
        *("'0101'::bit", "'010101011'::bit", "'1'::bit", "'12:30:00+02'::timetz", "'12:30:00.5-05:30'::timetz"),
        *("'00:00:00.000001+01:02:03'::timetz", "'23:59:59.999999-15:59:59'::timetz"),
    ],
)
def test_types_of_duckdb_that_arrow_lacks_are_its_texts(value: str) -> None:
    table = of_duckdb(value, lossless=True)
    (expected,) = of_duckdb(f"({value})::VARCHAR", lossless=False)["a"].to_pylist()
    assert Json().spec.encode(table) == [b'{"a":"%s"}' % expected.encode()]


UNKNOWN: dict[str, tuple[Callable[[], Any], str]] = {
    "geometry": (lambda: extension("geoarrow.wkb", pa.array([b"\0"])), "geoarrow.wkb, stored as Binary"),
    "period": (
        lambda: pandas.DataFrame({"a": pandas.period_range("2026-01", periods=1, freq="M")}),
        "pandas.period, stored as Int64",
    ),
    "opaque": (
        lambda: extension("arrow.opaque", pa.array([b"\0"]), b'{"type_name": "point", "vendor_name": "Postgres"}'),
        r"point of Postgres \(arrow\.opaque\), stored as Binary",
    ),
    "a known name": (lambda: extension("arrow.bool8", pa.array([1])), "arrow.bool8, stored as Int64"),
    "in a list": (
        lambda: nested(extension("geoarrow.wkb", pa.array([b"\0"]))).select(["l"]),
        "geoarrow.wkb, stored as Binary",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_others_are_refused_by_name(name: str) -> None:
    table, says = UNKNOWN[name]
    for form in (Json(), Avro(record(field("a", "bytes")))):
        with pytest.raises(ArgumentError, match=f"a: the column is of the extension type {says}, and what it means"):
            form.spec.encode(table())


def test_keys_and_values_are_bytes_only_if_they_are_known(ground: Ground, producer: ProducerFactory) -> None:
    topic = ground.topic()
    rows = UUIDS[:1].rename_columns(["key"]).append_column("value", [["v"]])
    producer().send_batch(rows, topic).result(PATIENCE)
    assert [each.key for each in stored(ground.bootstrap, topic)] == [ID.bytes]
    with pytest.raises(ArgumentError, match=r"value: the column is of the extension type geoarrow\.wkb"):
        producer().send_batch(extension("geoarrow.wkb", pa.array([b"\0"])).rename_columns(["value"]), topic)

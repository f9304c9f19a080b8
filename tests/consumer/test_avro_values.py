"""Avro values that fastavro writes, against what fastavro reads of them by the same schemas."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from monedula import ArgumentError, Avro

from tests.consumer.avro_values import EVOLUTION, Schema, field, record, rows, written


def read_by_fastavro(data: bytes, writer: Schema, reader: Schema) -> Any:
    parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    return fastavro.schemaless_reader(io.BytesIO(data), *parsed)


def decoded(form: Avro, values: list[bytes | None]) -> list[Any]:
    table = pa.table(form.spec.decode(values))
    table.validate(full=True)
    rows: list[Any] = table["value"].to_pylist(maps_as_pydicts="strict")
    return rows


def as_columns(schema: Schema, value: Any) -> Any:
    """What fastavro reads, with structs for unions of several types."""
    match schema:
        case list():
            branches = [each for each in schema if each != "null"]
            if value is None or len(branches) == 1:
                return None if value is None else as_columns(branches[0], value)
            chosen = next(number for number, each in enumerate(branches) if isinstance(value, PYTHON[_kind(each)]))
            return {
                f"member{number}": as_columns(each, value) if number == chosen else None
                for number, each in enumerate(branches)
            }
        case {"type": "record", "fields": fields}:
            return {field["name"]: as_columns(field["type"], value[field["name"]]) for field in fields}
        case {"type": "array", "items": items}:
            return [as_columns(items, each) for each in value]
        case {"type": "map", "values": values}:
            return {key: as_columns(values, each) for key, each in value.items()}
    return value


PYTHON = {"long": int, "string": str, "double": float, "bytes": bytes, "array": list}
"""The types that fastavro reads the branches of unions as, which are never of one type here."""


def _kind(schema: Schema) -> str:
    kind: str = schema["type"] if isinstance(schema, dict) else schema
    return kind


@settings(max_examples=300, deadline=None, derandomize=True)
@given(rows())
def test_what_fastavro_writes_is_read_as_fastavro_reads_it(schema_and_rows: tuple[Schema, list[Any]]) -> None:
    schema, rows = schema_and_rows
    data = [written(schema, row) for row in rows]
    expected = [as_columns(schema, read_by_fastavro(each, schema, schema)) for each in data]
    assert decoded(Avro(schema), [*data, None]) == [*expected, None]


@pytest.mark.parametrize("name", EVOLUTION)
def test_evolution_is_as_fastavro_has_it(name: str) -> None:
    writer, reader, value = EVOLUTION[name]
    data = written(writer, value)
    expected = as_columns(reader, read_by_fastavro(data, writer, reader))
    assert decoded(Avro(reader, writer=writer), [data, data]) == [expected, expected]


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("long", "int"),
        ("string", "int"),
        (record(), record(field("a", "int"))),
        (record(field("a", "double")), record(field("a", "float"))),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "long"}),
        (record(field("a", "string")), record(field("a", ["null", "int"]))),
    ],
)
def test_what_fastavro_cannot_resolve_is_refused_when_the_decoder_is_made(writer: Schema, reader: Schema) -> None:
    samples = {"long": 1, "string": "x", "record": {"a": 1.5}, "array": ["x"]}
    sample = {"a": "x"} if "null" in json.dumps(reader) else samples[_kind(writer)]
    with pytest.raises(fastavro.read.SchemaResolutionError):
        read_by_fastavro(written(writer, sample), writer, reader)
    with pytest.raises(ArgumentError, match="schema: the writer's schema cannot be read"):
        Avro(reader, writer=writer)


def test_a_default_is_read_to_the_last_bit() -> None:
    # Of which a reader that is not exact makes 0.4319016320579469.
    (row,) = decoded(Avro(record(field("a", "double", default=0.43190163205794685)), writer=record()), [b""])
    assert row == {"a": 0.43190163205794685}


def test_a_default_that_could_be_tried_without_end_is_refused() -> None:
    either = record(field("x", ["A", "B"], default={}), field("y", ["B", "A"], default={}), name="B")
    reader = record(field("x", [either, "A"], default={}), field("y", ["B", "A"], default={}), name="A")
    with pytest.raises(ArgumentError, match=r"x: the default \{\} is no union"):
        Avro(reader, writer=record(name="A"), options={"recursiveFieldMaxDepth": 1})


@pytest.mark.parametrize("scale", [-2, "2", 1.5])
def test_a_decimal_whose_scale_is_none_is_bytes(scale: object) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": scale}
    assert repr(Avro(schema)) == "Avro(binary)"


def test_of_schemas_with_one_fingerprint_the_first_that_was_given_is_meant() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    canonical = fastavro.schema.to_parsing_canonical_form(fastavro.parse_schema("long"))
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    (at,) = decoded(Avro(micros, schemas=[millis]), [b"\xc3\x01" + fingerprint + b"\x02"])
    assert at.microsecond == 1000


def test_records_in_themselves_are_cut() -> None:
    node = record(field("value", "int"), field("next", ["null", "Node"]), name="Node")
    value = {"value": 1, "next": {"value": 2, "next": {"value": 3, "next": None}}}
    form = Avro(node, options={"recursiveFieldMaxDepth": 2})
    assert decoded(form, [written(node, value)]) == [{"value": 1, "next": {"value": 2}}]


def test_nanoseconds_and_uuids() -> None:
    schema = record(
        field("at", {"type": "long", "logicalType": "timestamp-nanos"}),
        field("id", {"type": "string", "logicalType": "uuid"}),
    )
    table = pa.table(Avro(schema).spec.decode([b"\x0a" + b"\x02x"]))
    assert table.schema.field("value").type == pa.struct([("at", pa.timestamp("ns", "UTC")), ("id", pa.string())])
    column: Any = table["value"].combine_chunks()
    assert (column.field("at").cast(pa.int64()).to_pylist(), column.field("id").to_pylist()) == ([5], ["x"])

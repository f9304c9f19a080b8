"""Rows that are written as Avro: against what fastavro writes and reads by the same schemas."""

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monedula import ArgumentError, Avro

from tests.consumer.avro_values import Schema, field, record, rows, written

UTC = datetime.UTC


def read(data: bytes | None, schema: Schema) -> Any:
    assert data is not None
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b""
    return value


def encoded(schema: Schema, column: Any, **options: Any) -> list[bytes | None]:
    return Avro(schema, **options).spec.encode(pa.table({"value": column}))


def one(schema: Schema, column: Any) -> Any:
    """The value of the one row of a column, as fastavro reads it."""
    (data,) = encoded(schema, column)
    return read(data, schema)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(rows(), st.data())
def test_what_fastavro_writes_is_written_from_the_columns_that_it_is_read_into(
    schema_and_rows: tuple[Schema, list[Any]], data: st.DataObject
) -> None:
    schema, values = schema_and_rows
    expected = [written(schema, value) for value in values]
    form = Avro(schema)
    table = pa.table(form.spec.decode([None, *expected, None]))
    # In pieces of any sizes: arrays that begin in the middle of their buffers.
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=3)))
    pieces = [table.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, len(table)], strict=True)]
    made = form.spec.encode(pa.concat_tables(pieces))
    assert (made[0], made[-1]) == (None, None)
    for own, others, value in zip(made[1:-1], expected, values, strict=True):
        if value is None:
            # A record without a value: the table has nothing that tells the two apart.
            assert own is None
        elif "decimal" in json.dumps(schema):
            # fastavro writes a byte more than needed for some of them.
            assert read(own, schema) == read(others, schema)
        else:
            assert own == others


@pytest.mark.parametrize("width", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_whole_numbers_of_any_width_fit_as_far_as_they_are_in_range(width: str) -> None:
    data_type = getattr(pa, width)()
    bits = data_type.bit_width
    low, high = (0, 2**bits - 1) if width.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for schema, least, most in [("int", -(2**31), 2**31 - 1), ("long", -(2**63), 2**63 - 1)]:
        for value in (low, high):
            column = pa.array([value], data_type)
            if least <= value <= most:
                assert one(schema, column) == value
            else:
                with pytest.raises(
                    ArgumentError, match=rf"row 0: value: {value} is beyond the range of the.* {schema}"
                ):
                    encoded(schema, column)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
STAMP = {"type": "long", "logicalType": "timestamp-millis"}
NOON = datetime.datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ("string", pa.array(["é"], pa.large_string()), "é"),
        ("string", pa.array(["x" * 40], pa.string_view()), "x" * 40),
        ("string", pa.array(["é"]).dictionary_encode(), "é"),
        ("bytes", pa.array([b"x"], pa.large_binary()), b"x"),
        ("bytes", pa.array([b"x" * 40], pa.binary_view()), b"x" * 40),
        ("bytes", pa.array([b"xyz"], pa.binary(3)), b"xyz"),
        ("double", pa.array([1.5], pa.float32()), 1.5),
        ("double", pa.array([1.5], pa.float16()), 1.5),
        ("double", pa.array([7], pa.int64()), 7.0),
        ("float", pa.array([1.5], pa.float64()), 1.5),
        ({"type": "enum", "name": "E", "symbols": ["b", "a"]}, pa.array(["a"]).dictionary_encode(), "a"),
        ({"type": "fixed", "name": "F", "size": 3}, pa.array([b"xyz"]), b"xyz"),
        (DECIMAL, pa.array([Decimal("-1.28")], pa.decimal128(5, 3)), Decimal("-1.28")),
        (DECIMAL, pa.array([Decimal("9999.99")], pa.decimal256(40, 2)), Decimal("9999.99")),
        (DECIMAL, pa.array([Decimal("1.25")], pa.decimal256(76, 60)), Decimal("1.25")),
        (DECIMAL, pa.array([Decimal(7)], pa.decimal32(3, 0)), Decimal("7.00")),
        (
            {"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 6, "scale": 2},
            pa.array([Decimal("-1.28")], pa.decimal64(5, 2)),
            Decimal("-1.28"),
        ),
        (STAMP, pa.array([NOON], pa.timestamp("s", "Europe/Prague")), NOON),
        (STAMP, pa.array([NOON], pa.timestamp("ns", "UTC")), NOON),
        (
            {**STAMP, "logicalType": "local-timestamp-millis"},
            pa.array([NOON.replace(tzinfo=None)]),
            NOON.replace(tzinfo=None),
        ),
        ({"type": "int", "logicalType": "date"}, pa.array([NOON.date()], pa.date64()), NOON.date()),
        ({"type": "int", "logicalType": "time-millis"}, pa.array([NOON.time()], pa.time64("ns")), NOON.time()),
        ({"type": "long", "logicalType": "time-micros"}, pa.array([NOON.time()], pa.time32("s")), NOON.time()),
        ({"type": "array", "items": "int"}, pa.array([[1, 2]], pa.list_(pa.int8(), 2)), [1, 2]),
        ({"type": "array", "items": "int"}, pa.array([[1, 2]], pa.large_list(pa.int64())), [1, 2]),
        ({"type": "map", "values": "int"}, pa.array([[("a", 1)]], pa.map_(pa.large_string(), pa.int32())), {"a": 1}),
        # As polars has maps.
        ({"type": "map", "values": "int"}, pa.array([[{"key": "a", "value": 1}]]), {"a": 1}),
        (["null", "string"], pa.array(["x"]), "x"),
        (["int", "null", "string"], pa.array(["x"]), "x"),
        (["int", "long"], pa.array([1], pa.int32()), 1),
        # Of the branches that take a column, the nearest.
        (["double", "long"], pa.array([2**53 + 1]), 2**53 + 1),
        (["double", STAMP], pa.array([5]), datetime.datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)),
        (["bytes", "string"], pa.array(["x"]).dictionary_encode(), "x"),
        ([{"type": "enum", "name": "E", "symbols": ["a"]}, "string"], pa.array(["x"]), "x"),
        ([{"type": "fixed", "name": "F", "size": 2}, "bytes"], pa.array([b"xyz"], pa.binary(3)), b"xyz"),
        (["bytes", {"type": "fixed", "name": "F", "size": 3}], pa.array([b"xyz"], pa.binary(3)), b"xyz"),
    ],
)
def test_columns_of_other_types_than_reading_yields_are_written_exactly(
    schema: Any, column: Any, expected: Any
) -> None:
    assert one(schema, column) == expected


@pytest.mark.parametrize(
    ("schema", "column", "says"),
    [
        (DECIMAL, pa.array([Decimal("1.234")], pa.decimal128(5, 3)), "more decimal places"),
        (DECIMAL, pa.array([Decimal(12345)], pa.decimal128(5, 0)), r"more digits than the schema's decimal\(6, 2\)"),
        (STAMP, pa.array([NOON.replace(microsecond=1)]), "not a whole number of the schema's timestamp-millis"),
        (STAMP, pa.array([2**62], pa.timestamp("s", "UTC")), "beyond the range of the schema's timestamp-millis"),
        ({"type": "int", "logicalType": "date"}, pa.array([1], pa.date64()), "not a whole number"),
        ("float", pa.array([0.1]), "would be rounded"),
        ("double", pa.array([2**53 + 1]), "would be rounded"),
        (
            {"type": "enum", "name": "E", "symbols": ["b", "a"]},
            pa.array(["z"]),
            '"z" is no symbol of the enum, which has a, b',
        ),
        ({"type": "fixed", "name": "F", "size": 3}, pa.array([b"xy"]), "2 bytes, where the schema's fixed has 3"),
        (
            {"type": "array", "items": "int"},
            pa.array([[1, None]]),
            r"\[1\]: is null, and the schema's int takes no null",
        ),
        (
            ["int", "string"],
            pa.array([{"member0": 1, "member1": "x"}]),
            "member0 and member1 both have a value",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(schema: Any, column: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=f"row 0: value.*{says}"):
        encoded(schema, column)


@pytest.mark.parametrize(
    ("schema", "column", "says"),
    [
        ("int", pa.array(["x"]), "the column is of type Utf8, and the schema has int there; expected a whole number"),
        (STAMP, pa.array([NOON.replace(tzinfo=None)]), "expected a timestamp with a zone"),
        (record(field("a", "int")), pa.array([1.5]), "With flatten=True, the columns of the table are its fields"),
        (record(field("a", "int")), pa.array([{"a": 1, "b": 2}]), r"\.b: the record R has no such field, only a"),
        (record(field("a", "int")), pa.array([{}], pa.struct([])), r"\.a: there is no column for this field of R"),
        (
            ["int", "string"],
            pa.array([b"x"]),
            r"no branch of the union takes Binary; .*member0 \(int\), member1 \(string\)",
        ),
    ],
)
def test_a_column_that_does_not_fit_is_an_error_without_rows_too(schema: Any, column: Any, says: str) -> None:
    for given_column in (column, column[:0]):
        with pytest.raises(ArgumentError, match=f"^value.*{says}"):
            encoded(schema, given_column)


ORDER = record(
    field("id", "long"),
    field("user", ["null", "string"], default=None),
    field("lines", {"type": "array", "items": record(field("price", "double"), name="Line")}, default=[{"price": 0.5}]),
)


def test_a_table_without_a_column_value_is_records_of_its_columns() -> None:
    table = pa.table({"key": [b"k"], "user": ["x"], "id": pa.array([7], pa.int32())})
    (data,) = Avro(ORDER).spec.encode(table)
    assert read(data, ORDER) == {"id": 7, "user": "x", "lines": [{"price": 0.5}]}


def test_a_field_called_value_is_a_column_with_flatten() -> None:
    schema = record(field("value", "double"))
    (data,) = Avro(schema, flatten=True).spec.encode(pa.table({"value": [1.5]}))
    assert read(data, schema) == {"value": 1.5}


def test_a_field_with_the_name_of_kafkas_column_is_not_guessed() -> None:
    with pytest.raises(ArgumentError, match=r'"timestamp" is one of Kafka.*one column "value" of structs'):
        Avro(record(field("timestamp", "long"))).spec.encode(pa.table({"timestamp": [1]}))


def test_a_table_of_polars_fits_as_long_as_no_null_is_met() -> None:
    frame = pl.DataFrame({"id": [1, 2], "user": ["a", None], "lines": [[{"price": 1.0}], []]})
    made = Avro(ORDER).spec.encode(frame)
    assert [read(each, ORDER) for each in made] == frame.to_dicts()
    with pytest.raises(
        ArgumentError, match=r"row 1: id: is null, and the schema's long takes no null; no row was sent"
    ):
        Avro(ORDER).spec.encode(frame.with_columns(id=pl.Series([1, None])))


def test_a_row_is_counted_from_the_first_of_the_table() -> None:
    kind = pa.struct([("id", pa.int64())])
    chunks: Any = pa.chunked_array([pa.array(chunk, kind) for chunk in ([{"id": 1}], [], [{"id": 2}, {"id": None}])])
    with pytest.raises(ArgumentError, match=r"row 2: value\.id: is null"):
        encoded(ORDER, chunks)


def test_columns_without_a_type_are_nulls() -> None:
    (data,) = Avro(ORDER).spec.encode(pa.table({"id": [1], "user": pa.nulls(1)}))
    assert read(data, ORDER)["user"] is None


def test_the_least_number_of_128_bits_has_too_many_digits_for_any_decimal() -> None:
    least = pa.py_buffer((-(2**127)).to_bytes(16, "little", signed=True))
    column = pa.Array.from_buffers(pa.decimal128(38, 0), 1, [None, least])
    with pytest.raises(ArgumentError, match=r"row 0: value: a number of more digits than .* decimal\(38, 0\)"):
        encoded({**DECIMAL, "precision": 38, "scale": 0}, column)


def test_large_rows_at_the_beginning_claim_no_room_for_small_ones_behind_them() -> None:
    large, small = 300, 3_000_000
    # If every row were as large, they would take 300 GB.
    places = pa.array(([0] * large) + ([1] * small), pa.int8())
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 100_000, ""]))
    (data,) = {len(each or b"") for each in encoded("string", column)[large:]}
    assert data == 1


def test_values_below_a_null_are_not_looked_at() -> None:
    inner = pa.StructArray.from_arrays([pa.array([None, 5], pa.int32())], names=["x"], mask=pa.array([True, False]))
    schema = record(field("a", ["null", record(field("x", "int"), name="Inner")]))
    made = encoded(schema, pa.StructArray.from_arrays([inner], names=["a"]))
    assert [read(each, schema) for each in made] == [{"a": None}, {"a": {"x": 5}}]


@pytest.mark.parametrize("framing", ["bare", "single_object"])
def test_a_schema_may_name_types_of_others(framing: Any) -> None:
    line = record(field("price", "double"), name="Line")
    form = Avro(record(field("line", "Line")), references=[line], framing=framing)
    made = form.spec.encode(pa.table({"line": [{"price": 0.5}]}))
    assert pa.table(form.spec.decode(made)).to_pylist() == [{"value": {"line": {"price": 0.5}}}]


def test_framing_is_that_of_the_schemas_own_id() -> None:
    column = pa.array([1], pa.int64())
    assert encoded("long", column, schemas={7: '"long"', 9: '"int"'}) == [b"\0\0\0\0\7\2"]
    assert encoded("long", column, framing="single_object")[0][:2] == b"\xc3\1"  # type: ignore[index]
    guid = "89791762-2336-4186-9674-299b90a802e2"
    assert encoded("long", column, schemas={guid: '"long"'}) == [b"\1" + bytes.fromhex(guid.replace("-", "")) + b"\2"]
    # As Confluent's serializers have it: without a length.
    assert encoded("bytes", pa.array([b"xyz"]), schemas={7: '"bytes"'}) == [b"\0\0\0\0\7xyz"]
    with pytest.raises(ArgumentError, match=r"give it as schemas=\{7: schema\}"):
        encoded("long", column, schemas={9: '"int"'})
    with pytest.raises(ArgumentError, match="writer= is for reading"):
        encoded("long", column, writer='"int"')

"""Avro values that fastavro writes, against what fastavro reads of them by the same schemas."""

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monedula import ArgumentError, Avro

Schema = Any


def written(schema: Schema, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


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


UTC = datetime.UTC
NAIVE = st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1))
MILLIS = NAIVE.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
SCALARS: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text()),
    ("bytes", st.binary()),
    ({"type": "int", "logicalType": "date"}, st.dates(datetime.date(1, 1, 1))),
    ({"type": "int", "logicalType": "time-millis"}, MILLIS.map(datetime.datetime.time)),
    ({"type": "long", "logicalType": "time-micros"}, NAIVE.map(datetime.datetime.time)),
    ({"type": "long", "logicalType": "timestamp-millis"}, MILLIS.map(lambda time: time.replace(tzinfo=UTC))),
    ({"type": "long", "logicalType": "timestamp-micros"}, NAIVE.map(lambda time: time.replace(tzinfo=UTC))),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, NAIVE),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-3)),
    ),
]


@st.composite
def named(draw: st.DrawFn, numbers: list[int]) -> tuple[Schema, st.SearchStrategy[Any]]:
    """An enum or a fixed, of a name that the schema has not."""
    numbers.append(len(numbers))
    name = f"N{len(numbers)}"
    if draw(st.booleans()):
        symbols = [f"s{number}" for number in range(draw(st.integers(1, 4)))]
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    size = draw(st.integers(0, 20))
    return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)


@st.composite
def typed(draw: st.DrawFn, numbers: list[int], depth: int = 0) -> tuple[Schema, st.SearchStrategy[Any]]:
    """A schema, and a strategy for its values."""
    kinds = ["scalar", "named", "nullable", "either"]
    kind = draw(st.sampled_from(kinds if depth > 2 else [*kinds, "array", "map", "record"]))
    match kind:
        case "scalar":
            schema, values = draw(st.sampled_from(SCALARS))
            return schema, values
        case "named":
            schema, values = draw(named(numbers))
            return schema, values
        case "nullable":
            schema, values = draw(st.sampled_from(SCALARS))
            nulls = [schema, "null"]
            return draw(st.permutations(nulls)), st.none() | values
        case "either":
            branches: list[tuple[Schema, st.SearchStrategy[Any]]] = [
                ("long", st.integers(-(2**63), 2**63 - 1)),
                ("string", st.text()),
                ("double", st.floats(allow_nan=False)),
                ("bytes", st.binary()),
                ({"type": "array", "items": "string"}, st.lists(st.text(), max_size=3)),
                ("null", st.none()),
            ]
            chosen = draw(
                st.lists(st.sampled_from(branches), min_size=3, max_size=5, unique_by=lambda each: str(each[0]))
            )
            return [schema for schema, _ in chosen], st.one_of([values for _, values in chosen])
        case "array":
            items, values = draw(typed(numbers, depth + 1))
            return {"type": "array", "items": items}, st.lists(values, max_size=4)
        case "map":
            items, values = draw(typed(numbers, depth + 1))
            return {"type": "map", "values": items}, st.dictionaries(st.text(), values, max_size=4)
        case _:
            return draw(records(numbers, depth))


@st.composite
def records(draw: st.DrawFn, numbers: list[int], depth: int) -> tuple[Schema, st.SearchStrategy[Any]]:
    numbers.append(len(numbers))
    name = f"R{len(numbers)}"
    members = [draw(typed(numbers, depth + 1)) for _ in range(draw(st.integers(1, 4)))]
    fields = [{"name": f"f{index}", "type": schema} for index, (schema, _) in enumerate(members)]
    values = st.fixed_dictionaries({f"f{index}": values for index, (_, values) in enumerate(members)})
    return {"type": "record", "name": name, "fields": fields}, values


@st.composite
def rows(draw: st.DrawFn) -> tuple[Schema, list[Any]]:
    schema, values = draw(typed([]))
    return schema, draw(st.lists(values, min_size=1, max_size=4))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(rows())
def test_what_fastavro_writes_is_read_as_fastavro_reads_it(schema_and_rows: tuple[Schema, list[Any]]) -> None:
    schema, rows = schema_and_rows
    data = [written(schema, row) for row in rows]
    expected = [as_columns(schema, read_by_fastavro(each, schema, schema)) for each in data]
    assert decoded(Avro(schema), [*data, None]) == [*expected, None]


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> Schema:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Schema, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


INNER = record(field("x", "int"), name="Inner")
EVOLUTION: dict[str, tuple[Schema, Schema, Any]] = {
    "a field is gone": (
        record(field("a", "int"), field("b", "string")),
        record(field("b", "string")),
        {"a": 1, "b": "b"},
    ),
    "a field is new": (
        record(field("a", "int")),
        record(field("a", "int"), field("b", "string", default="d")),
        {"a": 1},
    ),
    "fields in another order": (
        record(field("a", "int"), field("b", "string")),
        record(field("b", "string"), field("a", "int")),
        {"a": 1, "b": "b"},
    ),
    "a field has another name": (record(field("a", "int")), record(field("z", "int", aliases=["a"])), {"a": 1}),
    "int to long": (record(field("a", "int")), record(field("a", "long")), {"a": -7}),
    "int to float": (record(field("a", "int")), record(field("a", "float")), {"a": 7}),
    "long to double": (record(field("a", "long")), record(field("a", "double")), {"a": 1 << 40}),
    "float to double": (record(field("a", "float")), record(field("a", "double")), {"a": 0.5}),
    "string to bytes": (record(field("a", "string")), record(field("a", "bytes")), {"a": "é"}),
    "bytes to string": (record(field("a", "bytes")), record(field("a", "string")), {"a": b"x"}),
    "a field may be null now": (record(field("a", "int")), record(field("a", ["null", "long"])), {"a": 3}),
    "a field may not be null any more": (record(field("a", ["null", "int"])), record(field("a", "long")), {"a": 3}),
    "a union is another": (
        record(field("a", ["int", "null"])),
        record(field("a", ["null", "double"])),
        {"a": 3},
    ),
    "items": (
        record(field("a", {"type": "array", "items": "int"})),
        record(field("a", {"type": "array", "items": ["null", "long"]})),
        {"a": [1, 2]},
    ),
    "values": (
        record(field("a", {"type": "map", "values": INNER})),
        record(field("a", {"type": "map", "values": record(field("y", "int", default=9), name="Inner")})),
        {"a": {"k": {"x": 1}}},
    ),
    "a nested default": (
        record(field("a", "int")),
        record(
            field(
                "n",
                record(field("x", "int"), field("y", ["null", "int"], default=None), name="N"),
                default={"x": 4, "y": None},
            )
        ),
        {"a": 1},
    ),
    "a symbol is gone": (
        record(field("e", {"type": "enum", "name": "E", "symbols": ["a", "b", "new"]})),
        record(field("e", {"type": "enum", "name": "E", "symbols": ["b", "a"], "default": "b"})),
        {"e": "new"},
    ),
    "symbols in another order": (
        record(field("e", {"type": "enum", "name": "E", "symbols": ["a", "b"]})),
        record(field("e", {"type": "enum", "name": "E", "symbols": ["b", "a"]})),
        {"e": "b"},
    ),
    "a scalar": ("int", "long", 5),
    "a list inside a record that is gone": (
        record(field("gone", {"type": "array", "items": ["null", INNER]}), field("a", "int")),
        record(field("a", "int")),
        {"gone": [{"x": 1}, None], "a": 2},
    ),
}


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

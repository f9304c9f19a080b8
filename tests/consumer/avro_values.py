"""Avro schemas with values that are generated, and schemas that evolve."""

import datetime
import io
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

Schema = Any


def written(schema: Schema, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


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

"""`schema_of`: each form of a schema, and what is refused by its path."""

import json
from typing import Any

import pandas
import polars as pl
import pyarrow as pa
import pytest
from monedula.errors import ArgumentError
from monedula.formats.schemas import ddl_of, schema_of

UTC = pa.timestamp("us", "UTC")


def test_an_arrow_schema_keeps_its_types() -> None:
    item = pa.struct([("price", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))])
    fields = [pa.field("id", pa.int64(), False), pa.field("items", pa.list_(item)), pa.field("at", UTC)]
    schema = pa.schema(fields)
    assert schema_of(schema) == schema
    assert schema_of(pa.struct(list(schema))) == schema
    assert schema_of(fields) == schema


def test_types_that_hold_the_same_values_become_one_that_is_decoded() -> None:
    given: dict[str, pa.DataType] = {
        "large": pa.large_string(),
        "view": pa.string_view(),
        "bytes": pa.large_binary(),
        "category": pa.dictionary(pa.int32(), pa.string()),
        "small": pa.uint8(),
        "wide": pa.uint32(),
        "seconds": pa.timestamp("s"),
        "nanos": pa.timestamp("ns", "UTC"),
        "day": pa.date64(),
        "list": pa.large_list(pa.uint16()),
        "money": pa.decimal256(20, 2),
    }
    found = {field.name: field.type for field in schema_of(pa.schema(given))}
    assert found == {
        "large": pa.string(),
        "view": pa.string(),
        "bytes": pa.binary(),
        "category": pa.string(),
        "small": pa.int16(),
        "wide": pa.int64(),
        "seconds": pa.timestamp("us"),
        "nanos": UTC,
        "day": pa.date32(),
        "list": pa.list_(pa.int32()),
        "money": pa.decimal128(20, 2),
    }


@pytest.mark.parametrize("wrap", [pl.Schema, dict])
def test_a_polars_schema(wrap: Any) -> None:
    schema = wrap(
        {
            "id": pl.Int64(),
            "name": pl.String(),
            "at": pl.Datetime("ns", "UTC"),
            "items": pl.List(pl.Struct({"price": pl.Decimal(10, 2), "day": pl.Date()})),
        }
    )
    item = pa.struct([("price", pa.decimal128(10, 2)), ("day", pa.date32())])
    fields: list[tuple[str, pa.DataType]] = [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("at", UTC),
        ("items", pa.list_(item)),
    ]
    assert schema_of(schema) == pa.schema(fields)


def test_unsupported_types_are_named_with_their_path() -> None:
    deep = pa.list_(pa.struct([("took", pa.duration("us"))]))
    with pytest.raises(
        ArgumentError, match=r"field items\[\]\.took: no values of type duration\[us\] are decoded; use i"
    ):
        schema_of(pa.schema([("items", deep)]))
    with pytest.raises(ArgumentError, match=r"field a: no values of type uint64 are decoded; use int64 or decimal128"):
        schema_of(pa.schema([("a", pa.uint64())]))
    with pytest.raises(ArgumentError, match="field a: the keys of a map must be strings"):
        schema_of(pa.schema([("a", pa.map_(pa.int32(), pa.string()))]))
    with pytest.raises(ArgumentError, match=r"field a\.b: two fields have this name"):
        schema_of("a struct<b: int, b: int>")


@pytest.mark.parametrize("source", [None, 5, pa.int32(), [("a", "int")]])
def test_what_is_no_schema_is_refused(source: object) -> None:
    with pytest.raises(ArgumentError, match=r"schema: "):
        schema_of(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pl.DataFrame({"a": [1]}), "pass the .schema of the DataFrame"),
        (pa.table({"a": [1]}), "pass the .schema of the Table"),
        (pandas.DataFrame({"a": [1]}), "pyarrow.Schema.from_pandas"),
        (pandas.DataFrame({"a": [1]}).dtypes, "pyarrow.Schema.from_pandas"),
        ({"a": int}, "a dict is a JSON Schema or has polars' types, and this one has 'a': <class 'int'>"),
        ({"a": "bigint"}, "write the types as Spark's DDL"),
        ([("a", "int")], "pass 'id bigint, user string' or pyarrow.schema"),
    ],
)
def test_who_gives_something_near_to_a_schema_is_told_what_to_pass(source: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        schema_of(source)


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("a foo", r"character 3, 'foo': field a: foo: there is no such type$"),
        ("a int64", r"there is no such type; Spark's DDL says bigint"),
        ("a list<string>", r"there is no such type; Spark's DDL says array<string>"),
        ("a", "expected the type of a"),
        ("a int,", "expected the name of a field"),
        ("a int b", "expected a comma or the end"),
        ("a map<int,string>", "field a: the keys of a map must be string"),
        ("a decimal(39,2)", "expected a whole number from 1 to 38"),
        ("s struct<x: array<char(3)>>", r"field s\.x\[\]: char: use string"),
        ("a interval day", "field a: interval: use string"),
        ("a int comment x", "expected a text in quotes"),
        ("a int not nil", "expected NULL after NOT"),
        ("a array<int", "expected '>'"),
        ("a int; b int", "no such character"),
        ("a " + "array<" * 100 + "int" + ">" * 100, "nested deeper than 64"),
    ],
)
def test_mistakes_in_ddl_are_named_with_their_place(ddl: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        schema_of(ddl)


def test_ddl_of_one_struct() -> None:
    assert schema_of("struct<a: int, b struct<c: date>>") == schema_of("a int, b struct<c: date>")


def test_ddl_is_written_as_it_is_read() -> None:
    text = (
        "id BIGINT NOT NULL, `a b` ARRAY<STRUCT<price: DECIMAL(10,2), `t``x`: TIMESTAMP_NTZ NOT NULL>>, "
        "m MAP<STRING, ARRAY<SMALLINT>>, at TIMESTAMP, day DATE, raw BINARY, f FLOAT, d DOUBLE, ok BOOLEAN, t TINYINT"
    )
    assert ddl_of(schema_of(text)) == text


JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "at", "customer"],
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number"},
        "count": {"type": "integer", "connect.type": "int16"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "maybe": {"type": ["null", "boolean"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "state": {"enum": ["new", "paid", None]},
        "customer": {"$ref": "#/$defs/customer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
        "either": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        "whole": {"allOf": [{"$ref": "#/$defs/customer"}, {"properties": {"vip": {"type": "boolean"}}}]},
    },
    "$defs": {
        "customer": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/definitions/a~1b"}},
        }
    },
    "definitions": {"a/b": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.mark.parametrize("source", [JSON_SCHEMA, json.dumps(JSON_SCHEMA)])
def test_a_json_schema(source: Any) -> None:
    assert ddl_of(schema_of(source)) == (
        "id BIGINT NOT NULL, amount DOUBLE, count SMALLINT, note STRING, maybe BOOLEAN, at TIMESTAMP NOT NULL, "
        "day DATE, raw BINARY, state STRING, "
        "customer STRUCT<name: STRING NOT NULL, address: STRUCT<city: STRING>> NOT NULL, "
        "tags ARRAY<STRING>, labels MAP<STRING, DOUBLE>, either DOUBLE, "
        "whole STRUCT<name: STRING NOT NULL, address: STRUCT<city: STRING>, vip: BOOLEAN>"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "values may be string or int64"),
        ({"$ref": "#/$defs/a"}, "#/\\$defs/a refers to itself"),
        ({"$ref": "#/$defs/none"}, "leads to nothing"),
        ({"$ref": "https://example.com/x.json"}, "leads out of the document, and nothing is fetched"),
        ({"type": "object"}, "an object needs `properties`"),
        ({"type": "array"}, "an array needs one schema"),
        ({"type": "null"}, "takes null alone"),
        ({"type": "text"}, "'text' is no type of JSON Schema"),
        ({}, "says nothing about the type"),
        (True, "True says nothing about the type"),
    ],
)
def test_a_json_schema_without_an_arrow_type_is_refused_with_its_path(schema: Any, message: str) -> None:
    defs = {"a": {"type": "object", "properties": {"next": {"$ref": "#/$defs/a"}}}}
    document = {"type": "object", "$defs": defs, "properties": {"x": {"type": "array", "items": schema}}}
    with pytest.raises(ArgumentError, match=rf"schema: field x(\[\](\.next)?)?: .*{message}"):
        schema_of(document)


def test_text_that_begins_as_a_json_schema_and_is_no_json() -> None:
    with pytest.raises(ArgumentError, match="the text begins as a JSON Schema does, and is no JSON"):
        schema_of('{"type": ')


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "object", "properties": []}, "at the top: properties is an object, and here"),
        (_object(a={"type": 7}), "field a: type is a name or a list, and here 7"),
        ({**_object(a={"type": "integer"}), "required": True}, "at the top: required is a list, and here True"),
        (_object(a={"allOf": None}), "field a: allOf is a list, and here None"),
        (_object(a={"allOf": [{"properties": 7}]}), "field a: properties is an object, and here 7"),
        (_object(a={"oneOf": 7}), "field a: oneOf is a list, and here 7"),
        (_object(a={"enum": 5}), "field a: enum is a list, and here 5"),
        (_object(a={"type": "string", "format": ["date"]}), "field a: format is a text, and here"),
        (_object(a={"type": "integer", "connect.type": {}}), r"field a: connect\.type is a text, and here"),
        (_object(**{"\ud800": {"type": "string"}}), "cannot be the name of a column"),
        (_object(**{"a\0b": {"type": "string"}}), "cannot be the name of a column"),
    ],
)
def test_a_json_schema_with_keywords_of_other_types_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        schema_of(schema)


@pytest.mark.parametrize("twice", ["properties", "oneOf", "allOf"])
def test_references_that_double_30_times_are_refused(twice: str) -> None:
    """They stand for 2^30 schemas, more than any memory holds."""

    def both(number: int) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/{number}"}
        return _object(a=reference, b=reference) if twice == "properties" else {twice: [reference, reference]}

    schema = {**_object(top=both(0)), "$defs": {str(n): both(n + 1) for n in range(30)} | {"30": {"type": "integer"}}}
    with pytest.raises(ArgumentError, match=r"more than 10000 columns|more than 100000 schemas"):
        schema_of(schema)


def test_a_json_schema_that_is_nested_without_end_is_refused() -> None:
    nested: dict[str, Any] = {"type": "integer"}
    for _ in range(2_000):
        nested = {"oneOf": [nested]}
    with pytest.raises(ArgumentError, match="nested too deeply"):
        schema_of(_object(a=nested))
    with pytest.raises(ArgumentError, match="is no JSON: maximum recursion"):
        schema_of('{"a":' * 50_000)

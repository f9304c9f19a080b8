"""Avro in the registry: which texts are schemas, how they are written, and what can be read with what."""

import json
from typing import Any

import pytest
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.schemas import parse

from tests.consumer.avro_values import EVOLUTION, field, record

BIG: list[Any] = [{"type": "enum", "name": "E", "symbols": ["a"]}, {"type": "fixed", "name": "F", "size": 2}]


def read(schema: Any) -> Any:
    return parse("AVRO", json.dumps(schema), [])


@pytest.mark.parametrize("case", EVOLUTION)
def test_what_is_decoded_can_be_read(case: str) -> None:
    writer, reader, _ = EVOLUTION[case]
    # Its value is not null, but another one might be.
    is_readable = case != "a field may not be null any more"
    assert (read(reader).cannot_read(read(writer)) == []) == is_readable


@pytest.mark.parametrize(
    ("writer", "reader", "kind", "path"),
    [
        ("long", "int", "TYPE_MISMATCH", "/"),
        ("int", "string", "TYPE_MISMATCH", "/"),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), "READER_FIELD_MISSING", "/fields/1"),
        (record(field("a", "int")), record(field("a", "int"), name="Other"), "NAME_MISMATCH", "/name"),
        (record(field("a", "long")), record(field("a", "int")), "TYPE_MISMATCH", "/fields/0/type"),
        (
            {"type": "enum", "name": "E", "symbols": ["a", "b"]},
            {"type": "enum", "name": "E", "symbols": ["a"]},
            "MISSING_ENUM_SYMBOLS",
            "/symbols",
        ),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            "FIXED_SIZE_MISMATCH",
            "/size",
        ),
        (["null", "string"], ["null", "int"], "MISSING_UNION_BRANCH", "/1"),
        ("string", ["null", "int"], "MISSING_UNION_BRANCH", "/"),
        (["int", "string"], "int", "TYPE_MISMATCH", "/"),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, "TYPE_MISMATCH", "/items"),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, "TYPE_MISMATCH", "/values"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(writer: Any, reader: Any, kind: str, path: str) -> None:
    (reason,) = read(reader).cannot_read(read(writer))
    assert reason.startswith(f"{{errorType:'{kind}")
    assert f"at path {path}'" in reason


def test_a_type_in_itself_is_compared_once() -> None:
    def linked(kind: str) -> dict[str, Any]:
        schema: dict[str, Any] = record(field("next", ["null", "Node"]), field("v", kind), name="Node")
        return schema

    assert read(linked("long")).cannot_read(read(linked("int"))) == []
    assert len(read(linked("int")).cannot_read(read(linked("long")))) >= 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("inti", "'inti' is not defined"),
        (record(field("a", BIG[0]), field("b", record(field("c", "E"), name="n.R")), name="O"), "'n.E' is not defined"),
        ({"type": "recrd", "name": "R"}, "'recrd' is not defined"),
        ({"type": "record", "name": "R"}, "no list of fields"),
        ({"type": "record", "fields": []}, "a record, enum or fixed needs a name"),
        ({"type": "record", "name": "1R", "fields": []}, "has the name '1R'"),
        (record(field("a", "int"), field("a", "int")), "a: two fields have this name"),
        (record(field("a", "int", default="x")), "a default that is none of its type"),
        (record(field("a", ["null", "int"], default="x")), "a default that is none of its type"),
        (record(field("a", "int", default=2**31)), "a default that is none of its type"),
        (record({"name": "a"}), "has no type"),
        (record(field("a", "int", order="upwards")), 'has the order "upwards"'),
        ({"type": "enum", "name": "E", "symbols": ["a", "a"]}, "has 'a' twice"),
        ({"type": "enum", "name": "E", "symbols": ["a"], "default": "b"}, "none of its symbols"),
        ({"type": "enum", "name": "E"}, "no list of symbols"),
        ({"type": "fixed", "name": "F", "size": -1}, "a fixed needs a size"),
        ({"type": "array"}, "an array needs items"),
        (["int", "int"], "the union has int twice"),
        (["int", ["string"]], "a union directly in a union"),
        ([BIG[0], BIG[0]], "the union has E twice"),
        (7, "7 is no type"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        read(schema)
    assert refused.value.code == 42201


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (BIG[0], True),
        ({**BIG[0], "doc": "d", "aliases": ["F"], "default": "a"}, True),
        ({**BIG[0], "symbols": ["a", "b"]}, False),
        ({**BIG[0], "extra": 1}, False),
        ({"type": "fixed", "name": "E", "size": 2}, False),
        (record(field("x", "int"), name="E"), False),
    ],
)
def test_a_type_may_be_defined_twice_if_it_is_alike_as_in_java(other: Any, alike: bool) -> None:
    schema = record(field("a", BIG[0]), field("b", {"type": "array", "items": other}), name="O")
    if alike:
        named = record(field("a", BIG[0]), field("b", {"type": "array", "items": "E"}), name="O")
        assert read(schema).canonical == read(named).canonical
        return
    with pytest.raises(ApiError, match="the type E is defined twice"):
        read(schema)


def test_records_may_be_defined_twice_but_not_in_themselves() -> None:
    inner = record(field("x", "int"), name="I")
    read(record(field("a", inner), field("b", ["null", inner]), name="O"))
    empty = record(name="I")
    with pytest.raises(ApiError, match="the type I is defined twice"):
        read(record(field("a", empty), name="I"))


@pytest.mark.parametrize("text", ["", "  ", "{", '{"type": "int", "type": "long"}', "[" * 5000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse("AVRO", text, [])
    assert refused.value.code == 42201


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"type": "string"}, '"string"'),
        ({"type": {"type": "int"}}, '"int"'),
        ({"logicalType": "date", "type": "int"}, '{"type":"int","logicalType":"date"}'),
        (
            [BIG[0], {"type": "record", "name": "n.R", "fields": [{"name": "a", "type": ".E"}]}],
            (
                '[{"type":"enum","name":"E","symbols":["a"]},'
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":".E"}]}]'
            ),
        ),
        (
            {"type": "record", "fields": [], "name": "a.b.R", "doc": "é"},
            '{"type":"record","name":"R","namespace":"a.b","doc":"é","fields":[]}',
        ),
        (
            {
                "type": "record",
                "name": "R",
                "namespace": "n",
                "fields": [
                    {"type": {"type": "enum", "name": "n.E", "symbols": ["x"]}, "name": "a", "default": "x"},
                    {"name": "b", "type": ["null", "n.E"], "order": "IGNORE", "aliases": ["c"], "z": 1},
                ],
            },
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"enum","name":"E",'
                '"symbols":["x"]},"default":"x"},'
                '{"name":"b","type":["null","E"],"order":"ignore","aliases":["c"],"z":1}]}'
            ),
        ),
    ],
)
def test_equal_schemas_have_one_text(given: Any, written: str) -> None:
    assert read(given).canonical == written
    assert read(json.loads(written)).canonical == written

"""JSON Schema in the registry: what is a schema, and what may follow what."""

import json
import random
from typing import Any

import jsonschema
import pytest
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.json_schema import parse


def read(schema: Any, *references: tuple[str, Any]) -> Any:
    return parse(json.dumps(schema), [(name, json.dumps(referred)) for name, referred in references])


def thing(closed: bool = True, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return {**schema, "additionalProperties": False} if closed else schema


INT, TEXT = {"type": "integer"}, {"type": "string"}

FITTING: dict[str, tuple[Any, Any]] = {
    "an optional property in a closed model": (thing(a=INT), thing(a=INT, b=TEXT)),
    "a required one with a default": (thing(a=INT), thing(required=("b",), a=INT, b={**TEXT, "default": ""})),
    "a property is gone from an open model": (thing(False, a=INT, b=TEXT), thing(False, a=INT)),
    "anything in an open model": (thing(False), thing(False, b={})),
    "a model is opened": (thing(a=INT), thing(False, a=INT)),
    "required no more": (thing(required=("a",), a=INT), thing(a=INT)),
    "integer to number": (INT, {"type": "number"}),
    "a value more in an enum": ({"enum": ["a"]}, {"enum": ["a", "b"]}),
    "bounds are wider": (
        {"type": "integer", "minimum": 2, "maximum": 5, "multipleOf": 4},
        {"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 2},
    ),
    "texts may be longer": ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}),
    "a pattern is gone": ({"type": "string", "pattern": "a"}, TEXT),
    "into a sum": (INT, {"oneOf": [TEXT, INT]}),
    "a sum has more": ({"oneOf": [TEXT, INT]}, {"oneOf": [INT, TEXT, {"type": "null"}]}),
    "one of to any of": ({"oneOf": [TEXT, INT]}, {"anyOf": [TEXT, INT]}),
    "a list of types has more": ({"type": ["string", "null"]}, {"type": ["string", "null", "integer"]}),
    "a product has less": ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, {"allOf": [{"maximum": 3}]}),
    "items": ({"type": "array", "items": INT}, {"type": "array", "items": {"type": "number"}}),
    "items of anything": ({"type": "array", "items": INT}, {"type": "array"}),
    "anything": (INT, {}),
    "true": (INT, True),
    "false": (False, INT),
    "texts about it": ({**INT, "title": "a", "default": 1}, {**INT, "title": "b", "format": "int64"}),
    "a definition": ({"$ref": "#/definitions/a", "definitions": {"a": INT}}, {"type": "number"}),
    "what is excluded is less": ({"not": {"type": "number"}}, {"not": INT}),
    "what is not decided stays": (
        {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}, "title": "x"},
    ),
}

BREAKING: dict[str, tuple[Any, Any, str]] = {
    "a property in an open model": (thing(False), thing(False, b=TEXT), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    "a required property": (
        thing(a=INT),
        thing(required=("b",), a=INT, b=TEXT),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    ),
    "required now": (thing(a=INT), thing(required=("a",), a=INT), "REQUIRED_ATTRIBUTE_ADDED"),
    "required now and no property": (thing(False), thing(False, required=("z",)), "REQUIRED_ATTRIBUTE_ADDED"),
    "a property is gone": (thing(a=INT, b=TEXT), thing(a=INT), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    "a model is closed": (thing(False, a=INT), thing(a=INT), "ADDITIONAL_PROPERTIES_REMOVED"),
    "others have a schema": (
        thing(False),
        {**thing(False), "additionalProperties": INT},
        "ADDITIONAL_PROPERTIES_NARROWED",
    ),
    "a property was another": (
        {**thing(False), "additionalProperties": TEXT},
        {**thing(False, a=INT), "additionalProperties": TEXT},
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    "number to integer": ({"type": "number"}, INT, "TYPE_NARROWED"),
    "another type": (INT, TEXT, "TYPE_CHANGED"),
    "a type within": (thing(a={"type": "object", "properties": {"b": INT}}), thing(a=TEXT), "TYPE_CHANGED"),
    "out of a sum": ({"oneOf": [INT, TEXT]}, INT, "TYPE_CHANGED"),
    "a sum has less": ({"oneOf": [INT, TEXT]}, {"oneOf": [INT]}, "SUM_TYPE_NARROWED"),
    "a sum has another": ({"oneOf": [INT, TEXT]}, {"oneOf": [INT, {"type": "null"}]}, "COMBINED_TYPE_SUBSCHEMAS"),
    "any of to one of": ({"anyOf": [INT, TEXT]}, {"oneOf": [INT, TEXT]}, "COMBINED_TYPE_CHANGED"),
    "a product has more": ({"allOf": [INT]}, {"allOf": [INT, {"minimum": 1}]}, "PRODUCT_TYPE_EXTENDED"),
    "a value less in an enum": ({"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    "a constant is another": ({"const": 1}, {"const": 2}, "ENUM_ARRAY_NARROWED"),
    "a minimum": ({"type": "number"}, {"type": "number", "minimum": 1}, "MINIMUM_ADDED"),
    "a higher minimum": ({"minimum": 1}, {"minimum": 2}, "MINIMUM_INCREASED"),
    "a lower maximum": ({"maximum": 3}, {"maximum": 2}, "MAXIMUM_DECREASED"),
    "an exclusive minimum of draft 4": (
        {"minimum": 1},
        {"minimum": 1, "exclusiveMinimum": True},
        "EXCLUSIVE_MINIMUM_ADDED",
    ),
    "other multiples": ({"multipleOf": 2}, {"multipleOf": 3}, "MULTIPLE_OF_CHANGED"),
    "shorter texts": ({"maxLength": 3}, {"maxLength": 2}, "MAX_LENGTH_DECREASED"),
    "a pattern": (TEXT, {**TEXT, "pattern": "a"}, "PATTERN_CHANGED"),
    "items of another type": (
        {"type": "array", "items": {"type": "number"}},
        {"type": "array", "items": INT},
        "TYPE_NARROWED",
    ),
    "fewer items": ({"type": "array"}, {"type": "array", "maxItems": 2}, "MAX_ITEMS_ADDED"),
    "items that differ": ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
    "a property needs another": (
        thing(a=INT, b=INT),
        {**thing(a=INT, b=INT), "dependencies": {"a": ["b"]}},
        "DEPENDENCY_ARRAY_EXTENDED",
    ),
    "what is excluded is more": ({"not": INT}, {"not": {"type": "number"}}, "NOT_TYPE_EXTENDED"),
    "not decided": (thing(False), {**thing(False), "patternProperties": {"^a": INT}}, "NOT_DECIDED"),
    "not decided though gone": ({**thing(), "patternProperties": {"^a": INT}}, thing(), "NOT_DECIDED"),
    "not decided in anything": ({}, {"if": INT, "then": {"minimum": 1}}, "NOT_DECIDED"),
    "not decided with another definition": (
        {"contains": {"$ref": "#/definitions/a"}, "definitions": {"a": {"type": "number"}}},
        {"contains": {"$ref": "#/definitions/a"}, "definitions": {"a": INT}},
        "NOT_DECIDED",
    ),
    "items of several schemas": (
        {"type": "array", "items": [INT]},
        {"type": "array", "items": [TEXT]},
        "ITEMS_NOT_DECIDED",
    ),
}


@pytest.mark.parametrize("case", FITTING)
def test_what_fits(case: str) -> None:
    original, update = FITTING[case]
    assert read(update).cannot_read(read(original)) == []


@pytest.mark.parametrize("case", BREAKING)
def test_what_breaks_is_named(case: str) -> None:
    original, update, kind = BREAKING[case]
    reasons = read(update).cannot_read(read(original))
    assert any(reason.startswith(f"{{errorType:'{kind}") for reason in reasons), reasons
    assert all("at path #" in reason for reason in reasons)


def test_a_schema_in_itself_ends() -> None:
    def tree(value: Any) -> Any:
        node = thing(value=value, next={"$ref": "#/definitions/node"})
        return {"$ref": "#/definitions/node", "definitions": {"node": node}}

    assert read(tree({"type": "number"})).cannot_read(read(tree(INT))) == []
    assert read(tree(INT)).cannot_read(read(tree({"type": "number"}))) != []


def test_references_are_found_by_name() -> None:
    item = ("item.json", {"definitions": {"count": INT}, "$id": "x"})
    refers = {"$ref": "item.json#/definitions/count"}
    assert read({"type": "number"}).cannot_read(read(refers, item)) == []
    assert read(refers, item).cannot_read(read({"type": "number"})) != []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (7, "an object, or true or false"),
        ({"type": "int"}, "there is no type"),
        ({"properties": []}, "there is no object"),
        ({"properties": {"a": 3}}, "at #/properties/a there is no schema"),
        ({"required": ["a", 3]}, "no list of names"),
        ({"enum": 3}, "no list"),
        ({"minLength": -1}, "no whole number"),
        ({"minimum": "1"}, "no number"),
        ({"anyOf": []}, "no list of schemas"),
        ({"$ref": "#/definitions/none"}, "leads nowhere"),
        ({"$ref": "other.json"}, "neither in the schema nor a reference"),
        ({"$ref": "#"}, "refers to itself"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        read(schema)
    assert refused.value.code == 42201


def some(draw: random.Random, depth: int) -> Any:
    """A schema out of a few words, so that two of them are often about the same."""
    kinds = ["integer", "number", "string", "enum", "any", "false", "bounded", "types"]
    kind = draw.choice(kinds if depth == 0 else [*kinds, "object", "object", "array", "oneOf", "anyOf", "allOf", "not"])

    def inner() -> Any:
        return some(draw, depth - 1)

    match kind:
        case "integer" | "number" | "string":
            return {"type": kind}
        case "enum":
            return {"enum": draw.sample([1, 2, 1.5, "a", "b", None, True], draw.randint(1, 3))}
        case "any":
            return draw.choice([{}, True])
        case "false":
            return False
        case "bounded":
            kind = draw.choice(["integer", "number"])
            bound = draw.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
            return {"type": kind, bound: draw.choice([1, 2, 3])}
        case "types":
            return {"type": draw.sample(["integer", "string", "null", "object"], 2)}
        case "array":
            schema = {"type": "array", "items": inner()}
            return {**schema, draw.choice(["minItems", "maxItems"]): 1} if draw.random() < 0.4 else schema
        case "not":
            return {"not": inner()}
        case "object":
            names = draw.sample("abc", draw.randint(0, 3))
            schema = {"type": "object", "properties": {name: inner() for name in names}}
            schema["required"] = draw.sample("abc", draw.choice([0, 0, 1]))
            others = draw.choice([None, False, inner()])
            return schema if others is None else {**schema, "additionalProperties": others}
    return {kind: [inner() for _ in range(draw.randint(1, 3))]}


def changed(draw: random.Random, schema: Any) -> Any:
    """The schema with one thing changed somewhere, or a new one."""
    if not isinstance(schema, dict) or not schema or draw.random() < 0.15:
        return some(draw, 1)
    key = draw.choice(list(schema))
    value = schema[key]
    if key == "properties" and value:
        name = draw.choice(list(value))
        rest = {each: inner for each, inner in value.items() if each != name}
        value = rest if draw.random() < 0.4 else {**rest, name: changed(draw, value[name])}
        return {**schema, key: value}
    if key in ("oneOf", "anyOf", "allOf"):
        position = draw.randrange(len(value))
        new = [*value[:position], changed(draw, value[position]), *value[position + 1 :]]
        return {draw.choice([key, key, "anyOf", "oneOf"]): [*new, some(draw, 0)] if draw.random() < 0.3 else new}
    if key in ("items", "additionalProperties", "not"):
        return {**schema, key: changed(draw, value)}
    return {name: inner for name, inner in schema.items() if name != key or name == "type"}


VALUES: list[Any] = [1, 2, 3, 1.5, 0, "a", "b", "", None, True, [], [1], ["a", 1], [1.5, 2]]
VALUES += [{}, *({name: value} for name in "abc" for value in (1, 1.5, "a", None, {"a": 1}, [1]))]
VALUES += [{"a": 1, "b": "a"}, {"a": "x", "c": 2}, {"a": 1, "b": 2, "c": 3}, {"d": 1}, {"a": {"a": 1, "b": "x"}}]


# `oneOf` is compared as `anyOf` is, as Confluent's registry does: that a value may fit two of it is not seen.
def validator(schema: Any) -> Any:
    text = json.dumps(schema).replace('"oneOf"', '"anyOf"')
    return jsonschema.Draft7Validator(json.loads(text))


def test_what_fits_takes_every_value_that_was_taken() -> None:
    draw = random.Random(1)
    fitting = 0
    for _ in range(4000):
        original = some(draw, 2)
        update = changed(draw, original)
        if read(update).cannot_read(read(original)):
            continue
        fitting += 1
        old, new = validator(original), validator(update)
        for value in VALUES:
            assert not old.is_valid(value) or new.is_valid(value), (original, update, value)
    assert fitting > 500

"""A JSON Schema as the registry asks it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from monedula.testing.registry.errors import invalid_schema
from monedula.testing.registry.json_schema.differences import differences
from monedula.testing.registry.json_schema.nodes import COMBINATIONS, MAX_DEPTH, TYPES, Document, Node, SchemaError


class JsonSchema:
    """See `monedula.testing.registry.definition.Parsed`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.canonical = _text(document.root)

    def cannot_read(self, writer: "JsonSchema") -> list[str]:
        """Why values of a writer's schema may not be valid for this one."""
        return differences(Node(writer.document, writer.document.root), Node(self.document, self.document.root))

    def normalized(self) -> str:
        """The text with its keys in order."""
        return _text(self.document.root, in_order=True)


def parse(text: str, references: Sequence[tuple[str, str]]) -> JsonSchema:
    """The schema of a text."""
    others: dict[str, Document] = {}
    try:
        for name, referred in references:
            others[name] = Document(_read(referred), dict(others))
        document = Document(_read(text), others)
        _check(Node(document, document.root), "#", 0)
    except SchemaError as error:
        raise invalid_schema(str(error)) from None
    return JsonSchema(document)


def _read(text: str) -> Any:
    if not text.strip():
        raise SchemaError("the schema is empty")
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"no JSON: {error}") from None
    if not isinstance(read, (dict, bool)):
        raise SchemaError("a JSON Schema is an object, or true or false")
    return read


def _text(root: Any, *, in_order: bool = False) -> str:
    return json.dumps(root, separators=(",", ":"), ensure_ascii=False, sort_keys=in_order)


_LISTS_OF_SCHEMAS = COMBINATIONS
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
_SCHEMAS = ("not", "additionalProperties", "additionalItems", "contains", "propertyNames", "if", "then", "else")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def _check(node: Node, path: str, depth: int) -> None:
    if isinstance(node.value, bool):
        return
    if not isinstance(node.value, dict):
        raise SchemaError(f"at {path} there is no schema: {json.dumps(node.value)[:100]}")
    if depth > MAX_DEPTH:
        raise SchemaError(f"schemas are nested more than {MAX_DEPTH} deep")
    keywords = node.keywords
    if "$ref" in keywords:
        if not isinstance(keywords["$ref"], str):
            raise SchemaError(f"at {path}/$ref there is no text")
        node.resolved()
    _check_values(keywords, path)
    for name in _SCHEMAS:
        if name in keywords:
            _check(node.child(keywords[name]), f"{path}/{name}", depth + 1)
    for name in _SCHEMAS_BY_NAME:
        if not isinstance(keywords.get(name, {}), dict):
            raise SchemaError(f"at {path}/{name} there is no object")
        for key, value in keywords.get(name, {}).items():
            _check(node.child(value), f"{path}/{name}/{key}", depth + 1)
    for name in _LISTS_OF_SCHEMAS:
        if name in keywords and (not isinstance(keywords[name], list) or not keywords[name]):
            raise SchemaError(f"at {path}/{name} there is no list of schemas")
        for index, value in enumerate(keywords.get(name, [])):
            _check(node.child(value), f"{path}/{name}/{index}", depth + 1)
    items = keywords.get("items", [])
    for index, value in enumerate(items if isinstance(items, list) else [items]):
        _check(node.child(value), f"{path}/items/{index}", depth + 1)


def _check_values(keywords: Mapping[str, Any], path: str) -> None:
    types = keywords.get("type", [])
    for each in types if isinstance(types, list) else [types]:
        if each not in TYPES:
            raise SchemaError(f"at {path}/type: there is no type {json.dumps(each)}; there are {', '.join(TYPES)}")
    required = keywords.get("required", [])
    # As a boolean, it is of draft 3.
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        raise SchemaError(f"at {path}/required there is no list of names")
    if not isinstance(keywords.get("enum", []), list):
        raise SchemaError(f"at {path}/enum there is no list")
    for name in _COUNTS:
        count = keywords.get(name, 0)
        if isinstance(count, bool) or not isinstance(count, (int, float)) or count < 0 or count != int(count):
            raise SchemaError(f"at {path}/{name} there is no whole number: {json.dumps(count)}")
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        if not isinstance(keywords.get(name, 0), (int, float)):
            raise SchemaError(f"at {path}/{name} there is no number: {json.dumps(keywords[name])}")
    if not isinstance(keywords.get("pattern", ""), str):
        raise SchemaError(f"at {path}/pattern there is no text")

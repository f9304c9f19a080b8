"""A schema within a document, with its references resolved, and its keywords put into the form of the newest drafts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urljoin

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

_OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "additionalItems", "minItems", "maxItems", "uniqueItems", "prefixItems"},
    "object": {
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
    },
}
"""The keywords that say something about values of one type."""

UNDECIDED = (
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "patternProperties",
    "prefixItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords that are not compared: they have to stay as they are."""

COMBINATIONS = ("allOf", "anyOf", "oneOf")

MAX_DEPTH = 100


class SchemaError(Exception):
    """A text is no JSON Schema."""


@dataclass(eq=False)
class Document:
    """A whole text, with the documents that it may refer to by name."""

    root: Any
    others: Mapping[str, "Document"]

    @cached_property
    def id(self) -> str:
        """The URI that the document gives itself."""
        given = self.root.get("$id", self.root.get("id")) if isinstance(self.root, dict) else None
        return given if isinstance(given, str) else ""

    @cached_property
    def _named(self) -> dict[str, Any]:
        """Schemas in it by their anchors and own URIs."""
        found: dict[str, Any] = {}
        for node in _subschemas(self.root, 0):
            if not isinstance(node, dict):
                continue
            for key, mark in (("$anchor", "#"), ("$id", ""), ("id", "")):
                if isinstance(node.get(key), str):
                    found.setdefault(mark + node[key], node)
        return found

    def find(self, reference: str) -> "Node":
        """The schema that a `$ref` in this document means."""
        uri, _, fragment = reference.partition("#")
        document: Document | None = self
        if uri and uri != self.id:
            document = self.others.get(uri) or self.others.get(urljoin(self.id, uri))
            if document is None:
                found = self._named.get(uri)
                if found is None:
                    raise SchemaError(f"the $ref {reference!r} is neither in the schema nor a reference of it")
                return Node(Document(found, self.others), _pointed(found, fragment, reference))
        assert document is not None
        if fragment and not fragment.startswith("/"):
            if f"#{fragment}" not in document._named:
                raise SchemaError(f"the $ref {reference!r} names no anchor")
            return Node(document, document._named[f"#{fragment}"])
        return Node(document, _pointed(document.root, fragment, reference))


def _pointed(root: Any, pointer: str, reference: str) -> Any:
    found = root
    for part in unquote(pointer).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise SchemaError(f"the $ref {reference!r} leads nowhere")
    return found


def _subschemas(node: Any, depth: int) -> Iterator[Any]:
    if depth <= MAX_DEPTH:
        yield node
        for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from _subschemas(each, depth + 1)


@dataclass(eq=False)
class Node:
    """A schema in a document."""

    document: Document
    value: Any

    def resolved(self) -> "Node":
        """The schema that is meant: of a `$ref`, what it refers to."""
        node = self
        for _ in range(MAX_DEPTH):
            if not isinstance(node.value, dict) or not isinstance(node.value.get("$ref"), str):
                return node
            node = node.document.find(node.value["$ref"])
        raise SchemaError("a $ref refers to itself")

    def child(self, value: Any) -> "Node":
        """A schema within this one."""
        return Node(self.document, value)

    @property
    def keywords(self) -> Mapping[str, Any]:
        """The keywords of the node; none of `true`."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def kind(self) -> str:
        """`"any"`, `"false"`, `"enum"`, `"not"`, `"combined"`, or a type. Resolve it first."""
        if self.value is False:
            return "false"
        parts = self.parts
        return "any" if not parts else parts[0][0] if len(parts) == 1 else "combined"

    @property
    def parts(self) -> "list[tuple[str, Any]]":
        """Conditions that all have to hold: kinds, with what they need."""
        keywords = self.keywords
        parts: list[tuple[str, Any]] = []
        types = keywords.get("type")
        if isinstance(types, list) and len(types) > 1:
            of_each = [{**self._typed(), "type": each} for each in types]
            parts.append(("combined", ("anyOf", [self.child(each) for each in of_each])))
        elif types is not None:
            parts.append((types[0] if isinstance(types, list) else types, self))
        else:
            parts += [(kind, self) for kind, names in _OF_TYPE.items() if names & keywords.keys()]
        if "enum" in keywords:
            parts.append(("enum", keywords["enum"]))
        if "const" in keywords:
            parts.append(("enum", [keywords["const"]]))
        if "not" in keywords:
            parts.append(("not", self.child(keywords["not"])))
        for name in COMBINATIONS:
            if name in keywords:
                parts.append(("combined", (name, [self.child(each) for each in keywords[name]])))
        return parts

    def _typed(self) -> dict[str, Any]:
        names = set().union(*_OF_TYPE.values())
        return {name: value for name, value in self.keywords.items() if name in names}

    @property
    def has_default(self) -> bool:
        """True if it has a value in place of a missing one."""
        return "default" in self.keywords

    def bound(self, name: str) -> Any:
        """A bound of numbers; that `exclusiveMinimum: true` makes the minimum exclusive is of draft 4."""
        value = self.keywords.get(name)
        if name in ("minimum", "maximum"):
            exclusive = self.keywords.get("exclusive" + name.capitalize())
            return None if exclusive is True else value
        if value is True:
            return self.keywords.get(name.removeprefix("exclusive").lower())
        return None if value is False else value

    def dependencies(self) -> tuple[dict[str, set[str]], dict[str, "Node"]]:
        """The other properties, and the schemas, that properties need."""
        both = dict(self.keywords.get("dependencies", {}))
        both |= {**self.keywords.get("dependentRequired", {}), **self.keywords.get("dependentSchemas", {})}
        names = {name: set(value) for name, value in both.items() if isinstance(value, list)}
        return names, {name: self.child(value) for name, value in both.items() if not isinstance(value, list)}


def equal(one: Any, other: Any) -> bool:
    """Return true if two values are the same JSON: `1` and `true` are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

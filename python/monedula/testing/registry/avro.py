"""Avro: what a schema says is understood by the core; here is its text.

There is one text for all schemas that differ in blanks, in the order of keys, or in how names are written.
"""

import json
from collections.abc import Sequence
from typing import Any

from monedula._monedula import ParsedAvro
from monedula.testing.registry.errors import invalid_schema

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = {"record": "fields", "error": "fields", "enum": "symbols", "fixed": "size"}


class AvroSchema:
    """See `monedula.testing.registry.definition.Parsed`."""

    def __init__(self, text: str, references: Sequence[tuple[str, str]]) -> None:
        self._parsed = ParsedAvro(text, references)
        self._json = _json_of(text)
        self._referred = [_json_of(referred) for _, referred in references]
        self.canonical = self._text(normalized=False)

    def cannot_read(self, writer: "AvroSchema") -> list[str]:
        """Why values of a writer's schema cannot be read with this one."""
        return self._parsed.cannot_read(writer._parsed)

    def normalized(self) -> str:
        """The text with its properties in order."""
        return self._text(normalized=True)

    def _text(self, *, normalized: bool) -> str:
        writer = _Writer(normalized)
        for referred in self._referred:
            # Types that are defined there are named here.
            writer.type(referred, "")
        return json.dumps(writer.type(self._json, ""), separators=(",", ":"), ensure_ascii=False)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_doubles)
    except ValueError:
        # The bare name of a primitive type is the only schema that is no JSON.
        return text.strip()


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid_schema(f"an object has {twice!r} twice")
    return made


class _Writer:
    """Writes what was understood as Avro's own library for Java does.

    Args:
        normalized: whether what the specification does not name is in the order of its names too.
    """

    def __init__(self, normalized: bool) -> None:
        self.normalized = normalized
        self.seen: set[str] = set()

    def type(self, given: Any, space: str) -> Any:
        """A type within a namespace."""
        match given:
            case str(name) if name in _PRIMITIVES:
                return name
            case str(name):
                return _named(name.lstrip(".") if "." in name or not space else f"{space}.{name}", space)
            case list(branches):
                return [self.type(branch, space) for branch in branches]
            case {"type": "array" | "map" as kind}:
                part = "items" if kind == "array" else "values"
                return {"type": kind, part: self.type(given[part], space), **self._props(given, "type", part)}
            case {"type": str(kind)} if kind in _NAMED:
                return self._definition("record" if kind == "error" else kind, given, space)
            case {"type": str(kind)} if kind in _PRIMITIVES:
                props = self._props(given, "type")
                return {"type": kind, **props} if props else kind
        # Java takes a type within a type too, and forgets the outer one.
        return self.type(given["type"], space)

    def _definition(self, kind: str, given: dict[str, Any], around: str) -> Any:
        name, space = given["name"], given.get("namespace")
        space = space if isinstance(space, str) else around
        full = name.lstrip(".") if "." in name or not space else f"{space}.{name}"
        if full in self.seen:
            return _named(full, around)
        self.seen.add(full)
        space, _, simple = full.rpartition(".")
        told = {"type": kind, "name": simple}
        if space != around:
            told["namespace"] = space
        if given.get("doc") is not None:
            told["doc"] = given["doc"]
        part = _NAMED[kind]
        told[part] = [self._field(field, space) for field in given[part]] if kind == "record" else given[part]
        own = ["type", "name", "namespace", "doc", "aliases", part]
        if kind == "enum":
            own.append("default")
            if isinstance(given.get("default"), str):
                told["default"] = given["default"]
        told |= self._props(given, *own)
        if given.get("aliases"):
            told["aliases"] = [_alias(alias, space) for alias in given["aliases"]]
        return told

    def _field(self, given: dict[str, Any], space: str) -> dict[str, Any]:
        told = {"name": given["name"], "type": self.type(given["type"], space)}
        if given.get("doc") is not None:
            told["doc"] = given["doc"]
        if "default" in given:
            told["default"] = given["default"]
        order = given.get("order", "ascending").lower()
        if order != "ascending":
            told["order"] = order
        if given.get("aliases"):
            told["aliases"] = given["aliases"]
        return {**told, **self._props(given, "name", "type", "doc", "default", "order", "aliases")}

    def _props(self, given: dict[str, Any], *named: str) -> dict[str, Any]:
        props = {name: value for name, value in given.items() if name not in named}
        return dict(sorted(props.items())) if self.normalized else props


def _named(full: str, around: str) -> str:
    space, _, simple = full.rpartition(".")
    # A full name without a dot would be one in the namespace around it.
    return simple if space == around else full if space else f".{full}"


def _alias(alias: str, space: str) -> str:
    return alias.rpartition(".")[2] if alias.rpartition(".")[0] == space else alias

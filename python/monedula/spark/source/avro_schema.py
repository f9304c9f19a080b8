"""Avro schemas as Spark needs them: reduced to the fields that a query asks for, in one text.

Types of time that Spark does not know are left out: the values are numbers there.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_NUMBERS = ("time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos")
"""Logical types that are numbers in Spark, as in its `from_avro`."""


def narrowed(text: str, references: Sequence[str], wanted: DataType | None = None) -> str:
    """A schema with those that it refers to in it, and of its records the fields of `wanted`, in their order.

    What `wanted` asks for and the schema does not have is left out.
    """
    return json.dumps(_Narrowing(text, references).narrowed(wanted))


class _Narrowing:
    def __init__(self, text: str, references: Sequence[str]) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        for reference in references:
            self._collect(_parsed(reference), "")
        self._root = _parsed(text)
        self._collect(self._root, "")
        self._made: dict[tuple[str, str | None], str] = {}
        self._names: set[str] = set()

    def narrowed(self, wanted: DataType | None) -> Any:
        return self._made_of(self._root, wanted, "")

    def _collect(self, node: Any, namespace: str) -> None:
        if isinstance(node, list):
            for branch in node:
                self._collect(branch, namespace)
        elif isinstance(node, dict):
            kind = node.get("type")
            if kind in ("record", "error", "enum", "fixed"):
                name = _full_name(node, namespace)
                namespace = name.rpartition(".")[0]
                self._named.setdefault(name, (node, namespace))
                for field in node.get("fields", ()):
                    self._collect(field["type"], namespace)
            elif kind in ("array", "map"):
                self._collect(node["items" if kind == "array" else "values"], namespace)
            else:
                self._collect(kind, namespace)

    def _made_of(self, node: Any, wanted: DataType | None, namespace: str) -> Any:
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return node
            name = node if "." in node or not namespace else f"{namespace}.{node}"
            found = self._named.get(name) or self._named.get(node)
            return node if found is None else self._made_of(found[0], wanted, found[1])
        if isinstance(node, list):
            others = [branch for branch in node if branch != "null"]
            # Several types become a struct of all of them.
            wanted = wanted if len(others) == 1 else None
            return [self._made_of(branch, wanted, namespace) for branch in node]
        kind = node["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._named_type(node, wanted, namespace)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            of = wanted.elementType if isinstance(wanted, ArrayType) else None
            of = wanted.valueType if isinstance(wanted, MapType) else of
            return {**node, inner: self._made_of(node[inner], of, namespace)}
        if not isinstance(kind, str) or kind not in _PRIMITIVES:
            return self._made_of(kind, wanted, namespace)
        left_out = ("logicalType",) if node.get("logicalType") in _NUMBERS else ()
        return {name: value for name, value in node.items() if name not in left_out}

    def _named_type(self, node: Mapping[str, Any], wanted: DataType | None, namespace: str) -> Any:
        name = _full_name(node, namespace)
        fields = wanted if isinstance(wanted, StructType) and "fields" in node else None
        key = (name, None if fields is None else fields.json())
        if key in self._made:
            return self._made[key]
        new, number = name, 2
        while new in self._names:
            new, number = f"{name}_{number}", number + 1
        self._made[key] = new
        self._names.add(new)
        inside = name.rpartition(".")[0]
        made = {part: value for part, value in node.items() if part not in ("namespace", "name")}
        made["name"] = new
        aliases = [each if "." in each or not inside else f"{inside}.{each}" for each in node.get("aliases", ())]
        if aliases or new != name:
            made["aliases"] = [*aliases, *([name] if new != name else [])]
        if "fields" in node:
            by_name = {field["name"]: field for field in node["fields"]}
            chosen = by_name if fields is None else [each for each in fields.names if each in by_name]
            made["fields"] = [
                {**by_name[each], "type": self._made_of(by_name[each]["type"], _of(fields, each), inside)}
                for each in chosen
            ]
        return made


def _of(fields: StructType | None, name: str) -> DataType | None:
    return None if fields is None else fields[name].dataType


def _full_name(node: Mapping[str, Any], namespace: str) -> str:
    name: str = node["name"]
    if "." in name:
        return name
    namespace = node.get("namespace", namespace)
    return f"{namespace}.{name}" if namespace else name


def _parsed(text: str) -> Any:
    return text.strip() if text.strip() in _PRIMITIVES else json.loads(text)

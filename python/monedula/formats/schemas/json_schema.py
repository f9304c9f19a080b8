"""Conversion of JSON Schema to Arrow fields: the types of values, without constraints."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from monedula.errors import ArgumentError
from monedula.formats.schemas.ddl import MAX_DEPTH, map_of

if TYPE_CHECKING:
    import pyarrow as pa

_MEMBERS = ("oneOf", "anyOf")
MAX_COLUMNS = 10_000
"""Same limit as for Avro and Protobuf: a few `$ref` can expand to more than fits into memory."""
_MAX_READ = 10 * MAX_COLUMNS
_EXPECTED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "type": ((str, list, tuple, Mapping), "a name or a list"),
    "properties": (Mapping, "an object"),
    "connect.parameters": (Mapping, "an object"),
    **dict.fromkeys(("required", "enum", "allOf", "oneOf", "anyOf"), ((list, tuple, set), "a list")),
    **dict.fromkeys(("format", "connect.type"), (str, "a text")),
}


def fields_of(document: Mapping[str, Any]) -> "list[pa.Field[Any]]":
    """The fields of the objects that a JSON Schema describes.

    integer becomes int64, or decimal128(20, 0) if its `maximum` is beyond that; number float64; a string with the
    format date-time a timestamp in UTC, with date a date, with the contentEncoding base64 binary. `connect.type`
    narrows numbers, and Kafka Connect's decimals are decimals. An object with `additionalProperties` alone becomes a
    map. What `oneOf`, `anyOf` or a list of types has beside null becomes a nullable field. `$ref` is followed within
    the document.
    """
    import pyarrow as pa

    try:
        kind, _ = _Reader(document).read(document, "", ())
    except RecursionError:
        raise ArgumentError(
            "the JSON Schema is nested too deeply, or its $ref lead too far", argument="schema"
        ) from None
    if kind is None or not pa.types.is_struct(kind):
        raise ArgumentError("the JSON Schema does not describe objects with properties at the top", argument="schema")
    return list(kind)


_OTHERS = "$others"


def bundled(document: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Bundle a schema and the named schemas that it refers to, as in a registry, into one document."""
    if not others:
        return document

    def place(name: str) -> str:
        escaped = name.replace("~", "~0").replace("/", "~1")
        return f"#/{_OTHERS}/{quote(escaped, safe='~')}"

    def moved(reference: str, here: str) -> str:
        name, _, pointer = reference.partition("#")
        if name in others:
            return place(name) + pointer
        return reference if name else here + pointer

    def rewritten(node: Any, here: str) -> Any:
        if isinstance(node, Mapping):
            return {
                name: moved(each, here) if name == "$ref" and isinstance(each, str) else rewritten(each, here)
                for name, each in node.items()
            }
        return [rewritten(each, here) for each in node] if isinstance(node, list) else node

    own: dict[str, Any] = rewritten(document, "#")
    return {**own, _OTHERS: {name: rewritten(each, place(name)) for name, each in others.items()}}


class _Reader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._columns = self._read = 0

    def _check(self, schema: Mapping[str, Any], path: str) -> None:
        """Refuse keywords with values of the wrong type, and documents that expand to too many schemas."""
        self._read += 1
        if self._read > _MAX_READ:
            raise _refused(path, f"more than {_MAX_READ} schemas are there, once each $ref is followed")
        for word, (expected, name) in _EXPECTED.items():
            if word in schema and not isinstance(schema[word], expected):
                raise _refused(path, f"{word} is {name}, and here {schema[word]!r:.60}")

    def read(self, schema: Any, path: str, seen: tuple[str, ...], depth: int = 0) -> "tuple[pa.DataType | None, bool]":
        """Return the type, `None` if only null is valid, and true if null is valid."""
        if not isinstance(schema, Mapping):
            raise _refused(path, f"{schema!r} says nothing about the type")
        if depth > MAX_DEPTH:
            raise _refused(path, f"types are nested deeper than {MAX_DEPTH}")
        self._check(schema, path)
        if "$ref" in schema:
            reference = schema["$ref"]
            if reference in seen:
                raise _refused(path, f"{reference} refers to itself, and Arrow has no recursive types")
            return self.read(self._resolve(reference, path), path, (*seen, reference), depth)
        if "allOf" in schema:
            return self.read(self._all_of(schema, path, seen), path, seen, depth)
        for word in _MEMBERS:
            if word in schema and not ("properties" in schema or "items" in schema):
                return self._members(schema, word, path, seen, depth)
        kinds, nullable = self._kinds(schema, path)
        if not kinds:
            return None, True
        results = [self._kind(kind, schema, path, seen, depth) for kind in kinds]
        return _common(results, path), nullable

    def _resolve(self, reference: Any, path: str) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _refused(path, f"$ref {reference!r} leads out of the document, and nothing is fetched")
        found: Any = self._document
        for part in reference.split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Sequence) and not isinstance(found, str) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, Mapping) and part in found:
                found = found[part]
            else:
                raise _refused(path, f"$ref {reference!r} leads to nothing")
        return found

    def _all_of(self, schema: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        parts = [{name: value for name, value in schema.items() if name != "allOf"}, *schema["allOf"]]
        for part in parts:
            following = seen
            while isinstance(part, Mapping) and ("$ref" in part or "allOf" in part):
                self._check(part, path)
                if "allOf" in part:
                    part = self._all_of(part, path, following)
                    continue
                if part["$ref"] in following:
                    raise _refused(path, f"{part['$ref']} refers to itself, and Arrow has no recursive types")
                following = (*following, part["$ref"])
                part = self._resolve(part["$ref"], path)
            if not isinstance(part, Mapping):
                raise _refused(path, f"allOf: {part!r} is no schema")
            self._check(part, path)
            for name, value in part.items():
                if name == "properties":
                    merged[name] = {**merged.get(name, {}), **value}
                elif name == "required":
                    merged[name] = [*merged.get(name, []), *value]
                else:
                    merged[name] = value
        return merged

    def _members(
        self, schema: Mapping[str, Any], word: str, path: str, seen: tuple[str, ...], depth: int
    ) -> "tuple[pa.DataType | None, bool]":
        rest = {name: value for name, value in schema.items() if name != word}
        members = [
            self.read(
                {**rest, **member} if isinstance(member, Mapping) and "$ref" not in member else member,
                path,
                seen,
                depth,
            )
            for member in schema[word]
        ]
        kinds = [kind for kind, _ in members if kind is not None]
        nullable = any(nullable for _, nullable in members)
        return (_common(kinds, path) if kinds else None), nullable

    def _kinds(self, schema: Mapping[str, Any], path: str) -> tuple[list[str], bool]:
        """Return the words of `type` without null, and true if null is one; else the types of `enum` and `const`."""
        kinds = schema.get("type")
        if kinds is None and "properties" in schema:
            kinds = "object"
        if kinds is None and ("enum" in schema or "const" in schema):
            values = schema.get("enum", [schema.get("const")])
            kinds = list(dict.fromkeys(_kind_of(value) for value in values))
        if kinds is None:
            raise _refused(path, "the schema says nothing about the type; give `type`")
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        nullable = "null" in kinds or schema.get("nullable") is True
        return [kind for kind in kinds if kind != "null"], nullable

    def _kind(
        self, kind: str, schema: Mapping[str, Any], path: str, seen: tuple[str, ...], depth: int
    ) -> "pa.DataType":
        import pyarrow as pa

        match kind:
            case "boolean":
                return pa.bool_()
            case "integer" | "number":
                if schema.get("title") == _DECIMAL:
                    return _decimal(schema, path)
                default = _whole(schema) if kind == "integer" else pa.float64()
                return _numbers().get(schema.get("connect.type"), default)
            case "string":
                return _text(schema)
            case "array":
                if "items" not in schema or isinstance(schema["items"], list):
                    raise _refused(path, "an array needs one schema of all its elements, `items`")
                element, nullable = self.read(schema["items"], f"{path}[]", seen, depth + 1)
                return pa.list_(pa.field("element", _known(element, path), nullable))
            case "object":
                return self._object(schema, path, seen, depth)
        raise _refused(path, f"{kind!r} is no type of JSON Schema")

    def _object(self, schema: Mapping[str, Any], path: str, seen: tuple[str, ...], depth: int) -> "pa.DataType":
        import pyarrow as pa

        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        if not properties:
            if not isinstance(others, Mapping):
                raise _refused(
                    path, "an object needs `properties`, or one schema of all values, `additionalProperties`"
                )
            value, nullable = self.read(others, f"{path}{{}}", seen, depth + 1)
            return map_of(_known(value, path), nullable)
        fields = []
        for name, each in properties.items():
            below = f"{path}.{name}" if path else name
            if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
                raise _refused(path, f"{name!r} cannot be the name of a column")
            self._columns += 1
            if self._columns > MAX_COLUMNS:
                raise _refused(below, f"the schema has more than {MAX_COLUMNS} columns")
            kind, nullable = self.read(each, below, seen, depth + 1)
            fields.append(pa.field(name, _known(kind, below), nullable or name not in schema.get("required", ())))
        return pa.struct(fields)


_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def _whole(schema: Mapping[str, Any]) -> "pa.DataType":
    """Return int64, or a decimal of 20 digits if the maximum requires unsigned 64 bits."""
    import pyarrow as pa

    maximum = schema.get("maximum")
    return pa.decimal128(20, 0) if isinstance(maximum, int) and 2**63 <= maximum < 10**20 else pa.int64()


def _decimal(schema: Mapping[str, Any], path: str) -> "pa.DataType":
    """Return the decimal that Kafka Connect's converters describe; without a precision, 38 digits."""
    import pyarrow as pa

    given = schema.get("connect.parameters", {})
    try:
        return pa.decimal128(int(given.get("connect.decimal.precision", 38)), int(given.get("scale", 0)))
    except (TypeError, ValueError) as error:
        raise _refused(path, f"a decimal of {given}: {error}") from None


def _text(schema: Mapping[str, Any]) -> "pa.DataType":
    import pyarrow as pa

    if schema.get("contentEncoding") == "base64" or schema.get("connect.type") == "bytes":
        return pa.binary()
    formats: dict[str, pa.DataType] = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
    return formats.get(schema.get("format", ""), pa.string())


def _numbers() -> "dict[str | None, pa.DataType]":
    import pyarrow as pa

    types: dict[str | None, pa.DataType] = {f"int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)}
    return {**types, "float32": pa.float32(), "float64": pa.float64()}


def _kind_of(value: object) -> str:
    kinds: dict[type, str] = {
        type(None): "null",
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return kinds[type(value)]


def _common(kinds: "Sequence[pa.DataType]", path: str) -> "pa.DataType":
    """Return the common type: the type itself if all are equal, float64 if all are numbers."""
    import pyarrow as pa

    first = kinds[0]
    if all(kind == first for kind in kinds):
        return first
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    raise _refused(path, f"values may be {' or '.join(map(str, kinds))}, and Spark has no unions; use a string")


def _known(kind: "pa.DataType | None", path: str) -> "pa.DataType":
    if kind is None:
        raise _refused(path, "takes null alone")
    return kind


def _refused(path: str, reason: str) -> ArgumentError:
    return ArgumentError(f"field {path or 'at the top'}: {reason}", argument="schema")

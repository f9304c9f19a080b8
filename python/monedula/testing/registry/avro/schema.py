"""A schema of Avro as Avro's specification has it. It never decodes a value."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monedula.testing.registry.avro.defaults import is_default

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")

MAX_DEPTH = 100

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_RESERVED = {
    "record": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "enum": {"type", "name", "namespace", "doc", "aliases", "symbols", "default"},
    "fixed": {"type", "name", "namespace", "doc", "aliases", "size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_FIELD = {"name", "type", "doc", "default", "order", "aliases"}

MISSING: Any = object()


class AvroError(Exception):
    """A text is no schema of Avro."""


@dataclass(eq=False, slots=True)
class Schema:
    """A type, with what belongs to it by its kind.

    Attributes:
        type: the type's name, or `"union"`.
        name: the full name of a record, enum or fixed.
        inner: the items of an array, or the values of a map.
        branches: of a union.
        default: the symbol of an enum that stands for unknown ones.
        props: everything that the specification does not name, such as `logicalType`.
    """

    type: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: "list[Field]" = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    inner: "Schema | None" = None
    branches: "list[Schema]" = field(default_factory=list)
    props: dict[str, Any] = field(default_factory=dict)

    @property
    def simple_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        """What stands before the name; empty if nothing does."""
        return self.name.rpartition(".")[0]


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record."""

    name: str
    schema: Schema
    doc: str | None = None
    default: Any = MISSING
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Reads schemas; of several in a row, each may name types of those before it."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._open: list[Schema] = []

    def read(self, text: str) -> Schema:
        """The schema of a text.

        Raises:
            AvroError: it is none, and why.
        """
        if not text.strip():
            raise AvroError("the schema is empty")
        try:
            given = json.loads(text, object_pairs_hook=_without_doubles)
        except (ValueError, RecursionError) as error:
            if text.strip() in PRIMITIVES:
                given = text.strip()
            else:
                raise AvroError(f"no JSON: {error}") from None
        return self._schema(given, "", 0)

    def _schema(self, given: Any, namespace: str, depth: int) -> Schema:
        if depth > MAX_DEPTH:
            raise AvroError(f"types are nested more than {MAX_DEPTH} deep")
        match given:
            case str(name):
                return self._by_name(name, namespace)
            case list(branches):
                return self._union(branches, namespace, depth)
            case {"type": str(kind)} if kind in NAMED:
                return self._named("record" if kind == "error" else kind, given, namespace, depth)
            case {"type": "array"}:
                return self._nested("array", "items", given, namespace, depth)
            case {"type": "map"}:
                return self._nested("map", "values", given, namespace, depth)
            case {"type": str(kind)} if kind in PRIMITIVES:
                return Schema(kind, props={name: value for name, value in given.items() if name != "type"})
            case {"type": inner}:
                # Java takes a type within a type too, and forgets the outer one.
                return self._schema(inner, namespace, depth + 1)
            case dict():
                raise AvroError(f"no type: {_shown(given)}")
        raise AvroError(f"not a type: {_shown(given)}")

    def _by_name(self, name: str, namespace: str) -> Schema:
        if name in PRIMITIVES:
            return Schema(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full.removeprefix("."))
        if found is None:
            raise AvroError(f"the type {full!r} is not defined")
        return found

    def _union(self, branches: list[Any], namespace: str, depth: int) -> Schema:
        read = [self._schema(branch, namespace, depth + 1) for branch in branches]
        seen: set[str] = set()
        for branch in read:
            if branch.type == "union":
                raise AvroError("a union within a union")
            name = branch.name or branch.type
            if name in seen:
                raise AvroError(f"a union with two of {name!r}{', which is defined twice' if branch.name else ''}")
            seen.add(name)
        return Schema("union", branches=read)

    def _nested(self, kind: str, part: str, given: Mapping[str, Any], namespace: str, depth: int) -> Schema:
        if part not in given:
            raise AvroError(f"a type {kind!r} without {part!r}: {_shown(given)}")
        inner = self._schema(given[part], namespace, depth + 1)
        return Schema(kind, inner=inner, props=_props(given, _RESERVED[kind]))

    def _named(self, kind: str, given: Mapping[str, Any], namespace: str, depth: int) -> Schema:
        name = _full_name(given, kind, namespace)
        doc, space = given.get("doc"), name.rpartition(".")[0]
        aliases = tuple(each if "." in each or not space else f"{space}.{each}" for each in _texts(given, "aliases"))
        made = Schema(kind, name, doc, aliases, props=_props(given, _RESERVED[kind]))
        before = self.named.setdefault(name, made)
        if kind == "fixed":
            made.size = given.get("size", MISSING)
            if type(made.size) is not int or made.size < 0:
                raise AvroError(f"the fixed {name!r} has no size")
        elif kind == "enum":
            _read_symbols(made, given)
        else:
            fields = given.get("fields")
            if not isinstance(fields, list):
                raise AvroError(f"the record {name!r} has no list of fields")
            self._open.append(made)
            for each in fields:
                made.fields.append(self._field(each, made, depth))
            self._open.pop()
            _refuse_doubles(f"the record {name!r}", [each.name for each in made.fields])
        if before is not made and (before in self._open or not _are_alike(before, made)):
            raise AvroError(f"the type {name!r} is defined twice")
        return before

    def _field(self, given: Any, record: Schema, depth: int) -> Field:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            raise AvroError(f"the record {record.name!r} has a field without a name: {_shown(given)}")
        name = given["name"]
        where = f"the field {name!r} of {record.name!r}"
        _check_name(name, "the field")
        if "type" not in given:
            raise AvroError(f"{where} has no type")
        schema = self._schema(given["type"], record.namespace, depth + 1)
        order = str(given.get("order", "ascending")).lower()
        if order not in ("ascending", "descending", "ignore"):
            raise AvroError(f"{where} has the order {order!r}; there are ascending, descending and ignore")
        default = given.get("default", MISSING)
        if default is not MISSING and not is_default(default, schema):
            raise AvroError(f"{where} has a default that is none of its type: {_shown(default)}")
        aliases = tuple(_texts(given, "aliases"))
        return Field(name, schema, given.get("doc"), default, order, aliases, _props(given, _FIELD))


def _are_alike(one: Schema, other: Schema) -> bool:
    """Whether two types are the same but for documentation and aliases, as Java's library compares them."""
    if one is other:
        return True
    if (one.type, one.name, one.symbols, one.size, one.props) != (
        other.type,
        other.name,
        other.symbols,
        other.size,
        other.props,
    ):
        return False
    if (one.inner is None) != (other.inner is None) or len(one.branches) != len(other.branches):
        return False
    if one.inner is not None and other.inner is not None and not _are_alike(one.inner, other.inner):
        return False
    if not all(map(_are_alike, one.branches, other.branches)) or len(one.fields) != len(other.fields):
        return False

    def alike(mine: Field, others: Field) -> bool:
        told = [(each.name, each.default, each.order, each.props) for each in (mine, others)]
        return told[0] == told[1] and _are_alike(mine.schema, others.schema)

    return all(map(alike, one.fields, other.fields))


def _full_name(given: Mapping[str, Any], kind: str, namespace: str) -> str:
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise AvroError(f"a type {kind!r} without a name: {_shown(given)}")
    if "." not in name:
        space = given.get("namespace", namespace) or ""
        if not isinstance(space, str):
            raise AvroError(f"the namespace of {name!r} is no text: {_shown(space)}")
        name = f"{space}.{name}" if space else name
    name = name.removeprefix(".")
    _check_name(name.rpartition(".")[2], f"the {kind}")
    if name in PRIMITIVES:
        raise AvroError(f"the {kind} {name!r} has the name of a primitive type")
    return name


def _read_symbols(made: Schema, given: Mapping[str, Any]) -> None:
    if not isinstance(given.get("symbols"), list):
        raise AvroError(f"the enum {made.name!r} has no list of symbols")
    made.symbols = tuple(_texts(given, "symbols"))
    for symbol in made.symbols:
        _check_name(symbol, f"a symbol of {made.name!r}")
    _refuse_doubles(f"the enum {made.name!r}", made.symbols)
    made.default = given.get("default")
    if made.default is not None and made.default not in made.symbols:
        raise AvroError(f"the default {made.default!r} of the enum {made.name!r} is none of its symbols")


def _props(given: Mapping[str, Any], reserved: set[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in reserved}


def _texts(given: Mapping[str, Any], name: str) -> Sequence[str]:
    texts = given.get(name) or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise AvroError(f"{name} is a list of texts; given: {_shown(texts)}")
    return texts


def _check_name(name: str, what: str) -> None:
    if not _NAME.match(name):
        raise AvroError(f"{what} has the name {name!r}; names have letters, digits and _, and begin with no digit")


def _refuse_doubles(what: str, found: Sequence[str]) -> None:
    for name in found:
        if found.count(name) > 1:
            raise AvroError(f"{what} has {name!r} twice")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        _refuse_doubles("an object", [name for name, _ in pairs])
    return made


def _shown(given: Any) -> str:
    return json.dumps(given)[:200]

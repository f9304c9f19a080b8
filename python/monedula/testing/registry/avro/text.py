"""The text of a schema: one for all texts that differ in blanks, in the order of keys, or in how names are written."""

import json
from collections.abc import Iterable
from typing import Any

from monedula.testing.registry.avro.schema import MISSING, Field, Schema


def canonical(schema: Schema, referred: Iterable[str] = (), *, normalized: bool = False) -> str:
    """The text of a schema, as Avro's own library for Java writes it.

    Args:
        schema: the schema.
        referred: the names of types that are defined in other schemas, and are not repeated.
        normalized: whether what the specification does not name is in the order of its names too.
    """
    return json.dumps(_json(schema, "", set(referred), normalized), separators=(",", ":"), ensure_ascii=False)


def _json(schema: Schema, space: str, seen: set[str], normalized: bool) -> Any:
    props = _sorted(schema.props, normalized)
    if schema.type == "union":
        return [_json(branch, space, seen, normalized) for branch in schema.branches]
    if schema.inner is not None:
        part = "items" if schema.type == "array" else "values"
        return {"type": schema.type, part: _json(schema.inner, space, seen, normalized), **props}
    if not schema.name:
        return {"type": schema.type, **props} if props else schema.type
    if schema.name in seen:
        if schema.namespace == space:
            return schema.simple_name
        # Without the dot it would be a name in the namespace around it.
        return schema.name if schema.namespace else f".{schema.name}"
    seen.add(schema.name)
    told: dict[str, Any] = {"type": schema.type, "name": schema.simple_name}
    if schema.namespace != space:
        told["namespace"] = schema.namespace
    if schema.doc is not None:
        told["doc"] = schema.doc
    if schema.type == "record":
        told["fields"] = [_field(field, schema.namespace, seen, normalized) for field in schema.fields]
    elif schema.type == "enum":
        told["symbols"] = list(schema.symbols)
        if schema.default is not None:
            told["default"] = schema.default
    else:
        told["size"] = schema.size
    told |= props
    if schema.aliases:
        told["aliases"] = [_alias(alias, schema.namespace) for alias in schema.aliases]
    return told


def _field(field: Field, space: str, seen: set[str], normalized: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": field.name, "type": _json(field.schema, space, seen, normalized)}
    if field.doc is not None:
        told["doc"] = field.doc
    if field.default is not MISSING:
        told["default"] = field.default
    if field.order != "ascending":
        told["order"] = field.order
    if field.aliases:
        told["aliases"] = list(field.aliases)
    return {**told, **_sorted(field.props, normalized)}


def _alias(alias: str, space: str) -> str:
    return alias.rpartition(".")[2] if alias.rpartition(".")[0] == space else alias


def _sorted(props: dict[str, Any], normalized: bool) -> dict[str, Any]:
    return dict(sorted(props.items())) if normalized else props

"""Whether JSON is a value of a type, as defaults of fields have to be."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monedula.testing.registry.avro.schema import Schema

_RANGES = {"int": 2**31, "long": 2**63}


def is_default(value: Any, schema: "Schema") -> bool:
    """Whether a value is a default of a type. Of a union, it is one of any branch, as Avro 1.12 has it."""
    match schema.type:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bound = _RANGES[schema.type]
            return type(value) is int and -bound <= value < bound
        case "float" | "double":
            return type(value) in (int, float)
        case "string" | "enum" | "bytes" | "fixed":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list) and all(is_default(each, _inner(schema)) for each in value)
        case "map":
            return isinstance(value, dict) and all(is_default(each, _inner(schema)) for each in value.values())
        case "union":
            return any(is_default(value, branch) for branch in schema.branches)
    if not isinstance(value, dict):
        return False
    return all(
        is_default(value[field.name], field.schema) if field.name in value else _has_default(field)
        for field in schema.fields
    )


def _has_default(field: Any) -> bool:
    from monedula.testing.registry.avro.schema import MISSING

    return field.default is not MISSING


def _inner(schema: "Schema") -> "Schema":
    assert schema.inner is not None
    return schema.inner

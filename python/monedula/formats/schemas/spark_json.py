"""Conversion of Spark's JSON of a `StructType`, the same in all its versions, to Arrow fields and back."""

from typing import TYPE_CHECKING, Any

from monedula.errors import ArgumentError
from monedula.formats.schemas import ddl

if TYPE_CHECKING:
    import pyarrow as pa


def fields_of(struct: dict[str, Any], path: str = "") -> "list[pa.Field[Any]]":
    """Convert the fields of a struct."""
    import pyarrow as pa

    fields = []
    for field in struct["fields"]:
        below = f"{path}.{field['name']}" if path else field["name"]
        fields.append(pa.field(field["name"], _type(field["type"], below), field.get("nullable", True)))
    return fields


def _type(kind: Any, path: str) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(kind, str):
        found = ddl.scalar(kind)
        if found is None and kind.startswith("decimal("):
            found = ddl.fields_of(f"`x` {kind}")[0].type
        if found is None:
            raise ArgumentError(f"field {path}: no values of type {kind} are decoded; use a string", argument="schema")
        return found
    match kind["type"]:
        case "struct":
            return pa.struct(fields_of(kind, path))
        case "array":
            element = _type(kind["elementType"], f"{path}[]")
            return pa.list_(pa.field("element", element, kind.get("containsNull", True)))
        case "map":
            if kind["keyType"] != "string":
                raise ArgumentError(
                    f"field {path}: the keys of a map must be strings, as those of JSON objects are", argument="schema"
                )
            value = _type(kind["valueType"], f"{path}{{}}")
            return ddl.map_of(value, kind.get("valueContainsNull", True))
        case other:
            raise ArgumentError(f"field {path}: no values of type {other} are decoded; use a string", argument="schema")


def json_of(struct: "pa.Schema | pa.StructType") -> dict[str, Any]:
    """Write the struct as Spark's JSON, which `schema_of` and `StructType.fromJson` take."""
    fields = [
        {"name": field.name, "type": _json(field.type), "nullable": field.nullable, "metadata": {}} for field in struct
    ]
    return {"type": "struct", "fields": fields}


def _json(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return json_of(kind)
    if pa.types.is_map(kind):
        null = kind.item_field.nullable
        return {"type": "map", "keyType": "string", "valueType": _json(kind.item_type), "valueContainsNull": null}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _json(kind.value_type), "containsNull": kind.value_field.nullable}
    names = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long"}
    text = ddl.type_text(kind)
    return names.get(text, text.lower())

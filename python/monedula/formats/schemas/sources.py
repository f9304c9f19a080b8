"""`schema_of`: a pyarrow schema from the forms of other libraries."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from monedula.errors import ArgumentError
from monedula.formats.schemas import ddl, json_schema, spark_json

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(source: Any) -> "pa.Schema":
    """Convert `source` to a schema of types that decoders support.

    Args:
        source: one of
            - a pyarrow schema or struct type, a list of pyarrow fields, or any object with `__arrow_c_schema__`;
            - a polars schema, or a dict of polars types by name;
            - Spark's DDL, `"id bigint, tags array<string>"`;
            - a pyspark `StructType`, or its JSON;
            - a JSON Schema, as text or as a dict.

    Returns:
        A schema of boolean, int8 to int64, float32, float64, decimal128, string, binary, date32, timestamp("us"),
        struct, list, and map with string keys. Types that hold the same values become one of these: large and view
        types, dictionaries, unsigned integers of up to 32 bits (the next wider signed one), other units of timestamps.

    Raises:
        ArgumentError: for a type that no values are decoded to, with the path of its field; or for another source.
    """
    import pyarrow as pa

    fields: Iterable[pa.Field[Any]]
    if isinstance(source, str):
        fields = _from_text(source)
    elif hasattr(source, "__arrow_c_schema__"):
        fields = _from_arrow(source)
    elif isinstance(source, Mapping) and _are_polars(source):
        import polars as pl

        fields = pl.DataFrame(schema=dict(source)).to_arrow().schema
    elif isinstance(source, Mapping):
        _check_document(source)
        fields = _from_document(dict(source))
    elif hasattr(source, "jsonValue"):
        fields = spark_json.fields_of(source.jsonValue())
    elif isinstance(source, list | tuple) and all(isinstance(field, pa.Field) for field in source):
        fields = source
    else:
        raise ArgumentError(
            f"a value of type {type(source).__name__} is no schema",
            argument="schema",
            hint=f"pass {_hint(source)}a pyarrow, polars or pyspark schema, Spark's DDL, or a JSON Schema",
        )
    return pa.schema(_supported(fields, ""))


def document_of(source: Any) -> dict[str, Any] | None:
    """Return the JSON Schema that `source` is, or `None` if it is in another form that `schema_of` takes."""
    if isinstance(source, str):
        if not source.lstrip().startswith("{"):
            return None
        try:
            source = json.loads(source)
        except (ValueError, RecursionError):
            return None
    if not isinstance(source, Mapping) or hasattr(source, "__arrow_c_schema__") or _are_polars(source):
        return None
    is_spark = source.get("type") == "struct" and isinstance(source.get("fields"), list)
    return None if is_spark else dict(source)


def _hint(source: Any) -> str:
    """Return advice for callers who pass data, or the types of a pandas frame."""
    module = type(source).__module__.partition(".")[0]
    if module == "pandas":
        return "pyarrow.Schema.from_pandas(frame, preserve_index=False), or "
    if hasattr(source, "schema"):
        return f"the .schema of the {type(source).__name__}, or "
    if isinstance(source, list | tuple):
        return "'id bigint, user string' or pyarrow.schema([('id', pyarrow.int64())]), "
    return ""


_WORDS = ("type", "properties", "$ref", "$schema", "$defs", "allOf", "anyOf", "oneOf", "enum", "const", "fields")


def _check_document(source: "Mapping[Any, Any]") -> None:
    """Refuse a dict of types by name, which would be read as a JSON Schema without keywords."""
    if source and not any(word in source for word in _WORDS):
        name, kind = next(iter(source.items()))
        raise ArgumentError(
            f"a dict is a JSON Schema or has polars' types, and this one has {name!r}: {kind!r}",
            argument="schema",
            hint="write the types as Spark's DDL, such as 'id bigint, user string', or as "
            "pyarrow.schema({'id': pyarrow.int64()})",
        )


def _from_text(text: str) -> "list[pa.Field[Any]]":
    if not text.lstrip().startswith("{"):
        return ddl.fields_of(text)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            f"the text begins as a JSON Schema does, and is no JSON: {error}", argument="schema"
        ) from None
    return _from_document(document)


def _from_document(document: dict[str, Any]) -> "list[pa.Field[Any]]":
    if document.get("type") == "struct" and isinstance(document.get("fields"), list):
        return spark_json.fields_of(document)
    return json_schema.fields_of(document)


def _from_arrow(source: Any) -> "Iterable[pa.Field[Any]]":
    import pyarrow as pa

    if isinstance(source, pa.DataType) and not pa.types.is_struct(source):
        raise ArgumentError(f"the type {source} has no fields; pass a struct or a schema", argument="schema")
    if isinstance(source, pa.Schema | pa.StructType):
        return source
    return pa.schema(source)


def _are_polars(source: Mapping[Any, Any]) -> bool:
    modules = {getattr(kind, "__module__", "") or type(kind).__module__ for kind in source.values()}
    if type(source).__module__.partition(".")[0] == "polars":
        return True
    return bool(modules) and all(module.partition(".")[0] == "polars" for module in modules)


def _supported(fields: "Iterable[pa.Field[Any]]", path: str) -> "list[pa.Field[Any]]":
    result: dict[str, pa.Field[Any]] = {}
    for field in fields:
        below = f"{path}.{field.name}" if path else field.name
        if field.name in result:
            raise ArgumentError(f"field {below}: two fields have this name", argument="schema")
        result[field.name] = field.with_type(_type(field.type, below)).remove_metadata()
    return list(result.values())


def _type(kind: Any, path: str) -> "pa.DataType":
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        return pa.struct(_supported(kind, path))
    if types.is_map(kind):
        if _type(kind.key_type, f"{path}{{}}") != pa.string():
            raise ArgumentError(
                f"field {path}: the keys of a map must be strings, as those of JSON objects are", argument="schema"
            )
        return ddl.map_of(_type(kind.item_type, f"{path}{{}}"), kind.item_field.nullable)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or _is_list_view(kind):
        return pa.list_(kind.value_field.with_type(_type(kind.value_type, f"{path}[]")))
    if types.is_dictionary(kind):
        return _type(kind.value_type, path)
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    result = _SAME.get(str(kind))
    if result is None:
        hint = _HINTS.get(str(kind).partition("[")[0], "use a string")
        raise ArgumentError(f"field {path}: no values of type {kind} are decoded; {hint}", argument="schema")
    found: pa.DataType = getattr(pa, result)()
    return found


def _is_list_view(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


_SAME = {
    "bool": "bool_",
    **{f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "uint8": "int16",
    "uint16": "int32",
    "uint32": "int64",
    "halffloat": "float32",
    "float": "float32",
    "double": "float64",
    **dict.fromkeys(("string", "large_string", "string_view"), "string"),
    **dict.fromkeys(("binary", "large_binary", "binary_view"), "binary"),
    "date32[day]": "date32",
    "date64[ms]": "date32",
}
_HINTS = {
    "uint64": "use int64 or decimal128(20, 0)",
    "null": "name a type",
    "duration": "use int64",
}

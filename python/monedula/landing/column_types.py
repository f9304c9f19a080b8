"""The Arrow types of a table for those of decoded values, and which of them fit into columns that a table has."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

from monedula.errors import ArgumentError

Form = Literal["delta", "iceberg"]
"""The format of a table."""

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_OF_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
}
_KEPT = {pa.bool_(), *_BITS, pa.float32(), pa.float64(), pa.date32()}
_SMALL = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_COMPARED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)
"""Types of keys."""
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def table_type(kind: Any, path: str, form: Form) -> Any:
    """The type in a table for an Arrow type.

    Args:
        kind: the Arrow type.
        path: the column, for the error.
        form: the format of the table.

    Raises:
        ArgumentError: if the format has none.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return table_type(kind.storage_type, path, form)
    if pa.types.is_dictionary(kind):
        return table_type(kind.value_type, path, form)
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, table_type(each.type, f"{path}.{each.name}", form)) for each in fields])
    if any(test(kind) for test in _LISTS):
        return pa.list_(pa.field("element", table_type(kind.value_type, f"{path}[]", form)))
    if pa.types.is_map(kind):
        key, item = (table_type(each, f"{path}[]", form) for each in (kind.key_type, kind.item_type))
        return pa.map_(key, item)
    plain = _plain_type(kind, form)
    if plain is None:
        what = "a struct without fields" if pa.types.is_struct(kind) else str(kind)
        raise ArgumentError(
            f"the column {path} is of the type {what}, which tables do not have",
            hint="leave the field out of the schema, or give it another type there",
        )
    return plain


def _plain_type(kind: Any, form: Form) -> Any | None:
    if form == "iceberg" and kind in _SMALL:
        return pa.int32()
    if kind in _KEPT:
        return kind
    if kind in _OF_UNSIGNED:
        return _OF_UNSIGNED[kind]
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us") if form == "iceberg" else pa.int64()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if any(test(kind) for test in _TEXTS):
        return pa.string()
    return pa.binary() if any(test(kind) for test in _BYTES) else None


def converted(column: Any, kind: Any) -> Any:
    """Cast a column to a type of `table_type`, or a wider one. Digits below microseconds are cut off, nothing else is.

    Raises:
        pyarrow.ArrowInvalid: if a value does not fit.
    """
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if column.type == kind:
        return column
    counted = _replaced(column.type, _in_microseconds)
    if counted != column.type:
        column = column.cast(counted, safe="[ns" not in str(column.type))
    # Durations, and times where the format has none, become numbers by a cast of their own.
    numbers = _replaced(counted, _as_number if "time64" in str(kind) else _time_as_number)
    if numbers != counted:
        column = column.cast(numbers)
    return column if column.type == kind else column.cast(kind)


def _in_microseconds(kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time(kind):
        return pa.time64("us")
    return pa.duration("us") if pa.types.is_duration(kind) else kind


def _as_number(kind: Any) -> Any:
    return pa.int64() if pa.types.is_duration(kind) else kind


def _time_as_number(kind: Any) -> Any:
    return pa.int64() if pa.types.is_time(kind) else _as_number(kind)


def _replaced(kind: Any, change: Callable[[Any], Any]) -> Any:
    """The type with `change` applied to it and to all types within it."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([each.with_type(_replaced(each.type, change)) for each in fields])
    if any(test(kind) for test in _LISTS):
        return pa.list_(kind.value_field.with_type(_replaced(kind.value_type, change)))
    if pa.types.is_map(kind):
        return pa.map_(_replaced(kind.key_type, change), _replaced(kind.item_type, change))
    return change(kind)


def fits(kind: Any, there: Any) -> bool:
    """Return true if values of a type can be written to a column of the type `there`, without a change of the table."""
    if kind == there:
        return True
    if kind in _BITS and there in _BITS:
        return _BITS[kind] <= _BITS[there]
    if kind == pa.float32() and there == pa.float64():
        return True
    if pa.types.is_decimal(kind) and pa.types.is_decimal(there):
        return bool(kind.scale == there.scale and kind.precision <= there.precision)
    if pa.types.is_struct(kind) and pa.types.is_struct(there):
        known = {there.field(index).name: there.field(index) for index in range(there.num_fields)}
        own = [kind.field(index) for index in range(kind.num_fields)]
        return all(each.name in known and fits(each.type, known[each.name].type) for each in own) and all(
            each.nullable for name, each in known.items() if name not in {field.name for field in own}
        )
    if pa.types.is_list(kind) and pa.types.is_list(there):
        return fits(kind.value_type, there.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(there):
        return fits(kind.key_type, there.key_type) and fits(kind.item_type, there.item_type)
    return False


_PARTITIONING = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_date32)


def check_partition_column(schema: Any, column: str) -> None:
    """Refuse a column that makes no partitions.

    Args:
        schema: the schema of the rows.
        column: its name.

    Raises:
        ArgumentError: if it is not in the schema, or of another type than those of partitions.
    """
    if column not in schema.names:
        raise ArgumentError.of("partition_by", column, f"the columns are {', '.join(schema.names)}")
    kind = schema.field(column).type
    if not any(test(kind) for test in _PARTITIONING):
        hint = "booleans, whole numbers, texts and dates make partitions"
        raise ArgumentError.of("partition_by", column, f"the column is of the type {kind}", hint)


def key_paths(schema: Any, names: Iterable[str]) -> list[tuple[str, ...]]:
    """The names on the way to each column of keys, or to a field of a struct, such as `key.id`.

    Raises:
        ArgumentError: if one is no column of the rows.
    """
    return [_key_path(schema, name) for name in names]


def _key_path(schema: Any, name: str) -> tuple[str, ...]:
    path = (name,) if name in schema.names else tuple(str(name).split("."))
    fields = schema
    for step, part in enumerate(path):
        there = [field.name for field in fields]
        if part not in there:
            what = "columns" if step == 0 else f"fields of {'.'.join(path[:step])}"
            hint = f"the {what} are {', '.join(there)}" if there else f"{'.'.join(path[:step])} has no fields"
            raise ArgumentError.of("upsert", name, "it is no column of the rows", hint=hint)
        kind = fields.field(part).type
        fields = kind if pa.types.is_struct(kind) else ()
    return path


def type_at(schema: Any, path: Iterable[str]) -> Any:
    """The type of a column, or of a field within it."""
    kind = schema
    for name in path:
        kind = kind.field(name).type
    return kind


def check_keys(schema: Any, names: Sequence[str]) -> None:
    """Refuse columns by which rows cannot be replaced.

    Raises:
        ArgumentError: if one is no column of the rows, or has a type whose values are not compared.
    """
    for name, path in zip(names, key_paths(schema, names), strict=True):
        for kind in _parts(type_at(schema, path)):
            if not any(test(kind) for test in _COMPARED):
                raise ArgumentError.of("upsert", name, f"a key of the type {kind} cannot be compared")


def _parts(kind: Any) -> list[Any]:
    return [part for field in kind for part in _parts(field.type)] if pa.types.is_struct(kind) else [kind]

"""`Columns`: the columns of a table that a topic lands in, and its rows from batches of records."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from monedula.errors import ArgumentError
from monedula.landing.column_types import Form, converted, fits, table_type

if TYPE_CHECKING:
    from monedula.consumer._dead_letters import Letter

KAFKA = "_kafka"
"""The struct that says where a row is from."""
ERROR = "_error"
RAW = "_raw"
DATE = "_date"
"""The day of the record's timestamp in UTC, where a table is partitioned by it."""
DAY = "day(timestamp)"

_TIMESTAMP = pa.timestamp("us", "UTC")
_HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_ORIGIN: list[tuple[str, Any]] = [
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _TIMESTAMP),
]
_BYTES = pa.struct([("key", pa.binary()), ("value", pa.binary())])


class Columns:
    """The columns of the rows that a job writes.

    Attributes:
        schema: their names and types, as in the table.

    Args:
        batch_schema: the schema of the consumer's batches, whose values are structs or bytes.
        key_column: the name of the column of keys; `None` to leave them out.
        headers: whether `_kafka` has the headers.
        keeps_bad: whether records that cannot be decoded become rows, with `_error` and `_raw`.
        has_date: whether there is a column for the day of the timestamp.
        form: the format of the table.

    Raises:
        ArgumentError: if two columns have the same name, or the format lacks a type.
    """

    def __init__(
        self,
        batch_schema: Any,
        *,
        key_column: str | None,
        headers: bool,
        keeps_bad: bool,
        has_date: bool,
        form: Form,
    ) -> None:
        self._key_column = key_column
        self._headers = headers
        value = batch_schema.field("value").type
        self._is_flat = pa.types.is_struct(value)
        fields = [value.field(index) for index in range(value.num_fields)] if self._is_flat else [("value", value)]
        fields = [(each.name, each.type) if isinstance(each, pa.Field) else each for each in fields]
        if key_column is not None:
            fields.append((key_column, batch_schema.field("key").type))
        own = [(name, table_type(kind, name, form)) for name, kind in fields]
        origin: list[Any] = [*_ORIGIN, *([("headers", _HEADERS)] if headers else [])]
        own.append((KAFKA, pa.struct(origin)))
        own += [(ERROR, pa.string()), (RAW, _BYTES)] if keeps_bad else []
        own += [(DATE, pa.date32())] if has_date else []
        _check_names([name for name, _ in own], key_column)
        self.schema = pa.schema(own)

    def rows(self, batch: Any) -> Any:
        """The rows of a batch, as a `pyarrow.RecordBatch`."""
        data = pa.record_batch(batch)
        column: dict[str, Any] = {name: data.column(index) for index, name in enumerate(data.schema.names)}
        value = column["value"]
        columns = dict(zip((field.name for field in value.type), value.flatten(), strict=True)) if self._is_flat else {}
        if not self._is_flat:
            columns["value"] = value
        if self._key_column is not None:
            columns[self._key_column] = column["key"]
        origin = [converted(column[name], kind) for name, kind in _ORIGIN]
        if self._headers:
            origin.append(converted(column["headers"], _HEADERS))
        columns[KAFKA] = pa.StructArray.from_arrays(origin, fields=list(self.schema.field(KAFKA).type))
        if DATE in self.schema.names:
            columns[DATE] = column["timestamp"].cast(pa.date32(), safe=False)  # the time of the day is cut off
        return self._complete(columns, data.num_rows)

    def bad_rows(self, letters: Sequence["Letter"]) -> Any:
        """Rows for records that cannot be decoded: their bytes and the reason, and nulls for the fields."""
        records = [letter.record for letter in letters]
        times = [None if each.timestamp is None or each.timestamp < 0 else each.timestamp * 1000 for each in records]
        timestamps = pa.array(times, _TIMESTAMP)
        origin: list[Any] = [
            pa.array([each.topic for each in records], pa.string()),
            pa.array([each.partition for each in records], pa.int32()),
            pa.array([each.offset for each in records], pa.int64()),
            timestamps,
        ]
        if self._headers:
            pairs = [
                None if each.headers is None else [{"key": key, "value": value} for key, value in each.headers]
                for each in records
            ]
            origin.append(pa.array(pairs, _HEADERS))
        raw = [{"key": each.key, "value": each.value} for each in records]
        columns = {
            KAFKA: pa.StructArray.from_arrays(origin, fields=list(self.schema.field(KAFKA).type)),
            ERROR: pa.array([_reason(letter) for letter in letters], pa.string()),
            RAW: pa.array(raw, _BYTES),
            DATE: timestamps.cast(pa.date32(), safe=False),
        }
        if self._key_column is not None and pa.types.is_binary(self.schema.field(self._key_column).type):
            columns[self._key_column] = pa.array([each.key for each in records], pa.binary())
        return self._complete(columns, len(records))

    def _complete(self, columns: dict[str, Any], rows: int) -> Any:
        arrays = [
            converted(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
            for field in self.schema
        ]
        return pa.record_batch(arrays, schema=self.schema)


def is_own(name: str, key_column: str) -> bool:
    """Return true for the columns that are no fields of values."""
    return name in (KAFKA, ERROR, RAW, DATE, key_column)


def conformed(rows: Any, schema: Any) -> Any:
    """The rows with the columns of a table, whose types may be wider and which may have more columns."""
    arrays = [
        converted_struct(rows.column(field.name), field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def converted_struct(column: Any, kind: Any) -> Any:
    """Cast a column; fields of structs that it lacks become nulls."""
    if column.type == kind or not pa.types.is_struct(kind):
        return converted(column, kind)
    index = {column.type.field(number).name: number for number in range(column.type.num_fields)}
    children = [
        converted_struct(column.field(index[field.name]), field.type)
        if field.name in index
        else pa.nulls(len(column), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def missing_columns(wanted: Any, there: Any, widens: bool = False) -> list[Any]:
    """The columns that a table has to get before rows of the schema `wanted` can be written to it.

    Args:
        wanted: the schema of the rows.
        there: the schema of the table.
        widens: whether the format can make a column wider.

    Returns:
        The fields to add or to make wider, all nullable. A struct that lacks fields is among them as a whole.

    Raises:
        ArgumentError: if a column of the table is of another type, or must not be null and is not among the rows'.
    """
    known = {field.name: field for field in there}
    by_lower = {name.lower(): name for name in known}
    missing = []
    for field in wanted:
        has = known.get(field.name)
        if has is None:
            if field.name.lower() in by_lower:
                other = by_lower[field.name.lower()]
                raise ArgumentError(
                    f"the table has a column {other!r}, which differs from {field.name!r} in its case alone"
                )
            missing.append(field)
        elif not fits(field.type, has.type):
            merged = field.type if widens and fits(has.type, field.type) else _merged(field.type, has.type)
            if merged is None:
                raise ArgumentError(
                    f"the column {field.name} of the table is of the type {has.type}, and records have {field.type}",
                    hint="new nullable columns and narrower types are taken; for this one change the table, or land "
                    "into another one",
                )
            missing.append(pa.field(field.name, merged))
    filled = set(wanted.names)
    for field in there:
        if not field.nullable and field.name not in filled:
            raise ArgumentError(
                f"the column {field.name} of the table must not be null, and the records do not have it"
            )
    return missing


def _merged(kind: Any, there: Any) -> Any | None:
    """The type of a struct of a table with the fields that it lacks; `None` if that does not make values fit."""
    if not (pa.types.is_struct(kind) and pa.types.is_struct(there)):
        return there if fits(kind, there) else None
    own = {field.name: field.type for field in kind}
    fields = []
    for field in there:
        merged = _merged(own.pop(field.name), field.type) if field.name in own else field.type
        if merged is None:
            return None
        fields.append(field.with_type(merged))
    return pa.struct([*fields, *(pa.field(name, each) for name, each in own.items())])


def _reason(letter: "Letter") -> str:
    error = letter.error
    return f"{error.column}: {error.path}: {error.reason}" if error.path else f"{error.column}: {error.reason}"


def _check_names(names: Iterable[str], key_column: str | None) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            told = "the values have" if name == key_column or other == key_column else "there is"
            hint = (
                "give `key_column='_key'`, or `key_column=None` to leave the keys out"
                if key_column in (name, other)
                else "rename the field in the schema; names that differ in their case alone are the same to tables"
            )
            raise ArgumentError(f"{told} a field {other!r} beside the column {name!r}", argument="value", hint=hint)

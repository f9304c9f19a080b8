"""`Columns`: the columns of a table that a topic lands in, and its rows from batches of records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from monedula.errors import ArgumentError
from monedula.landing.column_types import Form, converted, fits, table_type
from monedula.landing.debezium import row_columns, row_fields

if TYPE_CHECKING:
    from monedula.consumer._dead_letters import Letter

KAFKA = "_kafka"
"""The struct that says where a row is from."""
ERROR = "_error"
RAW = "_raw"
VALUE = "value"
"""The column of values that are not decoded."""
DATE = "_date"
"""The day of the record's timestamp in UTC, where a table is partitioned by it."""
DAY = "day(timestamp)"
DELETED = "_kafka.deleted"
"""Of rows for an upsert alone, and in no table: whether the record deletes the row of its key."""

DELETION_COLUMNS = {"_op": "d", "__op": "d", "__deleted": "true"}
"""Columns of change data, and what they are of a deletion."""

_TIMESTAMP = pa.timestamp("us", "UTC")
_LAST_TIMESTAMP_US = 253_402_300_799_999_999
"""The end of the year 9999, behind which neither SQL nor Python has times."""
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
        unwraps: whether values are envelopes of Debezium, whose rows are wanted.
        marks_deletions: whether rows have `DELETED`, which is no column of `schema`.
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
        unwraps: bool,
        form: Form,
        marks_deletions: bool = False,
    ) -> None:
        self._key_column = key_column
        self._headers = headers
        self._marks_deletions = marks_deletions
        value = batch_schema.field("value").type
        self._unwraps = unwraps
        self._is_flat = pa.types.is_struct(value)
        fields = (
            row_fields(value)
            if unwraps
            else [value.field(index) for index in range(value.num_fields)]
            if self._is_flat
            else [(VALUE, value)]
        )
        fields = [(each.name, each.type) if isinstance(each, pa.Field) else each for each in fields]
        if key_column is not None:
            fields.append((key_column, batch_schema.field("key").type))
        own = [(name, table_type(kind, name, form)) for name, kind in fields]
        origin: list[Any] = [*_ORIGIN, *([("headers", _HEADERS)] if headers else [])]
        own.append((KAFKA, pa.struct(origin)))
        own += [(ERROR, pa.string()), (RAW, _BYTES)] if keeps_bad else []
        own += [(DATE, pa.date32())] if has_date else []
        _check_names(own, key_column)
        self._has_date = has_date
        self.schema = pa.schema(own)

    def rows(self, batch: Any) -> Any:
        """The rows of a batch, as a `pyarrow.RecordBatch`."""
        data = pa.record_batch(batch)
        column: dict[str, Any] = {name: data.column(index) for index, name in enumerate(data.schema.names)}
        value = column["value"]
        if self._unwraps:
            columns = row_columns(value)
        elif self._is_flat:
            columns = dict(zip((field.name for field in value.type), value.flatten(), strict=True))
        else:
            columns = {VALUE: value}
        if self._key_column is not None:
            columns[self._key_column] = column["key"]
        column["timestamp"] = _told(column["timestamp"])
        origin = [converted(column[name], kind) for name, kind in _ORIGIN]
        if self._headers:
            origin.append(converted(column["headers"], _HEADERS))
        columns[KAFKA] = pa.StructArray.from_arrays(origin, fields=list(self.schema.field(KAFKA).type))
        if self._has_date:
            columns[DATE] = column["timestamp"].cast(pa.date32(), safe=False)  # the time of the day is cut off
        if self._marks_deletions:
            columns[DELETED] = _deletions(value, columns)
        return self._complete(columns, data.num_rows)

    def bad_rows(self, letters: Sequence["Letter"]) -> Any:
        """Rows for records that cannot be decoded: their bytes and the reason, and nulls for the fields."""
        records = [letter.record for letter in letters]
        times = [-1 if each.timestamp is None else min(each.timestamp * 1000, 1 << 62) for each in records]
        timestamps = _told(pa.array(times, pa.int64()))
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
        }
        if self._has_date:
            columns[DATE] = timestamps.cast(pa.date32(), safe=False)
        if self._key_column is not None and pa.types.is_binary(self.schema.field(self._key_column).type):
            columns[self._key_column] = pa.array([each.key for each in records], pa.binary())
        return self._complete(columns, len(records))

    def _complete(self, columns: dict[str, Any], rows: int) -> Any:
        arrays = [
            converted(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
            for field in self.schema
        ]
        made = pa.record_batch(arrays, schema=self.schema)
        if not self._marks_deletions:
            return made
        return made.append_column(DELETED, columns.get(DELETED, pa.repeat(pa.scalar(False), rows)))


def _deletions(value: Any, columns: Mapping[str, Any]) -> Any:
    """Which records delete: those without a value, and change data that says so."""
    deletions = value.is_null()
    for name, told in DELETION_COLUMNS.items():
        if name in columns and columns[name].type in (pa.string(), pa.bool_()):
            says: Any = pc.equal(columns[name].cast(pa.string()), pa.scalar(told))
            deletions = pc.or_(deletions, pc.fill_null(says, False))
    return deletions


def _told(timestamps: Any) -> Any:
    """The timestamps of records, without those that say nothing: -1 for none, and times behind the year 9999.

    A producer that stamps microseconds in place of milliseconds is in the year 50,000: its records are to land.
    """
    numbers = timestamps.cast(pa.int64())
    is_after: Any = pc.greater_equal(numbers, pa.scalar(0))
    is_before: Any = pc.less_equal(numbers, pa.scalar(_LAST_TIMESTAMP_US))
    is_told = pc.and_(is_after, is_before)
    return pc.if_else(is_told, numbers, pa.scalar(None, pa.int64())).cast(_TIMESTAMP)


def partitioned_as(columns: Sequence[Any], day: str) -> str:
    """What to do about a table that has other partitions than the job; `day` is its column for `DAY`."""
    if not columns:
        return "leave out `partition_by`"
    if len(columns) > 1:
        return "a job partitions by one column: land in another table"
    name = DAY if columns[0] == day else str(columns[0])
    return f"give `partition_by={name!r}`, as the table has it"


def is_own(name: str, key_column: str | None) -> bool:
    """Return true for the columns that are no fields of values."""
    return name in (KAFKA, ERROR, RAW, DATE, key_column)


def conformed(rows: Any, schema: Any) -> Any:
    """The rows with the columns of a table, whose types may be wider and which may have more columns."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    arrays = [
        converted_struct(columns[field.name], field.type)
        if field.name in columns
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
        ArgumentError: if a column of the table is of another type, or one must not be null.
    """
    required = next(_required(there, ""), None)
    if required is not None:
        raise ArgumentError(
            f"the column {required} of the table must not be null",
            hint="any column of a record may be: let this one be null too, or land in another table",
        )
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
    return missing


def _required(fields: Iterable[Any], path: str) -> Iterator[str]:
    """The columns that must not be null, and fields and elements within columns."""
    for field in fields:
        if not field.nullable:
            yield path + field.name
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _required(kind, f"{path}{field.name}.")
        elif pa.types.is_list(kind):
            yield from _required([kind.value_field], f"{path}{field.name}.")
        elif pa.types.is_map(kind):
            yield from _required([kind.item_field], f"{path}{field.name}.")


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


def _check_names(columns: Iterable[tuple[str, Any]], key_column: str | None) -> None:
    """Refuse names that are the same to tables: a field within a struct is known by the names on the way to it."""
    seen: dict[str, str] = {}
    for path in _paths(columns, ""):
        other = seen.get(path.lower())
        if other is not None:
            told = "the values have" if key_column in (path, other) else "there is"
            hint = (
                "give `key_column='_key'`, or `key_column=None` to leave the keys out"
                if key_column in (path, other)
                else "rename the field in the schema; names that differ in their case alone are the same to tables"
            )
            raise ArgumentError(f"{told} a field {other!r} beside the column {path!r}", argument="value", hint=hint)
        seen[path.lower()] = path


def _paths(columns: Iterable[tuple[str, Any]], before: str) -> Iterator[str]:
    for name, kind in columns:
        yield before + name
        if pa.types.is_struct(kind):
            yield from _paths([(each.name, each.type) for each in kind], f"{before}{name}.")
        elif pa.types.is_list(kind):
            yield from _paths([("element", kind.value_type)], f"{before}{name}.")
        elif pa.types.is_map(kind):
            yield from _paths([("key", kind.key_type), ("value", kind.item_type)], f"{before}{name}.")

"""Converts the records given to `Broker.append` into the form of the broker's core."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from monedula._reprs import counted
from monedula.errors import ArgumentError
from monedula.types.times import EPOCH

Data = bytes | str | None
"""A key or a value; a str is encoded as UTF-8."""

RecordLike = Data | tuple[Data, Data]
"""A value, or a key with a value."""

Timestamps = int | datetime | Sequence[int | datetime] | None
"""One timestamp for all records, or one for each: milliseconds since the Unix epoch, or `datetime`."""

Headers = Mapping[str, Data] | Sequence[tuple[str, Data]]

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]
"""A record in the core's form: key, value, headers, timestamp in milliseconds or `None`."""


def records_of(records: Iterable[RecordLike] | object, timestamps: Timestamps, headers: Headers) -> list[Row]:
    """The records, or the rows of a table, in the core's form."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    common = [(name, _data(value)) for name, value in pairs]
    if hasattr(records, "__arrow_c_stream__"):
        rows = _rows_of_table(records)
    elif isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise ArgumentError(f"records are given as a list of values or of (key, value) pairs, not as {records!r:.100}")
    elif isinstance(records, tuple) and not all(isinstance(record, tuple) for record in records):
        raise ArgumentError(f"records={records!r:.100}: one pair is given as [(key, value)], values as [value, ...]")
    else:
        rows = [_row(record) for record in records]
    times = _times(timestamps, len(rows))
    return [
        (key, value, own + common, own_time if time is None else time)
        for (key, value, own, own_time), time in zip(rows, times, strict=True)
    ]


def _row(record: RecordLike | object) -> Row:
    if isinstance(record, tuple):
        if len(record) != 2:
            raise ArgumentError(f"a record is a value or a (key, value) pair, not {record!r:.100}")
        return _data(record[0]), _data(record[1]), [], None
    return None, _data(record), [], None


def _rows_of_table(table: object) -> list[Row]:
    import pyarrow

    columns = pyarrow.table(table)
    if "value" not in columns.column_names:
        raise ArgumentError(f"a table of records has a column `value`; this one has {', '.join(columns.column_names)}")

    def column(name: str) -> list[Any]:
        return columns[name].to_pylist() if name in columns.column_names else [None] * columns.num_rows

    rows = zip(column("key"), column("value"), column("headers"), column("timestamp"), strict=True)
    return [
        (_data(key), _data(value), _headers_of(headers), None if time is None else _milliseconds(time))
        for key, value, headers, time in rows
    ]


def _headers_of(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(header["key"], _data(header["value"])) for header in headers or ()]


def _times(timestamps: Timestamps, count: int) -> Sequence[int | None]:
    if timestamps is None or isinstance(timestamps, int | datetime):
        return [None if timestamps is None else _milliseconds(timestamps)] * count
    if len(timestamps) != count:
        raise ArgumentError(f"{counted(len(timestamps), 'timestamp')} for {counted(count, 'record')}")
    return [_milliseconds(time) for time in timestamps]


def _milliseconds(time: int | datetime) -> int:
    if isinstance(time, datetime):
        return ((time if time.tzinfo else time.astimezone()) - EPOCH) // timedelta(milliseconds=1)
    return time


def _data(data: object) -> bytes | None:
    if isinstance(data, str):
        return data.encode()
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise ArgumentError(f"a key or value is bytes, str or None, not {type(data).__name__}: {data!r:.100}")

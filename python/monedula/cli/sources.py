"""The inputs of `monedula produce`: lines, JSON, Arrow and Parquet, from a file or from standard input."""

import base64
import binascii
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from io import BufferedReader
from math import isfinite
from pathlib import Path
from typing import Any

from monedula.cli.running import Failure, require

Headers = list[tuple[str, bytes | None]]

FIELDS = ("key", "value", "topic", "partition", "timestamp", "headers")
_READ_ONLY = ("offset", "timestampType")
_HEADER_FIELDS = {"key", "value", "value_base64", "value_hex"}
_CODED = {f"{name}_{code}" for name in ("key", "value") for code in ("base64", "hex")}

# Rows per batch read from a Parquet file.
_ROWS = 1 << 16


class Input(StrEnum):
    """The input formats of `monedula produce`."""

    lines = "lines"
    json = "json"
    arrow = "arrow"
    parquet = "parquet"


_ENDINGS = {".arrow": Input.arrow, ".feather": Input.arrow, ".arrows": Input.arrow, ".parquet": Input.parquet}


@dataclass(slots=True)
class Line:
    """A record to send, with the number of its line, and the line's size in bytes."""

    number: int
    size: int
    value: bytes | None
    key: bytes | None = None
    topic: str | None = None
    partition: int | None = None
    timestamp: int | datetime | None = None
    headers: Headers | None = None


def input_of(chosen: Input | None, file: Path | None) -> Input:
    """The chosen format, or else that of the file's extension."""
    if chosen is not None:
        return chosen
    return Input.lines if file is None else _ENDINGS.get(file.suffix.lower(), Input.lines)


@contextmanager
def opened(file: Path | None) -> Iterator[BufferedReader]:
    """The file, or standard input."""
    if file is None:
        yield sys.stdin.buffer  # type: ignore[misc] # its type says BinaryIO, and it is buffered
        return
    with file.open("rb") as stream:
        yield stream


def text_lines(stream: BufferedReader, separator: str | None, null: str | None) -> Iterator[Line]:
    """One record per line, without the line end.

    Args:
        stream: the input.
        separator: the text between key and value; without it a line is a value.
        null: the text that stands for a null key or value; without it there are none.

    Raises:
        Failure: if a line lacks the separator.
    """
    mark = None if separator is None else separator.encode()
    nothing = None if null is None else null.encode()
    for number, raw in enumerate(stream, 1):
        value, key = raw.removesuffix(b"\n"), None
        if mark is not None:
            key, found, value = value.partition(mark)
            if not found:
                raise Failure(f"line {number}: there is no {separator!r} between a key and a value")
        yield Line(
            number, len(raw), None if value == nothing else value, None if key is not None and key == nothing else key
        )


def json_lines(stream: BufferedReader) -> Iterator[Line]:
    """One record per line, a JSON object as `monedula consume --format json` writes it.

    Raises:
        Failure: if a line is not such an object.
    """
    for number, raw in enumerate(stream, 1):
        if not raw.strip():
            continue
        try:
            yield _line_of(number, raw)
        except (ValueError, RecursionError) as error:
            raise Failure(f"line {number}: {error}") from None


def tables(stream: BufferedReader, file: Path | None, kind: Input) -> tuple[int | None, Iterator[Any]]:
    """The number of rows, if it is known, and the record batches of a Parquet file, an Arrow file or an Arrow stream.

    Raises:
        Failure: if the input has another format, or pyarrow is not installed.
    """
    require("pyarrow", "arrow", f"--format {kind}")
    import pyarrow

    name = str(file or "standard input")
    try:
        rows, batches = _opened_tables(stream, kind)
    except pyarrow.ArrowInvalid as error:
        raise Failure(f"{name} cannot be read as {kind}: {error}") from None
    return rows, _each(batches, name, kind)


def _opened_tables(stream: BufferedReader, kind: Input) -> tuple[int | None, Iterator[Any]]:
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet

    if kind is Input.arrow and stream.peek(6)[:6] != b"ARROW1":
        return None, iter(pyarrow.ipc.open_stream(stream))
    # Parquet and Arrow files are read from their end first, which is not possible in a pipe.
    whole = stream if stream.seekable() else pyarrow.BufferReader(stream.read())
    if kind is Input.parquet:
        parquet = pyarrow.parquet.ParquetFile(whole)
        return parquet.metadata.num_rows, parquet.iter_batches(_ROWS)
    reader = pyarrow.ipc.open_file(whole)
    return None, (reader.get_batch(number) for number in range(reader.num_record_batches))


def _each(batches: Iterator[Any], name: str, kind: Input) -> Iterator[Any]:
    import pyarrow

    try:
        yield from batches
    except pyarrow.ArrowInvalid as error:
        raise Failure(f"{name} cannot be read as {kind}: {error}") from None


def named(batch: Any, key_column: str | None, value_column: str | None) -> Any:
    """The batch with its key and value columns renamed to `key` and `value`, and without unknown columns.

    Raises:
        Failure: if a given column does not exist, or there is no column `value`.
    """
    names = list(batch.schema.names)
    for wanted, name in ((key_column, "key"), (value_column, "value")):
        if wanted is None:
            continue
        if wanted not in names:
            raise Failure(f"there is no column {wanted!r}; there are {', '.join(names)}")
        names = ["" if old == name else name if old == wanted else old for old in names]
    if "value" not in names:
        raise Failure(f"there is no column 'value'; name it with --value-column; there are {', '.join(names)}")
    kept = [index for index, name in enumerate(names) if name in FIELDS]
    return batch.select(kept).rename_columns([names[index] for index in kept])


def _line_of(number: int, raw: bytes) -> Line:
    try:
        fields = json.loads(raw, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_named_once)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"this is no JSON: {error.msg} at column {error.colno}; lines that are the values need --format lines"
        ) from None
    if not isinstance(fields, dict):
        raise ValueError('a record is an object such as {"key": "a", "value": "b"}; values alone need --format lines')
    strange = [name for name in fields if name not in FIELDS and name not in _CODED and name not in _READ_ONLY]
    if strange:
        raise ValueError(
            f"a record has no field {strange[0]!r}, it has {', '.join(FIELDS)}; values alone need --format lines"
        )
    if not any(name.split("_")[0] == "value" for name in fields):
        raise ValueError("a record needs a value; null is one too")
    return Line(
        number,
        len(raw),
        _data(fields, "value"),
        _data(fields, "key"),
        _typed(fields, "topic", str),
        _typed(fields, "partition", int),
        _time(fields.get("timestamp")),
        _headers(fields.get("headers")),
    )


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON; write null, or a text")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text:.80} is too large for a number; write it as a text")
    return number


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {twice!r} twice, and only one of them could be sent")
    return fields


def _data(fields: dict[str, Any], name: str) -> bytes | None:
    given = [each for each in (name, f"{name}_base64", f"{name}_hex") if each in fields]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are one thing twice; give one of them")
    for code in ("base64", "hex"):
        coded = fields.get(f"{name}_{code}")
        if coded is None:
            continue
        try:
            return base64.b64decode(coded, validate=True) if code == "base64" else bytes.fromhex(coded)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"{name}_{code} is not {code}: {coded!r:.80}") from None
    data = fields.get(name)
    if data is None:
        return None
    # A value that is not a str is sent as JSON text.
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        lone = text[error.start].encode("ascii", "backslashreplace").decode()
        raise ValueError(f"{name} has {lone}, half of a character; give the bytes as {name}_base64") from None


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f"{name} is {'a text' if kind is str else 'a number'}, not {value!r:.80}")
    return value


def _time(value: object) -> int | datetime | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"timestamp is milliseconds since 1970, or 2026-11-21T10:00:00Z, not {value!r:.80}") from None
    return time.astimezone()


def _headers(value: object) -> Headers | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return [(name, _data({"value": data}, "value")) for name, data in value.items()]
    if isinstance(value, list) and all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in value):
        strange = [name for each in value for name in each if name not in _HEADER_FIELDS]
        if strange:
            raise ValueError(f"a header has no field {strange[0]!r}, it has {', '.join(sorted(_HEADER_FIELDS))}")
        return [(each["key"], _data(each, "value")) for each in value]
    raise ValueError('headers are an object of names and values, or a list of {"key": ..., "value": ...}')

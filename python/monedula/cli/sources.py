"""The inputs of `monedula produce`: lines, JSON, Arrow and Parquet, from a file or from standard input."""

import base64
import binascii
import json
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property, partial
from io import BufferedReader
from math import isfinite
from pathlib import Path
from typing import Any, Self

from monedula.cli.failures import Failure, require
from monedula.cli.files import standard_input
from monedula.cli.json_texts import element_texts, is_digits_limit, member_texts

Headers = list[tuple[str, bytes | None]]

FIELDS = ("key", "value", "topic", "partition", "timestamp", "headers")
_READ_ONLY = ("offset", "timestampType")
_HEADER_FIELDS = {"key", "value", "value_base64", "value_hex"}
_CODED = {f"{name}_{code}" for name in ("key", "value") for code in ("base64", "hex")}

# Rows per batch read from a Parquet file.
_ROWS = 1 << 16

# The most bytes of lines that are read at once.
_BYTES = 1 << 18


class Input(StrEnum):
    """The input formats of `monedula produce`."""

    lines = "lines"
    json = "json"
    arrow = "arrow"
    parquet = "parquet"


_ENDINGS = {".arrow": Input.arrow, ".feather": Input.arrow, ".arrows": Input.arrow, ".parquet": Input.parquet}


class Number(float):
    """A number of JSON with a point or an exponent, which keeps its text: a decimal has more digits than a float."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read the text."""
        made = super().__new__(cls, text)
        made.text = text
        return made


@dataclass(slots=True)
class Line:
    """A record to send, with the number of its line, and the line's size in bytes.

    Its key and value are bytes, or else what JSON has, if they are still to be written in a format.
    """

    number: int
    size: int
    value: Any
    key: Any = None
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
        yield standard_input("; give a file with -i").buffer  # type: ignore[misc] # its type says BinaryIO, and it is buffered
        return
    with file.open("rb") as stream:
        yield stream


def arrivals(stream: BufferedReader) -> Iterator[list[bytes]]:
    """The lines of the input, each time those that are there: of a pipe that is open, none waits for others."""
    pieces: list[bytes] = []
    while data := stream.read1(_BYTES):
        pieces.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(pieces).split(b"\n")
            pieces = [rest]
            yield [line + b"\n" for line in lines]
    if rest := b"".join(pieces):
        yield [rest]


def text_lines(
    lines: Iterable[bytes],
    separator: str | None,
    null: str | None,
    first: int = 1,
    typed: Container[str] = (),
) -> Iterator[Line]:
    """One record per line, without the line end.

    Args:
        lines: the input.
        separator: the text between key and value; without it a line is a value.
        null: the text that stands for a null key or value; without it there are none.
        first: the number of the first line.
        typed: of `key` and `value` those that are JSON, which is read.
    """
    mark = None if separator is None else separator.encode()
    nothing = None if null is None else null.encode()

    def read(name: str, data: bytes | None) -> Any:
        if data is None or name not in typed:
            return data
        try:
            return json_of(data)
        except ValueError as error:
            raise Failure(f"line {number}: the {name}: {error}") from None

    for number, raw in enumerate(lines, first):
        value, key = raw.removesuffix(b"\n"), None
        if mark is not None:
            key, found, value = value.partition(mark)
            if not found:
                raise Failure(f"line {number}: there is no {separator!r} between a key and a value")
        yield Line(
            number,
            len(raw),
            read("value", None if value == nothing else value),
            read("key", None if key is not None and key == nothing else key),
        )


def json_lines(lines: Iterable[bytes], first: int = 1, typed: Container[str] = ()) -> Iterator[Line]:
    """One record per line, a JSON object as `monedula consume --format json` writes it."""
    for number, raw in enumerate(lines, first):
        if not raw.strip():
            continue
        try:
            yield _line_of(number, raw, typed)
        except (ValueError, RecursionError) as error:
            raise Failure(f"line {number}: {error}") from None


def tables(stream: BufferedReader, file: Path | None, kind: Input) -> tuple[int | None, Iterator[Any]]:
    """The number of rows, if known, and the batches of a Parquet file, an Arrow file or an Arrow stream."""
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
    """The batch with its key and value columns renamed to `key` and `value`, and without unknown columns."""
    names = _renamed(batch.schema.names, key_column, value_column)
    if "value" not in names:
        raise Failure(f"there is no column 'value'; name it with --value-column; there are {', '.join(names)}")
    kept = [index for index, name in enumerate(names) if name in FIELDS]
    return batch.select(kept).rename_columns([names[index] for index in kept])


def with_fields(batch: Any, key_column: str | None, known: Container[str] | None) -> Any:
    """The batch whose columns are the fields of values, with the key's column beside them as `key`.

    Args:
        batch: the rows.
        key_column: the column that is the key; it stays a field if it is a known one.
        known: the fields; any, if it is not said.
    """
    names = _renamed(batch.schema.names, key_column, None)
    renamed = batch.rename_columns(names)
    kept = renamed.select([index for index, name in enumerate(names) if name])
    if key_column is None or key_column == "key" or not (known is None or key_column in known):
        return kept
    return kept.append_column(key_column, renamed.column(names.index("key")))


def _renamed(given: list[str], key_column: str | None, value_column: str | None) -> list[str]:
    """The names of the columns, of which some are the key and the value; one that is replaced has none."""
    names = list(given)
    for wanted, name in ((key_column, "key"), (value_column, "value")):
        if wanted is None:
            continue
        if wanted not in names:
            raise Failure(f"there is no column {wanted!r}; there are {', '.join(names)}")
        names = ["" if old == name and old != wanted else name if old == wanted else old for old in names]
    return names


def json_of(raw: bytes | str) -> Any:
    """Parse JSON; refuses all that could only be sent as something else."""
    return _parsed(raw, parse_float=_finite, object_pairs_hook=_named_once)


def _parsed(raw: bytes | str, **hooks: Any) -> Any:
    try:
        return json.loads(raw, parse_constant=_no_constant, **hooks)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is no JSON: {error.msg} at column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"this is no JSON: byte {error.start + 1} is not UTF-8") from None
    except ValueError as error:
        # Python's own words name a function of Python.
        if not is_digits_limit(error):
            raise
        raise ValueError("a number has more digits than can be read; write it as a text") from None
    except RecursionError:
        raise ValueError("objects and arrays are nested too deep") from None


class _Digits(int):
    """A whole number of JSON of which only its text is of use."""


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        if not is_digits_limit(error):
            raise
        return _Digits()


class _Repeated(dict[str, Any]):
    """An object that has a name twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else _Repeated(fields)


def _line_of(number: int, raw: bytes, typed: Container[str]) -> Line:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"this is no JSON: byte {error.start + 1} is not UTF-8") from None
    try:
        fields = _parsed(text, parse_int=_whole_number, object_pairs_hook=_object)
    except ValueError as error:
        if "this is no JSON" not in str(error):
            raise
        raise ValueError(f"{error}; lines that are the values need --format lines") from None
    _check_fields(fields)
    given = _Given(fields, lambda: text)
    return Line(
        number,
        len(raw),
        _json(given, "value") if "value" in typed else _data(given, "value"),
        _json(given, "key") if "key" in typed else _data(given, "key"),
        _typed(fields, "topic", str),
        _typed(fields, "partition", int),
        _time(fields.get("timestamp")),
        _headers(given),
    )


def _check_fields(fields: Any) -> None:
    if not isinstance(fields, dict):
        raise ValueError('a record is an object such as {"key": "a", "value": "b"}; values alone need --format lines')
    strange = [name for name in fields if name not in FIELDS and name not in _CODED and name not in _READ_ONLY]
    if strange:
        raise ValueError(
            f"a record has no field {strange[0]!r}, it has {', '.join(FIELDS)}; values alone need --format lines"
        )
    if not any(name.split("_")[0] == "value" for name in fields):
        raise ValueError("a record needs a value; null is one too")


class _Given:
    """The members of an object of JSON, with their texts, which are looked up once they are needed."""

    def __init__(self, fields: dict[str, Any], whole: Callable[[], str]) -> None:
        self.fields = fields
        self._whole = whole
        if isinstance(fields, _Repeated):
            json_of(whole())

    @cached_property
    def texts(self) -> dict[str, str]:
        return member_texts(self._whole())


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON; write null, or a text")


def _finite(text: str) -> float:
    number = Number(text)
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


def _json(given: _Given, name: str) -> Any:
    coded = next((each for each in given.fields if each.startswith(f"{name}_")), None)
    if coded is not None:
        option = "--encode" if name == "value" else "--key-encode"
        raise ValueError(f"{coded} has bytes, and {option} makes them of the fields of {name}; give one of them")
    return json_of(given.texts[name]) if name in given.fields else None


def _data(given: _Given, name: str) -> bytes | None:
    fields = given.fields
    named = [each for each in (name, f"{name}_base64", f"{name}_hex") if each in fields]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} are one thing twice; give one of them")
    for code in ("base64", "hex"):
        coded = fields.get(f"{name}_{code}")
        if coded is None:
            continue
        try:
            return base64.b64decode(coded, validate=True) if code == "base64" else bytes.fromhex(coded)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"{name}_{code} is not {code}: {coded!r:.80}") from None
    return _bytes_of(given, name, name)


def _bytes_of(given: _Given, member: str, name: str) -> bytes | None:
    """A text in UTF-8, and what is no text as JSON: as it stands, because every digit and space may matter."""
    data = given.fields.get(member)
    if data is None:
        return None
    if isinstance(data, str):
        return _whole(data, name, f"; give the bytes as {name}_base64")
    return given.texts[member].encode()


def _whole(text: str, name: str, hint: str = "") -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        lone = text[error.start].encode("ascii", "backslashreplace").decode()
        raise ValueError(f"{name} has {lone}, half of a character{hint}") from None


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f"{name} is {'a text' if kind is str else 'a number'}, not {value!r:.80}")
    if isinstance(value, str):
        _whole(value, name)
    return value


def _time(value: object) -> int | datetime | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        time = datetime.fromisoformat(str(value))
        return time if time.tzinfo is not None else time.astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"timestamp is milliseconds since 1970, or 2026-11-21T10:00:00Z, not {value!r:.80}") from None


def _headers(given: _Given) -> Headers | None:
    headers = _named_headers(given)
    for name, _ in headers or ():
        _whole(name, "the name of a header")
    return headers


def _named_headers(given: _Given) -> Headers | None:
    value = given.fields.get("headers")
    if value is None:
        return None
    if isinstance(value, dict):
        named = _Given(value, lambda: given.texts["headers"])
        return [(name, _bytes_of(named, name, "value")) for name in value]
    if isinstance(value, list) and all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in value):
        strange = [name for each in value for name in each if name not in _HEADER_FIELDS]
        if strange:
            raise ValueError(f"a header has no field {strange[0]!r}, it has {', '.join(sorted(_HEADER_FIELDS))}")
        texts = cache(lambda: element_texts(given.texts["headers"]))

        def text_at(at: int) -> str:
            return texts()[at]

        listed = [_Given(each, partial(text_at, at)) for at, each in enumerate(value)]
        return [(each.fields["key"], _data(each, "value")) for each in listed]
    raise ValueError('headers are an object of names and values, or a list of {"key": ..., "value": ...}')

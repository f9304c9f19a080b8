"""The outputs of `monedula consume`: one sink for each format, to a file or to standard output."""

import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedWriter
from itertools import islice
from pathlib import Path
from typing import Any

from monedula import Batch, Record
from monedula._monedula import json_lines
from monedula.cli.rendering import Form, shown, time_text
from monedula.cli.running import Failure, UsageError, require


class Format(StrEnum):
    """The output formats of `monedula consume`."""

    text = "text"
    json = "json"
    arrow = "arrow"
    arrow_file = "arrow-file"
    parquet = "parquet"


BINARY = (Format.arrow, Format.arrow_file, Format.parquet)

_ENDINGS = {
    ".json": Format.json,
    ".jsonl": Format.json,
    ".ndjson": Format.json,
    ".arrow": Format.arrow_file,
    ".feather": Format.arrow_file,
    ".arrows": Format.arrow,
    ".parquet": Format.parquet,
}

# The least rows or bytes of a Parquet row group: many small row groups make a file slow.
_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 64 << 20


@dataclass(frozen=True)
class Look:
    """How records are written as text or JSON."""

    key_separator: str | None = None
    key_form: Form = Form.auto
    value_form: Form = Form.auto
    columns: tuple[str, ...] | None = None


class Sink(ABC):
    """An output for batches. After `close` the output is complete, even if the command was interrupted."""

    @abstractmethod
    def write(self, batch: Batch, rows: int) -> None:
        """Write the first `rows` rows of a batch."""

    @abstractmethod
    def flush(self) -> None:
        """Flush buffered data to the file."""

    @abstractmethod
    def close(self) -> None:
        """Complete the output, and close the file."""


def format_of(chosen: Format | None, output: Path | None) -> Format:
    """The chosen format, or else that of the file's extension."""
    if chosen is not None:
        return chosen
    return Format.text if output is None else _ENDINGS.get(output.suffix.lower(), Format.text)


def open_sink(kind: Format, output: Path | None, look: Look, schema: Any) -> Sink:
    """Open a sink to a file, or to standard output.

    Raises:
        UsageError: if a binary format would go to a terminal.
        Failure: if the format needs a package that is not installed, or standard output is closed.
    """
    if kind in BINARY:
        if output is None and sys.stdout.isatty():
            raise UsageError(f"{kind} is no text: give a file with -o, or pipe it into a program")
        require("pyarrow", "arrow", f"--format {kind}")
    if output is None and sys.__stdout__ is None:
        # The file descriptor 1 may belong to a socket of the client by now.
        raise Failure("standard output is closed; give a file with -o")
    # Not sys.stdout.buffer: sinks write each batch in one call, which one buffer is enough for.
    file: BufferedWriter = os.fdopen(os.dup(1), "wb") if output is None else output.open("wb")
    try:
        if kind in BINARY:
            return ParquetSink(file, schema) if kind is Format.parquet else ArrowSink(file, schema, kind)
        if kind is Format.json:
            return JsonSink(file, look)
        return ScreenSink(file, look) if file.isatty() else TextSink(file, look)
    except BaseException:
        file.close()
        raise


class LineSink(Sink):
    """Base of the sinks that write one line for each record in Python."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        self._file = file
        self._look = look

    def write(self, batch: Batch, rows: int) -> None:
        """Write the first rows of a batch."""
        line = self.line
        self._file.write(b"".join([line(record) for record in islice(batch.records(), rows)]))

    @abstractmethod
    def line(self, record: Record) -> bytes:
        """A record, with the end of its line."""

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Finish."""
        self._file.close()


class TextSink(LineSink):
    """Raw values, with keys if `--key-separator` is given, one record a line: for text tools."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        super().__init__(file, look)
        self._separator = None if look.key_separator is None else look.key_separator.encode()

    def line(self, record: Record) -> bytes:
        """A record, with the end of its line."""
        value = _raw(record.value, self._look.value_form)
        if self._separator is None:
            return value + b"\n"
        return _raw(record.key, self._look.key_form) + self._separator + value + b"\n"


class ScreenSink(LineSink):
    """Lines for a terminal: partition, offset and timestamp, dimmed, then key and value without control characters."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        super().__init__(file, look)
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._dim, self._key, self._end = ("", "", "") if plain else ("\x1b[2m", "\x1b[36m", "\x1b[0m")

    def line(self, record: Record) -> bytes:
        """A record, with the end of its line."""
        where = f"{record.topic}-{record.partition}@{record.offset} {time_text(record.timestamp) or ''}"
        parts = [f"{self._dim}{where}{self._end}"]
        if record.headers:
            pairs = " ".join(f"{name}={self._text(value, Form.auto)}" for name, value in record.headers)
            parts.append(f"{self._dim}[{self._end}{pairs}{self._dim}]{self._end}")
        if record.key is not None:
            parts.append(f"{self._key}{shown(record.key, self._look.key_form)}{self._end}")
        parts.append(self._text(record.value, self._look.value_form))
        return (" ".join(parts) + "\n").encode(errors="replace")

    def _text(self, data: bytes | None, form: Form) -> str:
        return f"{self._dim}null{self._end}" if data is None else shown(data, form)


class JsonSink(Sink):
    """One JSON object per line, as `monedula produce --format json` reads them."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        self._file = file
        self._forms = look.key_form.value, look.value_form.value

    def write(self, batch: Batch, rows: int) -> None:
        """Write the first rows of a batch."""
        self._file.write(json_lines(batch, rows, *self._forms))

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Finish."""
        self._file.close()


class ArrowSink(Sink):
    """Arrow IPC, in the stream or the file format."""

    def __init__(self, file: BufferedWriter, schema: Any, kind: Format) -> None:
        import pyarrow
        import pyarrow.ipc

        self._file = file
        self._of = pyarrow.record_batch
        make = pyarrow.ipc.new_file if kind is Format.arrow_file else pyarrow.ipc.new_stream
        self._writer = make(pyarrow.PythonFile(file, mode="w"), pyarrow.schema(schema))

    def write(self, batch: Batch, rows: int) -> None:
        """Write the first rows of a batch."""
        self._writer.write_batch(self._of(batch).slice(0, rows))

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Finish."""
        self._writer.close()
        self._file.close()


class ParquetSink(Sink):
    """Parquet; batches are collected into large row groups."""

    def __init__(self, file: BufferedWriter, schema: Any) -> None:
        import pyarrow
        import pyarrow.parquet

        self._file = file
        self._arrow = pyarrow
        self._group: list[Any] = []
        self._writer = pyarrow.parquet.ParquetWriter(
            pyarrow.PythonFile(file, mode="w"), pyarrow.schema(schema), compression="zstd"
        )

    def write(self, batch: Batch, rows: int) -> None:
        """Write the first rows of a batch."""
        self._group.append(self._arrow.record_batch(batch).slice(0, rows))
        grouped = sum(part.num_rows for part in self._group)
        if grouped >= _GROUP_ROWS or sum(part.nbytes for part in self._group) >= _GROUP_BYTES:
            self._write_group()

    def flush(self) -> None:
        """Do nothing: a Parquet file is not readable before it is closed."""

    def close(self) -> None:
        """Finish."""
        self._write_group()
        self._writer.close()
        self._file.close()

    def _write_group(self) -> None:
        if self._group:
            self._writer.write_table(self._arrow.Table.from_batches(self._group))
            self._group.clear()


def _raw(data: bytes | None, form: Form) -> bytes:
    if data is None:
        return b""
    if form in (Form.base64, Form.hex):
        return shown(data, form).encode()
    return data

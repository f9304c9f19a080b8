"""The outputs of `monedula consume` that are text: one sink for each format."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedWriter
from itertools import islice

from monedula import Batch, Record
from monedula._monedula import json_lines
from monedula.cli.decoded import with_text_column, with_texts
from monedula.cli.rendering import Form, as_text, raw_bytes, shown, time_text
from monedula.cli.templates import Template

_NEEDS_QUOTES = re.compile(r'[",\r\n]')


@dataclass(frozen=True)
class Look:
    """How records are written as text, CSV or JSON."""

    key_separator: str | None = None
    key_form: Form = Form.auto
    value_form: Form = Form.auto
    columns: tuple[str, ...] | None = None
    null: str = ""
    decodes: bool = False
    """Whether values are decoded, and written as JSON."""


class Sink(ABC):
    """An output for batches. After `close` the output is complete, even if the command was interrupted."""

    @abstractmethod
    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch: a range from 0, or ascending numbers."""

    @abstractmethod
    def flush(self) -> None:
        """Flush buffered data to the file."""

    @abstractmethod
    def close(self) -> None:
        """Complete the output, and close the file."""


class LineSink(Sink):
    """Base of the sinks that write one line for each record in Python."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        self._file = file
        self._look = look

    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch."""
        line, records = self.line, _records(batch, rows)
        if self._look.decodes:
            records = with_texts(records)
        self._file.write(b"".join([line(record) for record in records]))

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
        self._null = look.null.encode()

    def line(self, record: Record) -> bytes:
        """A record, with the end of its line."""
        value = self._raw(record.value, self._look.value_form)
        if self._separator is None:
            return value + b"\n"
        return self._raw(record.key, self._look.key_form) + self._separator + value + b"\n"

    def _raw(self, data: bytes | None, form: Form) -> bytes:
        return self._null if data is None else raw_bytes(data, form)


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
        self._decodes = look.decodes
        self._forms = look.key_form.value, "decoded" if look.decodes else look.value_form.value

    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch."""
        last = rows[-1] + 1 if rows else 0
        text = json_lines(with_text_column(batch) if self._decodes else batch, last, *self._forms)
        if len(rows) < last:
            lines = text.split(b"\n")
            text = b"".join([lines[row] + b"\n" for row in rows])
        self._file.write(text)

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Finish."""
        self._file.close()


class TemplateSink(LineSink):
    """Records by a format string."""

    def __init__(self, file: BufferedWriter, look: Look, template: Template) -> None:
        super().__init__(file, look)
        null, for_terminal = look.null.encode(), file.isatty()
        self._render = template.renderer(look.key_form, look.value_form, null, for_terminal=for_terminal)

    def line(self, record: Record) -> bytes:
        """A record by the format string."""
        return self._render(record)


class CsvSink(LineSink):
    """CSV with a line of names. A null cell is empty, an empty text is quoted; bytes are as on a terminal."""

    def __init__(self, file: BufferedWriter, look: Look, names: Sequence[str]) -> None:
        super().__init__(file, look)
        cells: dict[str, Callable[[Record], str | None]] = {
            "key": lambda record: _text(record.key, look.key_form),
            "value": lambda record: _text(record.value, look.value_form),
            "topic": lambda record: record.topic,
            "partition": lambda record: str(record.partition),
            "offset": lambda record: str(record.offset),
            "timestamp": lambda record: time_text(record.timestamp),
            "timestampType": lambda record: str(record.timestamp_type),
            "headers": _headers,
        }
        self._cells = [cells[name] for name in names]
        file.write((",".join(names) + "\n").encode())

    def line(self, record: Record) -> bytes:
        """A record, with the end of its line."""
        return (",".join([_quoted(cell(record)) for cell in self._cells]) + "\n").encode(errors="replace")


def _records(batch: Batch, rows: Sequence[int]) -> Iterator[Record]:
    """The records of these rows."""
    if isinstance(rows, range):
        return islice(batch.records(), len(rows))
    wanted = iter(rows)
    row = next(wanted, None)
    found = []
    for number, record in enumerate(batch.records()):
        if row is None:
            break
        if number == row:
            found.append(record)
            row = next(wanted, None)
    return iter(found)


def _text(data: bytes | None, form: Form) -> str | None:
    return None if data is None else as_text(data, form)


def _headers(record: Record) -> str | None:
    if record.headers is None:
        return None
    pairs = [{"key": name, "value": _text(value, Form.auto)} for name, value in record.headers]
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))


def _quoted(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if not text or _NEEDS_QUOTES.search(text) else text

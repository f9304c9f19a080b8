"""The outputs of `monedula consume` that are text: one sink for each format."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedWriter
from itertools import islice

from monedula import Batch, Record
from monedula._monedula import csv_lines, json_lines, with_json_values
from monedula.cli.rendering import Form, raw_bytes, shown, time_text
from monedula.cli.templates import Template


@dataclass(frozen=True)
class Look:
    """Form of records as text, CSV or JSON."""

    key_separator: str | None = None
    key_form: Form = Form.auto
    value_form: Form = Form.auto
    columns: tuple[str, ...] | None = None
    null: str = ""
    decodes: bool = False


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


class FileSink(Sink):
    """Base of the sinks that write lines into a file."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        self._file = file
        self._look = look

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Finish."""
        self._file.close()


class LineSink(FileSink):
    """Base of the sinks that write one line for each record in Python."""

    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch."""
        line = self.line
        batch = with_json_values(batch) if self._look.decodes else batch
        self._file.write(b"".join([line(record) for record in _records(batch, rows)]))

    @abstractmethod
    def line(self, record: Record) -> bytes:
        """A record, with the end of its line."""


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


class CoreSink(FileSink):
    """Base of the sinks whose lines the core writes."""

    def __init__(
        self, file: BufferedWriter, look: Look, lines: Callable[[object, Sequence[int], str, str], bytes]
    ) -> None:
        super().__init__(file, look)
        self._lines = lines
        self._forms = look.key_form.value, "decoded" if look.decodes else look.value_form.value

    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch."""
        self._file.write(self._lines(with_json_values(batch) if self._look.decodes else batch, rows, *self._forms))


class JsonSink(CoreSink):
    """One JSON object per line, as `monedula produce --format json` reads them."""

    def __init__(self, file: BufferedWriter, look: Look) -> None:
        super().__init__(file, look, json_lines)


class CsvSink(CoreSink):
    """CSV with a line of names. A null cell is empty, an empty text is quoted; bytes are as on a terminal."""

    def __init__(self, file: BufferedWriter, look: Look, names: Sequence[str]) -> None:
        super().__init__(file, look, csv_lines)
        file.write((",".join(names) + "\n").encode())


class TemplateSink(LineSink):
    """Records by a format string."""

    def __init__(self, file: BufferedWriter, look: Look, template: Template) -> None:
        super().__init__(file, look)
        null, for_terminal = look.null.encode(), file.isatty()
        self._render = template.renderer(look.key_form, look.value_form, null, for_terminal=for_terminal)

    def line(self, record: Record) -> bytes:
        """A record by the format string."""
        return self._render(record)


def _records(batch: Batch, rows: Sequence[int]) -> Iterator[Record]:
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

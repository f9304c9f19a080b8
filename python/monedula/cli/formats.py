"""The output formats of `monedula consume`: which one is meant, and its sink."""

import os
import sys
from enum import StrEnum
from io import BufferedWriter
from pathlib import Path
from typing import Any

from monedula.cli.failures import Failure, UsageError, require
from monedula.cli.sinks import CsvSink, JsonSink, Look, ScreenSink, Sink, TemplateSink, TextSink
from monedula.cli.templates import LETTERS, Template


class Format(StrEnum):
    """The output formats of `monedula consume`."""

    text = "text"
    json = "json"
    csv = "csv"
    arrow = "arrow"
    arrow_file = "arrow-file"
    parquet = "parquet"


BINARY = (Format.arrow, Format.arrow_file, Format.parquet)
WHOLE = (Format.arrow_file, Format.parquet)
"""The formats that are only readable when the file is complete."""

_ENDINGS = {
    "": Format.text,
    ".txt": Format.text,
    ".log": Format.text,
    ".json": Format.json,
    ".jsonl": Format.json,
    ".ndjson": Format.json,
    ".csv": Format.csv,
    ".arrow": Format.arrow_file,
    ".feather": Format.arrow_file,
    ".arrows": Format.arrow,
    ".parquet": Format.parquet,
}


def format_of(chosen: str | None, output: Path | None) -> Format | Template:
    """The chosen format, or format string; or else the format of the file's extension."""
    if chosen is not None and "%" in chosen:
        return Template(chosen)
    if chosen is not None:
        if chosen not in set(Format):
            letters = " ".join(f"%{letter}" for letter in LETTERS)
            raise UsageError(f"--format {chosen}: expected {', '.join(Format)}, or a text with some of {letters}")
        return Format(chosen)
    if output is None:
        return Format.text
    ending = output.suffix.lower()
    if ending not in _ENDINGS:
        known = ", ".join(filter(None, _ENDINGS))
        raise UsageError(f"-o {output}: no format belongs to {ending}; name one with --format, or use one of {known}")
    return _ENDINGS[ending]


def open_sink(kind: Format | Template, output: Path | None, look: Look, schema: Any) -> Sink:
    """Open a sink to a file, or to standard output."""
    if kind in BINARY:
        if output is None and sys.stdout.isatty():
            raise UsageError(f"{kind} is no text: give a file with -o, or pipe it into a program")
        require("pyarrow", "arrow", f"--format {kind}")
    if output is None and sys.__stdout__ is None:
        # The file descriptor 1 may belong to a socket of the client by now.
        raise Failure("standard output is closed; give a file with -o")
    # A file of our own, and not sys.stdout.buffer: sinks write each batch in one call, which one buffer is enough for.
    file: BufferedWriter = os.fdopen(os.dup(1), "wb") if output is None else output.open("wb")
    try:
        return _sink(kind, file, look, schema)
    except BaseException:
        file.close()
        raise


def _sink(kind: Format | Template, file: BufferedWriter, look: Look, schema: Any) -> Sink:
    if isinstance(kind, Template):
        return TemplateSink(file, look, kind)
    if kind is Format.json:
        return JsonSink(file, look)
    if kind is Format.csv:
        return CsvSink(file, look, schema.names)
    if kind is Format.text:
        return ScreenSink(file, look) if file.isatty() else TextSink(file, look)
    from monedula.cli.arrow_sinks import ArrowSink, ParquetSink

    return ParquetSink(file, schema) if kind is Format.parquet else ArrowSink(file, schema, kind is Format.arrow_file)

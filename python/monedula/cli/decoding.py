"""`monedula consume --decode`: values as typed columns, for Arrow and Parquet."""

from enum import StrEnum
from pathlib import Path
from typing import Literal

from monedula.cli.formats import BINARY, Format
from monedula.cli.running import UsageError, require
from monedula.cli.templates import Template
from monedula.errors import ArgumentError
from monedula.typed import Json


class Decode(StrEnum):
    """What values are decoded from."""

    json = "json"


class Bad(StrEnum):
    """What becomes of records that cannot be decoded."""

    fail = "fail"
    null = "null"
    drop = "drop"


def decoder(
    decode: Decode | None, schema: str | None, bad: Bad | None, flatten: bool, kind: Format | Template
) -> Json | None:
    """How values are decoded; `None` for bytes.

    Raises:
        UsageError: if the options contradict each other, or the schema cannot be read.
    """
    if decode is None:
        if schema is not None or bad is not None or flatten:
            raise UsageError("--schema, --bad and --flatten say how values are decoded; add --decode json")
        return None
    if kind not in BINARY:
        named = kind if isinstance(kind, Format) else "a format string"
        raise UsageError(
            f"--decode makes typed columns, and {named} has none; add --format parquet or arrow, or -o orders.parquet"
        )
    if schema is None:
        raise UsageError(
            "--decode json needs the fields: --schema 'id bigint, user string'; monedula schema infer finds them"
        )
    require("pyarrow", "arrow", "--decode")
    mode: Literal["fail", "null", "drop"] = (bad or Bad.fail).value
    try:
        return Json(_text(schema), mode=mode, flatten=flatten)
    except ArgumentError as error:
        raise UsageError(f"--schema: {str(error).removeprefix('schema: ')}") from None


def _text(schema: str) -> str:
    """The schema itself, or what the file of that name has."""
    path = Path(schema)
    try:
        if path.is_file():
            return path.read_text()
    except OSError as error:
        raise UsageError(f"--schema {schema}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--schema {schema}: the file is not UTF-8") from None
    if schema.endswith((".json", ".ddl", ".sql", ".txt")):
        raise UsageError(f"--schema {schema}: there is no such file")
    return schema

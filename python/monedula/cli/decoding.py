"""`monedula consume --decode`: values as typed columns, for Arrow and Parquet."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple

from monedula.cli.formats import BINARY, Format
from monedula.cli.running import UsageError, require
from monedula.cli.templates import Template
from monedula.cli.topic_names import is_pattern
from monedula.errors import ArgumentError
from monedula.typed import Avro, Json, Typed


class Decode(StrEnum):
    """What values are decoded from."""

    json = "json"
    avro = "avro"


class Bad(StrEnum):
    """What becomes of records that cannot be decoded."""

    fail = "fail"
    null = "null"
    drop = "drop"


class Schema(NamedTuple):
    """What is said about the fields."""

    given: str | None
    subject: str | None
    topics: Sequence[str]
    """The topics that are read."""
    has_registry: bool
    """Whether the settings name a registry."""


def decoder(
    decode: Decode | None, schema: Schema, bad: Bad | None, flatten: bool, kind: Format | Template
) -> Typed | None:
    """How values are decoded; `None` for bytes.

    Raises:
        UsageError: if the options contradict each other, or the schema cannot be read.
    """
    if decode is None:
        if schema.given is not None or schema.subject is not None or bad is not None or flatten:
            raise UsageError(
                "--schema, --subject, --bad and --flatten say how values are decoded; add --decode json or avro"
            )
        return None
    if kind not in BINARY:
        named = kind if isinstance(kind, Format) else "a format string"
        raise UsageError(
            f"--decode makes typed columns, and {named} has none; add --format parquet or arrow, or -o orders.parquet"
        )
    if decode is Decode.json and schema.subject is not None:
        raise UsageError("--subject is for --decode avro; the fields of JSON are given by --schema")
    if decode is Decode.json and schema.given is None:
        raise UsageError(
            "--decode json needs the fields: --schema 'id bigint, user string'; monedula schema infer finds them"
        )
    require("pyarrow", "arrow", "--decode")
    mode: Literal["fail", "null", "drop"] = (bad or Bad.fail).value
    try:
        if decode is Decode.avro:
            return _avro(schema, mode, flatten)
        return Json(_text(schema.given or ""), mode=mode, flatten=flatten)
    except ArgumentError as error:
        raise UsageError(f"--schema: {str(error).removeprefix('schema: ')}") from None


def _avro(schema: Schema, mode: Literal["fail", "null", "drop"], flatten: bool) -> Avro:
    """Avro with the schema that is given, or that of a subject: by default the topic's."""
    if schema.given is not None and schema.subject is not None:
        raise UsageError("--schema and --subject say two things about the fields; give one of them")
    if schema.given is not None:
        return Avro(_text(schema.given), mode=mode, flatten=flatten)
    if not schema.has_registry:
        raise UsageError(
            "--decode avro needs a schema: --schema order.avsc, or a registry, -X schema.registry.url=http://..., "
            "which is asked for that of --subject, or of the topic's subject"
        )
    subject = schema.subject
    if subject is None:
        if len(schema.topics) != 1 or is_pattern(schema.topics[0]):
            raise UsageError("--decode avro of several topics needs the subject whose schema is meant: --subject NAME")
        subject = f"{schema.topics[0]}-value"
    return Avro(subject=subject, mode=mode, flatten=flatten)


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
    if schema.endswith((".avsc", ".json", ".ddl", ".sql", ".txt")):
        raise UsageError(f"--schema {schema}: there is no such file")
    return schema

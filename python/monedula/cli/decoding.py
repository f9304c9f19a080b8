"""`monedula consume --decode` and `monedula land --key`: keys and values as typed columns, or as JSON."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from errno import ENAMETOOLONG
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from monedula.cli.failures import Failure, UsageError, require
from monedula.cli.formats import BINARY, Format
from monedula.cli.templates import Template
from monedula.cli.topic_names import is_pattern
from monedula.cli.wording import CommandWording
from monedula.errors import ArgumentError
from monedula.formats._schemas_by_id import schemas_by_id
from monedula.formats._typed import Mode, Typed
from monedula.formats.avro import Avro
from monedula.formats.json import Json
from monedula.formats.protobuf import Protobuf


class Decode(StrEnum):
    """Format of encoded values."""

    json = "json"
    avro = "avro"
    protobuf = "protobuf"


FORMATS: dict[Decode, Callable[..., Typed]] = {Decode.json: Json, Decode.avro: Avro, Decode.protobuf: Protobuf}


class Framing(StrEnum):
    """Frame before values."""

    bare = "bare"
    confluent = "confluent"
    single_object = "single_object"
    apicurio = "apicurio"
    glue = "glue"


class Bad(StrEnum):
    """Fate of records that cannot be decoded."""

    fail = "fail"
    null = "null"
    drop = "drop"


class Schema(NamedTuple):
    """Options about the fields."""

    given: str | None
    message: str | None
    subject: str | None
    topics: Sequence[str]
    """The topics that are read."""
    has_registry: bool
    """True if the settings name a registry."""
    framing: Framing | None = None
    schemas: str | None = None
    """The writers' schemas."""
    column: str = "value"
    """`key` or `value`."""

    def named(self, option: str) -> str:
        """An option as it is for this column: `--key-schema`, and `--schema` for values."""
        return f"--key-{option}" if self.column == "key" else f"--{option}"


def decoder(
    decode: Decode | None, schema: Schema, bad: Bad | None, flatten: bool, kind: Format | Template
) -> Typed | None:
    """The decoder of keys or values; `None` for bytes."""
    named = schema.named
    if decode is None:
        told = (schema.given, schema.message, schema.subject, schema.framing, schema.schemas, bad)
        if any(given is not None for given in told) or flatten:
            options = ", ".join(map(named, ("schema", "message", "subject", "framing")))
            more = f"and {named('schemas')}" if schema.column == "key" else "--schemas, --bad and --flatten"
            raise UsageError(
                f"{options}, {more} say how {schema.column}s are decoded; add {named('decode')} json, avro or protobuf"
            )
        return None
    if flatten and kind not in BINARY:
        form = kind if isinstance(kind, Format) else "a format string"
        raise UsageError(
            f"--flatten makes columns of fields, and {form} has none; add --format parquet or arrow, or "
            "-o orders.parquet"
        )
    if decode is not Decode.protobuf and schema.message is not None:
        raise UsageError(f"{named('message')} is for {named('decode')} protobuf")
    if decode is Decode.json and schema.schemas is not None:
        raise UsageError(
            f"{named('schemas')} is for {named('decode')} avro and protobuf: of JSON, {named('schema')} says all"
        )
    if decode is not Decode.avro and schema.framing is Framing.single_object:
        raise UsageError(f"{named('framing')} single_object is for {named('decode')} avro")
    require("pyarrow", "arrow", named("decode"))
    mode: Mode = (bad or Bad.fail).value
    try:
        return _with_reader(decode, schema, mode, flatten)
    except ArgumentError as error:
        reason = CommandWording(schema.column).told(error)
        raise UsageError(reason if error.argument is not None else f"{named('schema')}: {reason}") from None


def _with_reader(decode: Decode, schema: Schema, mode: Mode, flatten: bool) -> Typed:
    """Keys or values with the schema that is given, or that of a subject: by default the topic's."""
    named = schema.named
    if schema.given is not None and schema.subject is not None:
        raise UsageError(f"{named('schema')} and {named('subject')} say two things about the fields; give one of them")
    given: dict[str, Any] = {"mode": mode, "flatten": flatten, "framing": schema.framing and schema.framing.value}
    if schema.schemas is not None:
        given["schemas"] = _by_id(schema.schemas, partial(source_of, decode, option=named("schemas")))
    if decode is Decode.protobuf:
        given["message"] = schema.message
    if schema.given is not None:
        return FORMATS[decode](source_of(decode, schema.given, named("schema")), **given)
    if decode is Decode.avro and schema.schemas is not None and schema.subject is None:
        return Avro(**given)
    if not schema.has_registry and decode is Decode.json:
        raise UsageError(
            f"{named('decode')} json needs the fields: {named('schema')} 'id bigint, user string'; monedula schema "
            "infer finds those of values. Behind Confluent's frame they are those of a subject, of the registry of "
            "-X schema.registry.url=http://..."
        )
    if not schema.has_registry:
        file = "order.avsc" if decode is Decode.avro else "order.proto"
        raise UsageError(
            f"{named('decode')} {decode} needs a schema: {named('schema')} {file}, or a registry, "
            "-X schema.registry.url=http://..., which is asked for that of "
            f"{named('subject')}, or of the topic's subject"
        )
    subject = schema.subject
    if subject is None:
        if len(schema.topics) != 1 or is_pattern(schema.topics[0]):
            raise UsageError(
                f"{named('decode')} {decode} of several topics needs the subject whose schema is meant: "
                f"{named('subject')} NAME"
            )
        subject = f"{schema.topics[0]}-{schema.column}"
    return FORMATS[decode](subject=subject, **given)


def _by_id(given: str, read: Callable[[str], Any]) -> Any:
    try:
        return schemas_by_id(given, read)
    except ArgumentError as error:
        if isinstance(error.__context__, OSError | UnicodeDecodeError):
            raise Failure(CommandWording().told(error)) from None
        raise


_ENDINGS = (".avsc", ".json", ".ddl", ".sql", ".txt", ".proto", ".pb", ".desc", ".binpb")


def source_of(kind: Decode, schema: str, option: str = "--schema") -> str | bytes | dict[str, str]:
    """The schema itself, or what the file of that name has: for Protobuf a text, by its file's name, or descriptors."""
    path = Path(schema)
    try:
        if path.is_file():
            if kind is not Decode.protobuf:
                return path.read_text()
            found = path.read_bytes()
            return {path.name: found.decode()} if path.suffix == ".proto" else found
    except OSError as error:
        if error.errno != ENAMETOOLONG:  # before Python 3.14: a schema is longer than the name of any file
            raise Failure(f"{option} {schema}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{option} {schema}: the file is not UTF-8") from None
    if schema.endswith(_ENDINGS):
        raise Failure(f"{option} {schema}: there is no such file")
    return schema

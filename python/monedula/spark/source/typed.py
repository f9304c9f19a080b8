"""Keys and values that are decoded into typed columns: the options for it, and the schema that travels to the tasks.

The fields of JSON are those that the query names. Those of Avro and Protobuf are those of the reader's schema, or some
of them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from monedula.config import RawSettings
from monedula.errors import ArgumentError, ConfigError
from monedula.formats._typed import Mode
from monedula.formats.avro import Avro
from monedula.formats.json import CORRUPT_RECORD, Json
from monedula.formats.protobuf import Protobuf
from monedula.spark.options import columns
from monedula.spark.options.columns import Options
from monedula.spark.options.values import bad_value, boolean, refused
from monedula.spark.options.wording import OptionWording
from monedula.spark.source.readers import AvroReader, ProtobufReader

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

SUFFIXES = (
    *("format", "mode", "columnNameOfCorruptRecord", "schema", "message", "subject", "version", "framing", "schemas"),
    "flatten",
)
"""Suffixes of `value.` and `key.` in the names of the options."""

_OF_READERS = ("schema", "subject", "version", "schemas")

_FRAMINGS = ("bare", "confluent", "single_object", "apicurio", "glue")

OPTIONS = (*(f"value.{suffix}" for suffix in SUFFIXES), *(f"key.{suffix}" for suffix in SUFFIXES[:-1]))

FROM_JSON = (
    "timeZone",
    "timestampFormat",
    "timestampNTZFormat",
    "dateFormat",
    "enableDateTimeParsingFallback",
    "enablePartialResults",
    "allowComments",
    "allowUnquotedFieldNames",
    "allowSingleQuotes",
    "allowNumericLeadingZeros",
    "allowNonNumericNumbers",
    "allowBackslashEscapingAnyCharacter",
    "allowUnquotedControlChars",
    "primitivesAsString",
    "prefersDecimal",
    "locale",
    "envelope",
)
"""Options of `Json`, which stand behind `value.` and `key.` as well."""

FROM_PROTOBUF = (
    "recursive.fields.max.depth",
    "convert.any.fields.to.json",
    "emit.default.values",
    "enums.as.ints",
    "upcast.unsigned.ints",
    "unwrap.primitive.wrapper.types",
    "retain.empty.message.types",
)
"""Options of `Protobuf`, which stand behind `value.` and `key.` as well."""

_FROM = (*FROM_JSON, *columns.OF_AVRO, *FROM_PROTOBUF)

FROM_OPTIONS = tuple(f"{column}.{name}" for column in ("value", "key") for name in _FROM)

_FOR: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*FROM_JSON, "columnNameOfCorruptRecord"), ("json",)),
    **dict.fromkeys(columns.OF_AVRO, ("avro",)),
    **dict.fromkeys((*FROM_PROTOBUF, "message"), ("protobuf",)),
    **dict.fromkeys(_OF_READERS, ("avro", "protobuf")),
}
"""The formats that options are for, where they are not for all."""

_DEFAULTS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD, "flatten": "false"}

_MODE_OF = {"json": "PERMISSIVE", "avro": "FAILFAST", "protobuf": "FAILFAST"}
"""The default modes of formats, which are those of `from_json`, `from_avro` and `from_protobuf`."""

_MODES: Mapping[str, Mode] = {
    "PERMISSIVE": "null",
    "FAILFAST": "fail",
    "DROPMALFORMED": "drop",
}


@dataclass(frozen=True)
class TypedColumn:
    """Decoding of a column. It is part of what identifies a client, so it is made of texts."""

    column: str
    mode: Mode
    corrupt_record: str
    flatten: bool
    schema_json: str = ""
    from_json: Options = ()
    driver_time_zone: str = "UTC"
    """The zone of timestamps that name none, if neither an option nor the session says it."""
    reader: AvroReader | ProtobufReader | None = None
    framing: str | None = None

    @property
    def format(self) -> str:
        """Format of values, for messages."""
        return "JSON" if self.reader is None else self.reader.NAME

    def pinned(self, settings: Callable[[], RawSettings]) -> "TypedColumn":
        """The same with the reader's schema, which a registry may be asked for."""
        if self.reader is None:
            return self
        given = "subject" if self.reader.subject is not None else "schema"
        try:
            reader = self.reader.pinned(RawSettings() if self.reader.subject is None else settings())
            reader.decoder()
        except ArgumentError as error:
            raise OptionWording(self.column).refused(error, given) from None
        return replace(self, reader=reader)

    def with_type(self, wanted: "DataType") -> "TypedColumn":
        """The same, with the type that a query asks for."""
        if self.reader is None:
            return self.with_schema(wanted.json())
        check_part(self.column, wanted, self.reader.data_type(), self.format)
        return replace(self, reader=self.reader.narrowed(wanted))

    def with_schema(self, schema_json: str) -> "TypedColumn":
        """The same, with the schema of a query."""
        typed = replace(self, schema_json=schema_json)
        try:
            typed.decoder()
        except ArgumentError as error:
            wording = OptionWording(self.column)
            if error.argument == "options":
                raise wording.refused(error, "format") from None
            raise ConfigError(f"schema: {self.column}: {wording.reason(error)}", key=f"{self.column}.format") from None
        return typed

    def in_task(self) -> "TypedColumn":
        """The same, with the time zone of the session, as `from_json` has it."""
        if self.reader is not None:
            return self
        return replace(self, from_json=columns.with_time_zone(self.from_json, self.driver_time_zone))

    def decoder(self) -> Json | Avro | Protobuf:
        """The decoder, on the driver or in a task."""
        if self.reader is not None:
            return self.reader.decoder(self.mode, self.flatten)
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        # Before Spark 4.2 timestamps are in UTC without being asked for.
        zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
        schema = to_arrow_schema(StructType.fromJson(json.loads(self.schema_json)), **zone)
        # As in from_json, the option may name a field that the schema does not have.
        has_field = self.mode == "null" and self.corrupt_record in schema.names
        given: dict[str, Any] = {"corrupt_record": self.corrupt_record} if has_field else {}
        if self.framing is not None:
            given["framing"] = self.framing
        return Json(schema, mode=self.mode, flatten=self.flatten, options=dict(self.from_json), **given)


def typed_columns(options: Mapping[str, str]) -> tuple[TypedColumn, ...]:
    """The columns that options ask to decode, without their schema."""
    _check_unknown(options)
    typed = []
    for column in ("key", "value"):
        given = columns.given_options(options, column, SUFFIXES)
        options_of = columns.given_options(options, column, _FROM)
        known = columns.take_format(column, given)
        _check_format(column, known, given | options_of)
        if known == "binary":
            continue
        mode = given.get("mode", _MODE_OF[known]).strip().upper()
        if mode not in _MODES:
            raise bad_value(f"{column}.mode", given["mode"], ", ".join(_MODES))
        flatten = column == "value" and boolean("value.flatten", given.get("flatten", "false"))
        corrupt_record = given.get("columnNameOfCorruptRecord", CORRUPT_RECORD)
        framing = _framing(column, known, given)
        typed.append(
            TypedColumn(
                column,
                _MODES[mode],
                corrupt_record,
                flatten,
                from_json=tuple(sorted(options_of.items())) if known == "json" else (),
                driver_time_zone=columns.time_zone_here(),
                reader=None if known == "json" else _reader(options, column, known, given, options_of, framing),
                framing=framing,
            )
        )
    if typed:
        _check_bare(options, typed[-1].column)
    return tuple(typed)


def _check_format(column: str, known: str, given: Mapping[str, str]) -> None:
    """Refuse options that say nothing with this format."""
    for suffix, text in given.items():
        formats = _FOR.get(suffix, columns.FORMATS)
        if known not in formats and text != _DEFAULTS.get(suffix):
            raise columns.unfit(column, suffix, " or ".join(formats))


def _framing(column: str, known: str, given: Mapping[str, str]) -> str | None:
    if "framing" not in given:
        return None
    framings = [each for each in _FRAMINGS if known == "avro" or each != "single_object"]
    framing = given["framing"].strip().lower()
    if framing not in framings:
        raise bad_value(f"{column}.framing", given["framing"], ", ".join(framings))
    return framing


_SCHEMA_OF = {"avro": "its JSON text", "protobuf": "its .proto text, or the name of a file with descriptors"}


def _reader(
    options: Mapping[str, str],
    column: str,
    known: str,
    given: Mapping[str, str],
    options_of: Mapping[str, str],
    framing: str | None,
) -> AvroReader | ProtobufReader:
    schema, subject, version, schemas = (given.get(suffix) for suffix in _OF_READERS)
    if schema is not None and subject is not None:
        raise ConfigError(
            f"{column}.schema and {column}.subject say two things about the reader's schema; give one of them",
            key=f"{column}.subject",
        )
    if version is not None and (subject is None or not version.strip().isdigit()):
        what = f"is for {column}.subject" if subject is None else f"is '{version}': expected the number of a version"
        raise refused(f"{column}.version", what)
    if schema is None and subject is None and not (known == "avro" and schemas is not None):
        name = f"{column}.format"
        raise ConfigError(
            f"{name}={known} needs the reader's schema: {column}.schema with {_SCHEMA_OF[known]}, or {column}.subject "
            f"with the name of a subject, such as 'orders-{column}', of the registry of kafka.schema.registry.url",
            key=name,
        )
    if "schema.registry.url" in options:
        name = "schema.registry.url"
        raise refused(name, f"is 'kafka.{name}' here, as all settings of the client")
    number = None if version is None else int(version)
    of_format = tuple(sorted(options_of.items()))
    if known == "avro":
        return AvroReader(schema, subject, number, of_format, framing, schemas)
    return ProtobufReader(schema, subject, number, of_format, framing, schemas, message=given.get("message"))


def check_part(path: str, wanted: "DataType", whole: "DataType", form: str) -> None:
    """Check that a type has nothing but what another has."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(wanted, StructType) and isinstance(whole, StructType):
        for field in wanted.fields:
            if field.name not in whole.names:
                raise ConfigError(
                    f"schema: {path}: the {form} schema has no field {field.name!r}; it has {', '.join(whole.names)}"
                )
            check_part(f"{path}.{field.name}", field.dataType, whole[field.name].dataType, form)
    elif isinstance(wanted, ArrayType) and isinstance(whole, ArrayType):
        check_part(f"{path}[]", wanted.elementType, whole.elementType, form)
    elif isinstance(wanted, MapType) and isinstance(whole, MapType) and wanted.keyType == whole.keyType:
        check_part(f"{path}{{}}", wanted.valueType, whole.valueType, form)
    elif wanted != whole:
        raise ConfigError(
            f"schema: {path} is {whole.simpleString()} by the {form} schema, not {wanted.simpleString()}; convert it "
            "after load()"
        )


def _check_unknown(options: Mapping[str, str]) -> None:
    """Refuse options that begin as ours do, and are none: they would be without effect."""
    known = {name.lower() for name in (*OPTIONS, *FROM_OPTIONS)}
    for name in options:
        column = name.partition(".")[0]
        if column in ("key", "value") and "." in name and name not in known:
            names = ", ".join(f"{column}.{suffix}" for suffix in (*SUFFIXES, *_FROM) if suffix != "flatten")
            raise refused(name, f"is not known; expected one of {names}, value.flatten")


def _check_bare(options: Mapping[str, str], column: str) -> None:
    """Refuse options of `from_json` as they are written there, where they would be without effect."""
    for suffix in (*SUFFIXES[1:3], *_FROM):
        if suffix.lower() in options:
            raise refused(suffix, f"is '{column}.{suffix}' here, for the column that it is about")

"""Keys and values that are decoded into typed columns: the options for it, and the schema that travels to the tasks.

The fields of JSON are those that the query names. Those of Avro are those of the reader's schema, or some of them. It
is given, or that of a subject, which the driver asks a registry for; tasks have its text.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from monedula.config import RawSettings
from monedula.errors import ArgumentError, ConfigError
from monedula.spark.session_zone import session_zone, time_zone_here
from monedula.spark.values import boolean
from monedula.typed import CORRUPT_RECORD, Avro, Json

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

SUFFIXES = ("format", "mode", "columnNameOfCorruptRecord", "schema", "subject", "version", "flatten")
"""What stands behind `value.` and `key.` in the names of the options."""

_OF_JSON = ("columnNameOfCorruptRecord",)

_OF_AVRO = ("schema", "subject", "version")

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

FROM_AVRO = ("recursiveFieldMaxDepth", "enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType")
"""Options of `Avro`, which stand behind `value.` and `key.` as well."""

FROM_OPTIONS = tuple(f"{column}.{name}" for column in ("value", "key") for name in (*FROM_JSON, *FROM_AVRO))

_DEFAULTS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD, "flatten": "false"}

_MODE_OF = {"json": "PERMISSIVE", "avro": "FAILFAST"}
"""The default modes, which are those of `from_json` and `from_avro`."""

_MODES: Mapping[str, Literal["null", "fail", "drop"]] = {
    "PERMISSIVE": "null",
    "FAILFAST": "fail",
    "DROPMALFORMED": "drop",
}


@dataclass(frozen=True)
class AvroReader:
    """The reader's schema of a column, and what is said about it."""

    schema: str | None = None
    """Its text; `None` if a registry has it, and was not asked yet."""
    references: tuple[str, ...] = ()
    """The schemas that it refers to."""
    subject: str | None = None
    version: int | None = None
    options: tuple[tuple[str, str], ...] = ()

    def pinned(self, settings: RawSettings) -> "AvroReader":
        """The same with the schema of its subject.

        Raises:
            ArgumentError: if the schema cannot be read.
            SchemaRegistryError: if the registry does not have it, or cannot be asked.
        """
        if self.schema is not None:
            return self
        avro = Avro(subject=self.subject, version=self.version, options=dict(self.options)).pinned(settings)
        return replace(self, schema=avro.reader, references=avro.references)

    def narrowed(self, wanted: "DataType | None" = None) -> "AvroReader":
        """The same with what a query wants of the schema."""
        from monedula.spark.avro_schema import narrowed

        return replace(self, schema=narrowed(self.schema or "", self.references, wanted), references=())

    def data_type(self) -> "DataType":
        """The column's type in Spark."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_type

        reader = self.narrowed()
        spec = Avro(reader.schema, options=dict(self.options)).spec
        kind: DataType = from_arrow_type(
            pa.table(spec.decode([])).schema.field("value").type, prefer_timestamp_ntz=True
        )
        return kind


@dataclass(frozen=True)
class TypedColumn:
    """How a column is decoded. It is part of what identifies a client, so it is made of texts."""

    column: str
    mode: Literal["null", "fail", "drop"]
    corrupt_record: str
    flatten: bool
    schema_json: str = ""
    """The Spark schema of its fields, as JSON."""
    from_json: tuple[tuple[str, str], ...] = ()
    """The options of `from_json`."""
    driver_time_zone: str = "UTC"
    """The zone of timestamps that name none, if neither an option nor the session says it."""
    avro: AvroReader | None = None
    """How Avro is read; `None` for JSON."""

    @property
    def format(self) -> str:
        """What values are decoded from, for messages."""
        return "JSON" if self.avro is None else "Avro"

    def pinned(self, settings: Callable[[], RawSettings]) -> "TypedColumn":
        """The same with the reader's schema, which a registry may be asked for.

        Raises:
            ConfigError: if the schema cannot be read, or the settings name no registry.
            SchemaRegistryError: if the registry does not have it, or cannot be asked.
        """
        if self.avro is None:
            return self
        given = "schema" if self.avro.schema is not None else "subject"
        try:
            avro = self.avro.pinned(RawSettings() if self.avro.schema is not None else settings())
            Avro(avro.schema, references=avro.references, options=dict(avro.options))
        except ArgumentError as error:
            name = f"{self.column}.{given}"
            reason = str(error).removeprefix("schema: ").replace(" schema.registry.url", " kafka.schema.registry.url")
            raise ConfigError(f"option '{name}': {reason}", key=name) from None
        return replace(self, avro=avro)

    def with_type(self, wanted: "DataType") -> "TypedColumn":
        """The same, with the type that a query asks for.

        Raises:
            ConfigError: if no value is decoded to it.
        """
        if self.avro is None:
            return self.with_schema(wanted.json())
        whole = self.avro.data_type()
        check_part(self.column, wanted, whole)
        return replace(self, avro=self.avro.narrowed(wanted))

    def with_schema(self, schema_json: str) -> "TypedColumn":
        """The same, with the schema of a query.

        Raises:
            ConfigError: if it has a type that no value is decoded to.
        """
        typed = replace(self, schema_json=schema_json)
        try:
            typed.decoder()
        except ArgumentError as error:
            what = str(error)
            if what.startswith("option "):
                name, _, reason = what.removeprefix("option ").partition(": ")
                name = f"{self.column}.{name}"
                raise ConfigError(f"option '{name}': {reason}", key=name) from None
            what = what.removeprefix("schema: ")
            raise ConfigError(f"schema: {self.column}: {what}", key=f"{self.column}.format") from None
        return typed

    def in_task(self) -> "TypedColumn":
        """The same, with the time zone of the session, as `from_json` has it."""
        if self.avro is not None or any(name == "timeZone" for name, _ in self.from_json):
            return self
        return replace(self, from_json=(*self.from_json, ("timeZone", session_zone() or self.driver_time_zone)))

    def decoder(self) -> Json | Avro:
        """The decoder, on the driver or in a task."""
        if self.avro is not None:
            options = dict(self.avro.options)
            return Avro(
                self.avro.schema,
                references=self.avro.references,
                mode=self.mode,
                flatten=self.flatten,
                options=options,
                framing=None if self.avro.subject is None else "confluent",
                subject=self.avro.subject,
            )
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        # Before Spark 4.2 timestamps are in UTC without being asked for.
        zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
        schema = to_arrow_schema(StructType.fromJson(json.loads(self.schema_json)), **zone)
        # As in from_json, the option may name a field that the schema does not have.
        has_field = self.mode == "null" and self.corrupt_record in schema.names
        given: dict[str, Any] = {"corrupt_record": self.corrupt_record} if has_field else {}
        return Json(schema, mode=self.mode, flatten=self.flatten, options=dict(self.from_json), **given)


def typed_columns(options: Mapping[str, str]) -> tuple[TypedColumn, ...]:
    """The columns that options ask to decode, without their schema.

    Raises:
        ConfigError: if an option has no such value, or says nothing without the format.
    """
    _check_unknown(options)
    typed = []
    for column in ("key", "value"):
        given = _given(options, column, SUFFIXES)
        from_json, from_avro = _given(options, column, FROM_JSON), _given(options, column, FROM_AVRO)
        known = given.pop("format", "binary").strip().lower()
        if known not in ("binary", "json", "avro"):
            name = f"{column}.format"
            raise ConfigError(f"option '{name}' is '{known}': expected json, avro, or binary (the default)", key=name)
        _check_format(column, known, given | from_json | from_avro)
        if known == "binary":
            continue
        mode = given.get("mode", _MODE_OF.get(known, "")).strip().upper()
        if mode not in _MODES:
            name = f"{column}.mode"
            raise ConfigError(f"option '{name}' is '{given['mode']}': expected {', '.join(_MODES)}", key=name)
        flatten = column == "value" and boolean("value.flatten", given.get("flatten", "false"))
        corrupt_record = given.get("columnNameOfCorruptRecord", CORRUPT_RECORD)
        typed.append(
            TypedColumn(
                column,
                _MODES[mode],
                corrupt_record,
                flatten,
                from_json=tuple(sorted(from_json.items())),
                driver_time_zone=time_zone_here(),
                avro=_avro_reader(options, column, given, from_avro) if known == "avro" else None,
            )
        )
    if typed:
        _check_bare(options, typed[-1].column)
    return tuple(typed)


def _check_format(column: str, known: str, given: Mapping[str, str]) -> None:
    """Refuse options that say nothing with this format."""
    for suffix, text in given.items():
        formats: tuple[str, ...] = ("json", "avro")
        if suffix in (*FROM_JSON, *_OF_JSON):
            formats = ("json",)
        elif suffix in (*FROM_AVRO, *_OF_AVRO):
            formats = ("avro",)
        if known not in formats and text != _DEFAULTS.get(suffix):
            name = f"{column}.{suffix}"
            raise ConfigError(f"option '{name}' is for {column}.format={' or '.join(formats)}", key=name)


def _avro_reader(
    options: Mapping[str, str], column: str, given: Mapping[str, str], from_avro: Mapping[str, str]
) -> AvroReader:
    schema, subject, version = (given.get(suffix) for suffix in _OF_AVRO)
    if schema is not None and subject is not None:
        raise ConfigError(
            f"{column}.schema and {column}.subject say two things about the reader's schema; give one of them",
            key=f"{column}.subject",
        )
    if version is not None and (subject is None or not version.strip().isdigit()):
        name = f"{column}.version"
        what = f"is for {column}.subject" if subject is None else f"is '{version}': expected the number of a version"
        raise ConfigError(f"option '{name}' {what}", key=name)
    if schema is None and subject is None:
        name = f"{column}.format"
        raise ConfigError(
            f"{name}=avro needs the reader's schema: {column}.schema with its JSON text, or {column}.subject with the "
            f"name of a subject, such as 'orders-{column}', of the registry that kafka.schema.registry.url names",
            key=name,
        )
    if "schema.registry.url" in options:
        name = "schema.registry.url"
        raise ConfigError(f"option '{name}' is 'kafka.{name}' here, as all settings of the client", key=name)
    number = None if version is None else int(version)
    return AvroReader(schema, (), subject, number, tuple(sorted(from_avro.items())))


def check_part(path: str, wanted: "DataType", whole: "DataType") -> None:
    """Check that a type has nothing but what another has.

    Raises:
        ConfigError: if it has, with the first place.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(wanted, StructType) and isinstance(whole, StructType):
        for field in wanted.fields:
            if field.name not in whole.names:
                raise ConfigError(
                    f"schema: {path}: the Avro schema has no field {field.name!r}; it has {', '.join(whole.names)}"
                )
            check_part(f"{path}.{field.name}", field.dataType, whole[field.name].dataType)
    elif isinstance(wanted, ArrayType) and isinstance(whole, ArrayType):
        check_part(f"{path}[]", wanted.elementType, whole.elementType)
    elif isinstance(wanted, MapType) and isinstance(whole, MapType) and wanted.keyType == whole.keyType:
        check_part(f"{path}{{}}", wanted.valueType, whole.valueType)
    elif wanted != whole:
        raise ConfigError(
            f"schema: {path} is {whole.simpleString()} by the Avro schema, not {wanted.simpleString()}; convert it "
            "after load()"
        )


def _check_unknown(options: Mapping[str, str]) -> None:
    """Refuse options that begin as ours do, and are none: they would be without effect."""
    known = {name.lower() for name in (*OPTIONS, *FROM_OPTIONS)}
    for name in options:
        column = name.partition(".")[0]
        if column in ("key", "value") and "." in name and name not in known:
            names = ", ".join(
                f"{column}.{suffix}" for suffix in (*SUFFIXES, *FROM_JSON, *FROM_AVRO) if suffix != "flatten"
            )
            raise ConfigError(f"option '{name}' is not known; expected one of {names}, value.flatten", key=name)


def _check_bare(options: Mapping[str, str], column: str) -> None:
    """Refuse options of `from_json` as they are written there, where they would be without effect."""
    for suffix in (*SUFFIXES[1:3], *FROM_JSON, *FROM_AVRO):
        if suffix.lower() in options:
            raise ConfigError(
                f"option '{suffix}' is '{column}.{suffix}' here, for the column that it is about", key=suffix
            )


def _given(options: Mapping[str, str], column: str, suffixes: tuple[str, ...]) -> dict[str, str]:
    return {suffix: options[name] for suffix in suffixes if (name := f"{column}.{suffix}".lower()) in options}

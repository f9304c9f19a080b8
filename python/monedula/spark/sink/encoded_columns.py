"""The options of the sink that say how keys and values are written: `value.format=json`, `avro` or `protobuf`.

Nothing is encoded here: a task gives the forms of its columns to the core, which writes the rows (`rust/formats/src/`,
as JSON in `json/encoder/`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from monedula.config import RawSettings
from monedula.errors import ArgumentError, ConfigError
from monedula.formats.avro import Avro
from monedula.formats.json import Json
from monedula.formats.protobuf import Protobuf
from monedula.formats.registry import SchemaRegistry
from monedula.spark.options import columns
from monedula.spark.options.columns import Options, Source
from monedula.spark.options.values import INT_MAX, bad_value, boolean, refused, whole_number
from monedula.spark.options.wording import OptionWording

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

SUFFIXES = ("format", "schema", "message", "subject", "version", "framing", "id.in.header", "flatten")
"""Suffixes of `value.` and `key.` in the names of the options."""

TO_JSON = ("timeZone", "timestampFormat", "timestampNTZFormat", "dateFormat", "ignoreNullFields")
"""Options of `to_json`, which stand behind `value.` and `key.` as well."""

OPTIONS = (*(f"value.{name}" for name in SUFFIXES), *(f"key.{name}" for name in SUFFIXES[:-1]))

TO_OPTIONS = tuple(f"{column}.{name}" for column in ("value", "key") for name in TO_JSON)

_FOR = {"message": "protobuf", **dict.fromkeys(TO_JSON, "json")}
"""The formats that options are for, where they are not for all."""

_KAFKAS = ("key", "value", "topic", "partition", "headers")
_READ_ONLY = ("offset", "timestamp", "timestampType")
"""Columns of the source that a sink has no place for."""


@dataclass(frozen=True)
class EncodedColumn:
    """Encoding of a column. It is part of what a task is sent, so it is made of texts."""

    column: str
    format: str
    schema: str | None = None
    message: str | None = None
    subject: str | None = None
    number: int | None = None
    """The version that is wanted of a subject without a schema, or `None` for the latest."""
    framing: str | None = None
    id_in_header: bool = False
    """True if a header names the schema, by its GUID."""
    id: int | None = None
    """The id of a schema that is registered, which the driver has asked for."""
    version: tuple[int, str, tuple[tuple[str, str], ...]] | None = None
    """The id, the text of a subject without a schema, and the schemas that it refers to, as a registry has them."""
    source: Source = b""
    """The schema of Protobuf, once it is read."""
    flatten: bool = False
    """True if the columns of the frame are the fields of values, also if there is a column `value`."""
    options: Options = ()
    driver_time_zone: str = "UTC"
    """The zone that times are written in, if neither an option nor the session says it."""
    fields: tuple[tuple[str, int], ...] = ()
    """The columns that are the fields of values, each with its index; none if there is one column of values."""

    def form(self) -> "Json | Avro | Protobuf":
        """The form of rows, on the driver or in a task."""
        given: dict[str, Any] = {"subject": self.subject, "version": self.number, "framing": self.framing}
        given["id_in_header"] = self.id_in_header
        form: Json | Avro | Protobuf
        if self.format == "json":
            form = Json(self.schema, options=dict(self.options), **given)
        elif self.format == "avro":
            form = Avro(self.schema, options=dict(self.options), **given)
        else:
            source = self.source if isinstance(self.source, bytes) else dict(self.source)
            form = Protobuf(source or None, message=self.message, options=_AS_TO_PROTOBUF, **given)
        if self.id is not None:
            return form.of_id(self.id)
        if self.version is None:
            return form
        number, text, references = self.version
        return form.of_version(number, text, [*references])

    def pinned(self, settings: Callable[[], RawSettings]) -> "EncodedColumn":
        """The same with the schema of its file, or that of its subject if none is given, for all tasks."""
        if (self.framing == "confluent" or self.id_in_header) and not any(_is_url(name) for name, _ in settings()):
            suffix, value, what = "framing", "confluent", "begin with its id"
            if self.id_in_header:
                suffix, value, what = "id.in.header", "true", "have its GUID in a header"
            name = f"{self.column}.{suffix}"
            raise ConfigError(
                f"option '{name}': {value} needs kafka.schema.registry.url, where the schema is registered: values "
                f"{what}",
                key=name,
            )
        try:
            if self.format == "protobuf" and self.schema is not None:
                return replace(self, source=columns.protobuf_source(self.schema))
            if self.format == "avro" and self.schema is not None:
                return replace(self, schema=columns.avro_text(self.schema, "schema"))
            if self.schema is not None or self.subject is None:
                return self
            number, text, references = self.form().version_in(SchemaRegistry(settings()).core)
        except ArgumentError as error:
            given = "subject" if self.schema is None else "schema"
            raise OptionWording(self.column).refused(error, given) from None
        return replace(self, version=(number, text, tuple(references)))

    def registered(
        self, schema: "StructType", settings: Callable[[], RawSettings], topic: str | None
    ) -> "EncodedColumn":
        """The same with the id of its schema, which is registered or looked up once, and not by each task."""
        raw = settings()
        # The newest schema may be another than the given one: each client asks for it.
        if self.version is not None or not any(_is_url(name) for name, _ in raw) or any(map(_is_latest, raw)):
            return self
        registry = SchemaRegistry(raw).core
        try:
            number = self.form().spec.registered_id(registry, self.column, topic, _table(self._type(schema)))
        except ArgumentError as error:
            name = f"{self.column}.format"
            raise ConfigError(f"{name}: {OptionWording(self.column).reason(error)}", key=name) from None
        return replace(self, id=number)

    def in_task(self) -> "EncodedColumn":
        """The same with the session's zone, as `to_json` has it."""
        if self.format != "json":
            return self
        return replace(self, options=columns.with_time_zone(self.options, self.driver_time_zone))

    def of(self, schema: "StructType", topic: str | None) -> "EncodedColumn":
        """The same for the columns of a frame, whose rows all go to `topic`, if there is one."""
        names = schema.fieldNames()
        if self.column in names and not self.flatten:
            return self._checked(self._type(schema))
        if self.column == "key":
            raise ConfigError("key.format says how the column 'key' is written, which there is not", key="key.format")
        if lost := next((name for name in names if name in _READ_ONLY), None):
            raise ConfigError(
                f"value.format: the column '{lost}' is one of Kafka's records, and a sink does not write it: drop it, "
                f"or give the fields of values as one column 'value', such as struct({lost}, ...)",
                key="value.format",
            )
        taken = _KAFKAS[:1] + _KAFKAS[2:] if self.flatten else _KAFKAS
        self._check_beside([name for name in names if name in taken], topic)
        fields = tuple((name, place) for place, name in enumerate(names) if name not in taken)
        if not fields:
            raise ConfigError("value.format: there is no column of values, nor one that could be a field of them")
        made = replace(self, fields=fields)
        return made._checked(made._type(schema))

    def _check_beside(self, names: list[str], topic: str | None) -> None:
        """Refuse columns that have the name of one of Kafka's, where they may be fields of the values, too."""
        if self.format == "json" and self.schema is None and self.version is None:
            # A key, and a topic that no option overrules, are sent whole.
            unclear = [
                name for name in names if name in ("partition", "headers") or (name == "topic" and topic is not None)
            ]
        else:
            try:
                known = self.form().field_names()
            except ArgumentError as error:
                raise self._refused(error) from None
            unclear = [name for name in names if name in known]
        if unclear:
            raise ConfigError(
                f"value.format: the column '{unclear[0]}' has the name of one of Kafka's, and may be a field of the "
                f"values as well. If it is, rename it, or give the fields as one column 'value', such as "
                f"struct({unclear[0]}, ...); if not, say the fields of the values by value.schema",
                key="value.format",
            )

    def _type(self, schema: "StructType") -> "DataType":
        if not self.fields:
            return schema[schema.fieldNames().index(self.column)].dataType
        from pyspark.sql.types import StructType

        return StructType([schema[place] for _, place in self.fields])

    def _checked(self, kind: "DataType") -> "EncodedColumn":
        name = f"{self.column}.format"
        if (path := _variant(kind, self.column)) is not None:
            raise ConfigError(
                f"{name}: {path} is a variant, of which Spark gives a sink the inner bytes alone: give "
                f"to_json({path}), or a struct of its fields",
                key=name,
            )
        try:
            self.form().spec.check(_table(kind))
        except ArgumentError as error:
            raise self._refused(error) from None
        return self

    def _refused(self, error: ArgumentError) -> ConfigError:
        wording = OptionWording(self.column)
        if error.argument == "options":
            return wording.refused(error, "format")
        name = f"{self.column}.{'schema' if error.argument == 'schema' else 'format'}"
        return ConfigError(f"{name}: {wording.reason(error)}", key=name)


_AS_TO_PROTOBUF = {"unsigned.as.signed": "true"}
"""As Spark's `to_protobuf`: signed columns are unsigned numbers of the same bits, as the source has read them."""


def _table(kind: "DataType") -> Any:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    arrow: Any = to_arrow_type(kind, timezone="UTC")
    return pa.table({"value": pa.nulls(0, arrow)})


def _is_url(setting: str) -> bool:
    return setting.replace("_", ".") == "schema.registry.url"


def _is_latest(setting: tuple[str, Any]) -> bool:
    name, value = setting
    return name.replace("_", ".") == "use.latest.version" and str(value).strip().lower() == "true"


def _variant(kind: "DataType", path: str) -> str | None:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if kind.typeName() == "variant":
        return path
    inner: list[tuple[DataType, str]] = []
    if isinstance(kind, StructType):
        inner = [(field.dataType, f"{path}.{field.name}") for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inner = [(kind.elementType, f"{path}[]")]
    elif isinstance(kind, MapType):
        inner = [(kind.keyType, f"{path}{{}}"), (kind.valueType, f"{path}{{}}")]
    return next((found for each, name in inner if (found := _variant(each, name)) is not None), None)


def _number(column: str, given: Mapping[str, str]) -> int | None:
    version, name = given.get("version"), f"{column}.version"
    if version is None:
        return None
    if "schema" in given or "subject" not in given:
        reason = f"is that of {column}.subject, without {column}.schema: a schema is written as it is given"
        raise refused(name, reason)
    return whole_number(name, version, 1, INT_MAX)


def _says(column: str, given: Mapping[str, str], suffix: str) -> bool:
    """Whether an option is given, and not as its default that says no."""
    if suffix == "id.in.header" and suffix in given:
        return boolean(f"{column}.{suffix}", given[suffix])
    return suffix in given


def encoded_columns(options: Mapping[str, str]) -> tuple[EncodedColumn, ...]:
    """The columns that options say how to write."""
    written = []
    for column in ("key", "value"):
        given = columns.given_options(options, column, (*SUFFIXES, *TO_JSON))
        known = columns.take_format(column, given)
        if known == "binary":
            if idle := next((suffix for suffix in SUFFIXES[1:-1] if _says(column, given, suffix)), None):
                raise columns.unfit(column, idle, ", ".join(columns.FORMATS))
            if "flatten" in given and boolean("value.flatten", given["flatten"]):
                raise refused(
                    "value.flatten",
                    "makes values of the columns of the frame, which needs a format: set value.format to "
                    f"{', '.join(columns.FORMATS)}",
                )
            continue
        for suffix in given:
            if known != _FOR.get(suffix, known):
                raise columns.unfit(column, suffix, _FOR[suffix])
        if (framing := given.get("framing", "bare")) not in ("bare", "confluent"):
            expected = "bare or confluent; values are not written in other framings"
            raise bad_value(f"{column}.framing", framing, expected)
        if known != "json" and not {"schema", "subject"} & given.keys():
            name = f"{column}.format"
            raise ConfigError(
                f"{name}={known} needs the schema to write with: {column}.schema, or {column}.subject of "
                "the registry that kafka.schema.registry.url names",
                key=name,
            )
        of_format = {"json": TO_JSON, "avro": columns.OF_AVRO}.get(known, ())
        written.append(
            EncodedColumn(
                column,
                known,
                given.get("schema"),
                given.get("message"),
                given.get("subject"),
                _number(column, given),
                given.get("framing"),
                boolean(f"{column}.id.in.header", given.get("id.in.header", "false")),
                flatten=column == "value" and boolean("value.flatten", given.get("flatten", "false")),
                options=tuple(columns.given_options(options, column, of_format).items()),
                driver_time_zone=columns.time_zone_here(),
            )
        )
    return tuple(written)

"""`Json`, `Avro` and the base of `Protobuf`: keys or values that are decoded into typed columns while they are read."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from os import PathLike
from typing import Any, ClassVar, Literal

from monedula._monedula import ColumnSpec
from monedula.config import RawSettings
from monedula.errors import ArgumentError
from monedula.partitions import topic_names

Mode = Literal["fail", "null", "drop"]
"""What becomes of a record that cannot be decoded."""

Framing = Literal["bare", "confluent", "single_object"]
"""What stands before an Avro value and names the schema that it was written with."""

CORRUPT_RECORD = "_corrupt_record"
"""The field that gets the text of a bad value, as in Spark."""


_MODES_OF_SPARK = {"PERMISSIVE": "null", "DROPMALFORMED": "drop", "FAILFAST": "fail"}


class Typed:
    """How keys or values are decoded: the base of `Json`, `Avro` and `Protobuf`."""

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    _given: Any
    _arguments: dict[str, Any]
    spec: ColumnSpec

    @property
    def flatten(self) -> bool:
        """Whether the fields are columns of their own."""
        flatten: bool = self._arguments["flatten"]
        return flatten

    @property
    def drops(self) -> bool:
        """Whether records that cannot be decoded are left out."""
        return bool(self._arguments["mode"] == "drop")

    @property
    def dead_letter(self) -> str | None:
        """The topic of records that cannot be decoded, or `None`."""
        topic: str | None = self._arguments["dead_letter"]
        return topic

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._given, self._arguments)

    def __repr__(self) -> str:
        given = [
            f"{name}={value!r}" for name, value in self._arguments.items() if value != self._DEFAULTS.get(name, value)
        ]
        return f"{type(self).__name__}({', '.join([*self.spec.fields, *given])})"


def _restored(kind: type[Any], given: Any, arguments: dict[str, Any]) -> Typed:
    restored: Typed = kind(given, **arguments)
    return restored


def _behaviour(mode: object, dead_letter: str | None) -> str:
    """What becomes of records that cannot be decoded, as the core has it."""
    if mode not in ("fail", "null", "drop"):
        here = _MODES_OF_SPARK.get(str(mode).upper())
        also = "" if here is None else f"; Spark's {str(mode).upper()} is {here!r}"
        raise ArgumentError(f"mode={mode!r}: expected 'fail', 'null' or 'drop'{also}")
    if dead_letter is None:
        return str(mode)
    if mode != "fail":
        raise ArgumentError(f"mode={mode!r} and dead_letter say two things about bad records; give one of them")
    topic_names([dead_letter], "dead_letter is the name of one topic")
    return "dead_letter"


class Json(Typed):
    """JSON objects, decoded into a struct column: `Consumer(..., value=Json(schema))`; or written of one.

    The values never become Python objects, nor a binary column: fields are decoded from the fetched bytes into Arrow.
    Fields that the schema does not name are skipped. What counts as a value of a type is as in Spark's `from_json`.

    Args:
        schema: the fields, in any form that `monedula.schemas.schema_of` takes: a pyarrow or polars schema, Spark's
            DDL such as `"id bigint, user string"`, or a JSON Schema. Types: boolean, int8 to int64, float32, float64,
            decimal128, string, binary, date32, timestamp("us"), struct, list, and map with string keys. Every field is
            nullable, since any may be missing. Without pyarrow, an object with `__arrow_c_schema__`. It may be left out
            for writing: the fields are then those of the table.
        mode: what becomes of a record that cannot be decoded. `"fail"` raises `DecodeError`, and the position stays at
            the record. `"null"` keeps it: bad fields are null, and a field named `corrupt_record` in the schema, of
            type string, has the whole text. `"drop"` leaves it out; `metrics()` counts those in `records_dropped`.
        dead_letter: in place of a mode, the topic to which such records are written, with their bytes, headers and
            timestamp, and headers that say where they are from and why (`__dlq.errors.*`, KIP-1191). A batch is
            returned once the brokers have acknowledged them, so no offset is committed before.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        corrupt_record: the field for the text of bad values; only with `mode="null"`.
        options: options of Spark's `from_json` and `to_json` by their names, such as
            `{"timestampFormat": "dd.MM.yyyy HH:mm"}`, or `{"ignoreNullFields": False}` for writing, and
            `{"envelope": "debezium"}`, which takes the row out of Debezium's envelope.

    Raises:
        ArgumentError: if the schema has a type that no value is decoded to, an option is not supported, or arguments
            contradict each other.

    Examples:
        >>> Json("id bigint, user string", mode="drop")
        Json(id: int64, user: string, mode='drop')
    """

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "mode": "fail",
        "dead_letter": None,
        "flatten": False,
        "corrupt_record": CORRUPT_RECORD,
        "options": {},
    }

    def __init__(
        self,
        schema: Any = None,
        *,
        mode: Mode = "fail",
        dead_letter: str | None = None,
        flatten: bool = False,
        corrupt_record: str = CORRUPT_RECORD,
        options: Mapping[str, str | bool] | None = None,
    ) -> None:
        behaviour = _behaviour(mode, dead_letter)
        if corrupt_record != CORRUPT_RECORD and mode != "null":
            raise ArgumentError("corrupt_record is for mode='null': in other modes no row has a bad value")
        if schema is not None:
            schema = _arrow(schema)
            _check_fields(schema, mode, corrupt_record)
        texts = {name: _option(name, value) for name, value in (options or {}).items()}
        self._arguments: dict[str, Any] = {
            "mode": mode,
            "dead_letter": dead_letter,
            "flatten": flatten,
            "corrupt_record": corrupt_record,
            "options": texts,
        }
        self._given = schema
        self.spec = ColumnSpec.json(schema, behaviour, flatten, corrupt_record, list(texts.items()))


class Avro(Typed):
    """Avro values, decoded into a column: `Consumer(..., value=Avro(schema))`.

    As with `Json`, there is neither a Python object for a value nor a binary column. Every value is read by the schema
    that it was written with, and becomes what the reader's schema asks for: fields that the reader's lacks are skipped,
    those that the writer's lacks have their defaults, and aliases and numbers are resolved as in Avro's specification.
    A schema is its JSON text, or that text as `json.loads` returns it.

    With Confluent's framing, and `schema.registry.url` in the settings of the consumer or read, the schemas of values
    are asked for there by the ids that values name, in the background: a partition waits for an unknown one, and the
    others go on. Where the registry fails, `SchemaRegistryError` is raised, and a poll a second later asks again.

    Types are those of Spark's `from_avro`: a union with null is the other type, int with long is long, float with
    double is double, and other unions are structs with the fields `member0`, `member1` and so on, of which one is not
    null. An enum is a string, a fixed is binary. A schema that is no record is a column of its own type, as for keys.

    Args:
        schema: the reader's schema. Without it, that of `writer`, or of `schemas` the one with the highest id, or the
            last if they have no ids. One of them, or `subject`, is needed where a registry is asked, too.
        writer: the schema that all values were written with, if it is not `schema`; only for `framing="bare"`.
        schemas: the schemas that values were written with: for Confluent's framing by their ids or GUIDs in a registry,
            as `{7: schema, "89791762-2336-4186-9674-299b90a802e2": schema}`; for single-object encoding a list, since
            their fingerprints say which is meant.
        framing: what stands before a value: `"bare"` is nothing, `"confluent"` a zero byte and the schema's id, or a
            one and its GUID, there or in the header `__value_schema_id` or `__key_schema_id`; `"single_object"` is
            `C3 01` and the schema's fingerprint. Default confluent if `schemas` has ids, or if there is neither
            `schemas` nor `writer` and the client's settings have `schema.registry.url`; single-object if `schemas` is
            a list; else bare.
        mode: what becomes of a record that cannot be decoded, as of one with an unknown id. `"fail"` raises
            `DecodeError`, and the position stays at the record. `"null"` keeps it with nulls in all fields. `"drop"`
            leaves it out; `metrics()` counts those in `records_dropped`.
        dead_letter: in place of a mode, the topic to which such records are written, as with `Json`.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        options: options of Spark's `from_avro` by their names: `recursiveFieldMaxDepth`,
            `enableStableIdentifiersForUnionType`, `stableIdentifierPrefixForUnionType`.
        subject: a subject of the registry, such as `"orders-value"`, in place of `schema`: the reader's schema is its
            latest version, or `version`. It is asked for once, when the consumer or read is made, and stays as long as
            that lives. Of a subject in a context, `":.context:orders-value"`, the ids of values are those of the
            context; beside `schema` this is all that it says.
        version: the number of a version of `subject`.
        references: the schemas that `schema` refers to by name, each behind those that it refers to itself.

    Raises:
        ArgumentError: if a schema cannot be read, a writer's schema cannot be read by the reader's, or arguments
            contradict each other.

    Examples:
        >>> Avro('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
        Avro(id: int64)
    """

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "framing": None,
        "mode": "fail",
        "dead_letter": None,
        "flatten": False,
        "options": {},
        "subject": None,
        "version": None,
        "references": (),
    }

    def __init__(
        self,
        schema: Any = None,
        *,
        writer: Any = None,
        schemas: Mapping[int, Any] | Mapping[str, Any] | Mapping[int | str, Any] | Sequence[Any] | None = None,
        framing: Framing | None = None,
        mode: Mode = "fail",
        dead_letter: str | None = None,
        flatten: bool = False,
        options: Mapping[str, str | bool | int] | None = None,
        subject: str | None = None,
        version: int | None = None,
        references: Sequence[Any] = (),
    ) -> None:
        behaviour = _behaviour(mode, dead_letter)
        texts = {
            name: str(value) if type(value) is int else _option(name, value) for name, value in (options or {}).items()
        }
        if subject is not None or version is not None:
            framing = _of_subject(subject, version, schema, writer, schemas, framing)
        given_framing = framing
        framing, writers = _writers(writer, schemas, framing)
        # A registry knows schemas by what Confluent's framing names them by.
        may_ask = framing == "confluent" or (given_framing is None and writer is None and schemas is None)
        beside = [_schema_text(f"references[{index}]", each) for index, each in enumerate(references)]
        self._arguments: dict[str, Any] = {
            "writer": writer,
            "schemas": schemas,
            "framing": given_framing if framing == "bare" else framing,
            "mode": mode,
            "dead_letter": dead_letter,
            "flatten": flatten,
            "options": texts,
            "subject": subject,
            "version": version,
            "references": tuple(beside),
        }
        self._given = None
        self._is_of_registry = schema is None and subject is not None
        if self._is_of_registry:
            return
        if schema is None:
            if not writers:
                raise ArgumentError(
                    "schema: give the reader's schema, those of the writers, or subject= of a registry. The types of "
                    "the columns must be known before the first record is read, also where a registry is asked for the "
                    "writers' schemas"
                )
            numbered = [each for each in writers if each[1] is None]
            schema = max(numbered, key=lambda each: each[0])[2] if numbered else writers[-1][2]
        reader = _schema_text("schema", schema)
        if framing == "single_object" or (framing == "bare" and not writers):
            writers = [*writers, (0, None, reader)]
        self._given = reader
        self.spec = ColumnSpec.avro(
            reader, writers, framing, behaviour, flatten, list(texts.items()), may_ask, beside, subject
        )

    @property
    def is_of_registry(self) -> bool:
        """Whether the reader's schema is still to be asked for."""
        return self._is_of_registry

    @property
    def reader(self) -> str:
        """The text of the reader's schema."""
        text: str = self._given
        return text

    @property
    def references(self) -> tuple[str, ...]:
        """The schemas that the reader's refers to."""
        texts: tuple[str, ...] = self._arguments["references"]
        return texts

    def pinned(self, settings: RawSettings) -> "Avro":
        """The same with the schema of its subject, which the registry of the settings is asked for; waits for it.

        Raises:
            ArgumentError: if the settings name no registry, or the schema cannot be read.
            SchemaRegistryError: if the registry does not have it, or cannot be asked.
        """
        if not self._is_of_registry:
            return self
        from monedula.registry import SchemaRegistry

        subject, version = self._arguments["subject"], self._arguments["version"]
        _, _, text, references = SchemaRegistry(settings).core.version(subject, version)
        return Avro(text, **{**self._arguments, "version": None, "references": references})

    def __repr__(self) -> str:
        if not self._is_of_registry:
            return super().__repr__()
        given = [f"{name}={value!r}" for name, value in self._arguments.items() if value != self._DEFAULTS.get(name)]
        return f"Avro({', '.join(given)})"


def pinned(settings: RawSettings, given: Typed | None) -> Typed | None:
    """How keys or values are decoded, with the schema of its subject if it names one."""
    return given.pinned(settings) if isinstance(given, Avro) else given


def _of_subject(
    subject: object, version: object, schema: object, writer: object, schemas: object, framing: Framing | None
) -> Framing:
    """The framing of what a registry knows, after a check of what is said beside it."""
    if not isinstance(subject, str) or not subject.strip():
        said = "version is that of a subject: give subject=" if subject is None else f"subject={subject!r}"
        raise ArgumentError(f"{said}; expected the name of a subject, such as 'orders-value'")
    if version is not None and (type(version) is not int or not 1 <= version < 1 << 31):
        raise ArgumentError(f"version={version!r}: expected the number of a version; the latest if it is left out")
    if version is not None and schema is not None:
        raise ArgumentError("schema and version say two things about the reader's schema; give one of them")
    if framing not in (None, "confluent") or writer is not None or isinstance(schemas, list | tuple):
        raise ArgumentError("subject is for framing='confluent', the values of which name their schema by its id")
    return "confluent"


_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_Writer = tuple[int, bytes | None, str]
"""A writer's schema: its id or position, its GUID if it is named by that, and its text."""


def _writers(writer: Any, schemas: Any, framing: object) -> tuple[Framing, list[_Writer]]:
    """The framing, and the schemas of the writers."""
    if framing not in (None, "bare", "confluent", "single_object"):
        raise ArgumentError(f"framing={framing!r}: expected 'bare', 'confluent' or 'single_object'")
    if isinstance(schemas, Mapping):
        if framing not in (None, "confluent"):
            raise ArgumentError(f"framing={framing!r}: schemas by id are for framing='confluent'")
        if writer is not None:
            raise ArgumentError(
                "writer and schemas say two things about what values were written with; give one of them"
            )
        if not schemas:
            raise ArgumentError("schemas is empty: no value could be decoded")
        return "confluent", [(*_key(key), _schema_text(f"schemas[{key!r}]", each)) for key, each in schemas.items()]
    if schemas is None:
        if framing == "confluent" and writer is not None:
            raise ArgumentError("framing='confluent': values name their schema by its id; leave writer out")
        return framing or "bare", [] if writer is None else [(0, None, _schema_text("writer", writer))]
    if isinstance(schemas, str) or not isinstance(schemas, Sequence):
        raise ArgumentError("schemas: expected {id: schema}, or a list of schemas for framing='single_object'")
    if framing == "bare":
        raise ArgumentError("framing='bare': values of several schemas do not say which they are of; give writer=")
    if writer is not None:
        raise ArgumentError("writer and schemas say two things about what values were written with; give one of them")
    return "single_object", [
        (number, None, _schema_text(f"schemas[{number}]", each)) for number, each in enumerate(schemas)
    ]


def _key(key: object) -> tuple[int, bytes | None]:
    """What a registry knows a schema by: its id, or its GUID."""
    if type(key) is int and 0 <= key < 1 << 32:
        return key, None
    if isinstance(key, str) and "-" in key:
        from uuid import UUID

        with suppress(ValueError):
            return 0, UUID(key).bytes
    raise ArgumentError(f"schemas: {key!r} is neither the id of a schema, a number of 32 bits, nor a GUID")


def _schema_text(name: str, schema: Any) -> str:
    if isinstance(schema, str):
        if not schema.lstrip().startswith(("{", "[", '"')) and schema.strip() not in _PRIMITIVES:
            file = "; that of a file is Path(...).read_text()"
            raise ArgumentError(f"{name}: is not JSON, as Avro schemas are, but {schema[:60]!r}{file}")
        return schema
    if isinstance(schema, dict | list):
        import json

        if isinstance(schema, dict) and "type" not in schema and isinstance(schema.get("schema"), str):
            raise ArgumentError(f"{name}: is what a registry answers; give the text in its 'schema'")
        try:
            return json.dumps(schema)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{name}: is not JSON: {error}") from None
    kind, hint = f"{type(schema).__module__}.{type(schema).__name__}".removeprefix("builtins."), ""
    if isinstance(schema, bytes):
        hint = "; decode() makes text of it"
    elif isinstance(schema, PathLike):
        hint = "; its read_text() is the schema's text"
    elif isinstance(getattr(schema, "schema_str", None), str):
        hint = "; its schema_str is the schema's text"
    raise ArgumentError(f"{name}: expected an Avro schema as text, dict or list, and not {kind}{hint}")


def _check_fields(schema: Any, mode: Mode, corrupt_record: str) -> None:
    """Refuse a schema without fields, and one whose field for the text of bad values cannot have it.

    A schema of another library, which is there where pyarrow is not, is left to the core.
    """
    if not hasattr(schema, "names"):
        return
    if not schema.names:
        raise ArgumentError("schema: there is no field in it; without value=Json(...) values are bytes")
    if mode != "null":
        return
    if corrupt_record not in schema.names:
        if corrupt_record != CORRUPT_RECORD:
            raise ArgumentError(
                f"corrupt_record={corrupt_record!r}: the schema has no such field; add it, of type string"
            )
    elif (kind := str(schema.field(corrupt_record).type)) != "string":
        raise ArgumentError(f"schema: field {corrupt_record}: the text of bad values is a string, not {kind}")


def _arrow(schema: Any) -> Any:
    """The schema as an object with `__arrow_c_schema__`. Without pyarrow only such an object will do."""
    if find_spec("pyarrow") is not None:
        from monedula.schemas import schema_of

        return schema_of(schema)
    if hasattr(schema, "__arrow_c_schema__"):
        return schema
    kind = type(schema).__name__
    raise ArgumentError(
        f"schema: without pyarrow (pip install 'monedula[arrow]') it must have __arrow_c_schema__, which {kind} has not"
    )


def _option(name: str, value: object) -> str:
    if name.lower() in ("mode", "columnnameofcorruptrecord"):
        argument = "mode=" if name.lower() == "mode" else "corrupt_record= of Json"
        raise ArgumentError(f"options: {name} is an argument of its own, {argument}")
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise ArgumentError(f"options: {name}={value!r}: expected a text, True or False")
    return value


def check_columns(columns: Sequence[str] | None, key: object, value: object) -> None:
    """Refuse fields of keys and values among the columns of Kafka, with what to write.

    Raises:
        ArgumentError: if there is one.
    """
    for name, given in (("key", key), ("value", value)):
        if isinstance(given, Typed) and columns is not None:
            fields = {field.partition(": ")[0] for field in given.spec.fields}
            for column in columns:
                field = column.removeprefix(f"{name}.")
                if column not in _COLUMNS and field in fields:
                    raise ArgumentError(
                        f"columns: {column!r} is a field of {name}: the column {name!r} brings all fields of its "
                        f"schema. Give {type(given).__name__}(...) a schema of the fields that you want, and "
                        f"columns=[{name!r}, ...]"
                    )


_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _hint(given: object) -> str:
    """What else to say if it is a function, as other clients take, or no decoder at all."""
    if callable(given) and not (isinstance(given, type) and issubclass(given, Typed)):
        return "; a function would be called for each record: decode the column of bytes with it"
    return ""


def spec_of(name: str, given: object) -> ColumnSpec | None:
    """The core's form of `key=` or `value=`.

    Raises:
        ArgumentError: if it is neither `None` nor a `Typed`, or the fields of keys are to be flattened.
    """
    if given is None:
        return None
    if not isinstance(given, Typed):
        raise ArgumentError(
            f"{name}={_short(given)}: expected monedula.Json(schema), Avro(schema), Protobuf(schema), or nothing for "
            f"bytes{_hint(given)}"
        )
    if isinstance(given, Avro) and given.is_of_registry:
        # Consumers and reads have asked for it.
        raise ArgumentError(
            f"{name}={given!r}: rows are written with a schema that is given, Avro(schema, subject=...); that of a "
            "subject is monedula.SchemaRegistry(settings).get(subject).schema, and with use.latest.version=true the "
            "newest is written in place of the given one"
        )
    if name == "key" and given.flatten:
        raise ArgumentError(
            f"key={type(given).__name__}(flatten=True): only the fields of values can be columns of their own"
        )
    return given.spec

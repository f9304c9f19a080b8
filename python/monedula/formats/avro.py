"""`Avro`: keys or values of Avro that are decoded into typed columns while they are read."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Self, get_args

from monedula._arguments import truth
from monedula._monedula import ColumnSpec
from monedula.errors import ArgumentError
from monedula.formats._typed import (
    Mode,
    Typed,
    behaviour_of,
    check_id_in_header,
    check_subject,
    framing_of_subject,
    is_of_topic,
    option_texts,
    schema_key,
)

Framing = Literal["bare", "confluent", "single_object", "apicurio", "glue"]
"""Framing of Avro values: bytes before a value, or a header, that name the writer's schema."""


class Avro(Typed):
    """Avro values, decoded into a column: `Consumer(..., value=Avro(schema))`.

    Values become neither Python objects nor a binary column, as with `Json`. Every value is decoded by the schema that
    it was written with, and resolved to the reader's schema as in Avro's specification: fields that the reader's lacks
    are skipped, fields that the writer's lacks get their defaults, and aliases and promotions of numbers apply. A
    schema is its JSON text, or that text as `json.loads` returns it.

    Values in Confluent's framing name their schema by an id. If the settings of the consumer or read have
    `schema.registry.url`, unknown schemas are requested there in the background: their partition waits, and the others
    continue. If the registry fails, `SchemaRegistryError` is raised, and a poll a second later tries again.

    Types are those of Spark's `from_avro`: a union with null is the other type, int with long is long, float with
    double is double, and other unions are structs with the fields `member0`, `member1` and so on, of which one is not
    null. An enum is a string, a fixed is binary. A schema that is no record is a column of its own type, as for keys.

    Args:
        schema: the reader's schema. By default `writer`, or from `schemas` the one with the highest id, or the last if
            they have no ids. Without any of these and `subject`, it is that of the topic's subject, as
            `subject="orders-value"` for values of the topic `orders`.
        writer: the schema that all values were written with, if it is not `schema`; only for `framing="bare"`.
        schemas: the schemas that values were written with: for Confluent's framing by their ids or GUIDs in a registry,
            as `{7: schema, "89791762-2336-4186-9674-299b90a802e2": schema}`; for single-object encoding a list, since
            values name them by fingerprint.
        framing: how a value names its schema: `"bare"` not at all; `"confluent"` by a zero byte and the schema's id, or
            a one and its GUID, before the value or in the header `__value_schema_id` or `__key_schema_id`;
            `"single_object"` by `C3 01` and the schema's fingerprint; `"apicurio"` by a zero byte and an id of four or
            eight bytes, or by an id in the header `apicurio.value.contentId` or `apicurio.value.globalId`; `"glue"` as
            AWS Glue's serializers do, by the UUID of the schema's version, compressed or not. Default confluent if
            `schemas` has ids, or if there is neither `schemas` nor `writer` and the client's settings have
            `schema.registry.url`; single-object if `schemas` is a list; else bare.
        mode: treatment of records that cannot be decoded, such as those with an unknown id. `"fail"` raises
            `DecodeError`, and the position stays at the record. `"null"` keeps the record with nulls in all fields.
            `"drop"` leaves it out; `metrics()` counts such records in `records_dropped`.
        dead_letter: the topic to which such records are written, in place of a mode, as with `Json`.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        options: options of Spark's `from_avro` by their names: `recursiveFieldMaxDepth`,
            `enableStableIdentifiersForUnionType`, `stableIdentifierPrefixForUnionType`.
        subject: a subject of the registry, such as `"orders-value"`, in place of `schema`: the reader's schema is its
            latest version, or `version`. It is requested once, when the consumer or read is made, and kept as long as
            that exists. With a subject in a context, `":.context:orders-value"`, the ids of values belong to that
            context; together with `schema`, the subject only names the context.
        version: the number of a version of `subject`.
        references: the schemas that `schema` refers to by name, each after those that it refers to itself.
        id_in_header: for writing: whether the schema is named by its GUID in the header `__value_schema_id` or
            `__key_schema_id`, as by Confluent's `HeaderSchemaIdSerializer`, and not by its id before the value. The
            values are bare then. Readers find the GUID there by themselves.

    Raises:
        ArgumentError: if a schema cannot be read, a writer's schema cannot be read by the reader's, or arguments
            contradict each other.

    Examples:
        >>> Avro('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
        Avro(id: int64)
    """

    _KIND = "AVRO"

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
        id_in_header: bool = False,
    ) -> None:
        behaviour = behaviour_of(mode, dead_letter)
        check_id_in_header(id_in_header, framing)
        texts = option_texts(options)
        if subject is not None or version is not None:
            check_subject(subject, version, schema)
            framing = _of_registry(writer, schemas, framing)
        of_topic = is_of_topic(framing, schema, subject, writer, schemas)
        if of_topic:
            framing = framing_of_subject(framing)
        given_framing = framing
        framing, writers = _writers(writer, schemas, framing)
        # Ask a registry for Confluent's framing, and for Apicurio's, whose registry has the same API.
        may_ask = framing in ("confluent", "apicurio") or (given_framing is None and writer is None and schemas is None)
        if not isinstance(references, Iterable) or isinstance(references, str | Mapping):
            raise ArgumentError.of("references", references, "expected a list of schemas")
        beside = [_schema_text(f"references[{index}]", each) for index, each in enumerate(references)]
        self._arguments: dict[str, Any] = {
            "writer": writer,
            "schemas": schemas,
            "framing": given_framing if framing == "bare" else framing,
            "mode": mode,
            "dead_letter": dead_letter,
            "flatten": truth("flatten", flatten),
            "options": texts,
            "subject": subject,
            "version": version,
            "references": tuple(beside),
            "id_in_header": id_in_header,
        }
        self._given = None
        self._is_of_registry = of_topic or (schema is None and subject is not None)
        if self._is_of_registry:
            return
        if schema is None:
            if not writers:
                raise ArgumentError(
                    "give the reader's schema, those of the writers, or subject= of a registry. The types of "
                    "the columns must be known before the first record is read, also where a registry is asked for the "
                    "writers' schemas",
                    argument="schema",
                )
            numbered = [each for each in writers if each[1] is None]
            schema = max(numbered, key=lambda each: each[0])[2] if numbered else writers[-1][2]
        reader = _schema_text("schema", schema)
        if framing == "single_object" or (framing == "bare" and not writers):
            writers = [*writers, (0, None, reader)]
        self._given = reader
        spec = ColumnSpec.avro(
            reader, writers, framing, behaviour, self.flatten, list(texts.items()), may_ask, beside, subject
        )
        self.spec = self._written_in_header(spec)

    @property
    def reader(self) -> str:
        """Text of the reader's schema."""
        text: str = self._given
        return text

    @property
    def references(self) -> tuple[str, ...]:
        """Schemas that the reader's schema refers to."""
        texts: tuple[str, ...] = self._arguments["references"]
        return texts

    def _with_schema(self, text: str, references: list[tuple[str, str]], number: int | None = None) -> Self:
        given = {**self._arguments, "version": None, "references": [each for _, each in references]}
        if number is not None:
            given["schemas"] = {number: text}
        return type(self)(text, **given)


def _of_registry(writer: object, schemas: object, framing: Framing | None) -> Framing:
    """Return the framing of values from a registry, after a check that the other arguments do not contradict it."""
    for name, given in ("writer", writer), ("schemas", schemas if isinstance(schemas, list | tuple) else None):
        if given is not None:
            raise ArgumentError("a registry has the schemas that values of a subject were written with", argument=name)
    return framing_of_subject(framing)


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
"""Schemas that are one word, and not JSON."""

_Writer = tuple[int, bytes | None, str]
"""Writer's schema: its id or position, its GUID if it is named by that, and its text."""


def _writers(writer: Any, schemas: Any, framing: Framing | None) -> tuple[Framing, list[_Writer]]:
    if framing not in (None, *get_args(Framing)):
        raise ArgumentError.of(
            "framing", framing, "expected 'bare', 'confluent', 'single_object', 'apicurio' or 'glue'"
        )
    if framing == "glue" and not isinstance(schemas, Mapping):
        raise ArgumentError.of(
            "framing",
            framing,
            "AWS Glue's own API is not asked",
            "give `schemas={UUID of a version: schema}`, as the console or aws glue get-schema-version has it",
        )
    if isinstance(schemas, Mapping):
        if framing in ("bare", "single_object"):
            raise ArgumentError.of(
                "framing", framing, "values have no ids", "schemas by id are for `framing='confluent'`"
            )
        if writer is not None:
            raise ArgumentError(
                "writer and schemas say two things about what values were written with; give one of them"
            )
        if not schemas:
            raise ArgumentError("there are none: no value could be decoded", argument="schemas", value="{}")
        framing = framing or "confluent"
        return framing, [
            (*schema_key(key, framing), _schema_text(f"schemas[{key!r}]", each)) for key, each in schemas.items()
        ]
    if schemas is None:
        if framing in ("confluent", "apicurio") and writer is not None:
            raise ArgumentError.of("framing", framing, "values name their schema by its id", "leave writer out")
        return framing or "bare", [] if writer is None else [(0, None, _schema_text("writer", writer))]
    if isinstance(schemas, str) or not isinstance(schemas, Sequence):
        raise ArgumentError(
            f"a {type(schemas).__name__} has no schemas by ids",
            argument="schemas",
            hint="expected {id: schema}, or a list of schemas for `framing='single_object'`",
        )
    if framing == "bare":
        raise ArgumentError.of(
            "framing", framing, "values of several schemas do not say which they are of", "give writer="
        )
    if framing not in (None, "single_object"):
        raise ArgumentError.of(
            "framing", framing, "the schemas have no ids", "a list of schemas is for `framing='single_object'`"
        )
    if writer is not None:
        raise ArgumentError("writer and schemas say two things about what values were written with; give one of them")
    return "single_object", [
        (number, None, _schema_text(f"schemas[{number}]", each)) for number, each in enumerate(schemas)
    ]


def _schema_text(name: str, schema: Any) -> str:
    if isinstance(schema, str):
        if not schema.lstrip().startswith(("{", "[", '"')) and schema.strip() not in PRIMITIVES:
            reason = f"is not JSON, as Avro schemas are, but {schema[:60]!r}"
            raise ArgumentError(reason, argument=name, hint="`that of a file is Path(...).read_text()`")
        return schema
    if isinstance(schema, dict | list):
        import json

        if isinstance(schema, dict) and "type" not in schema and isinstance(schema.get("schema"), str):
            raise ArgumentError("is what a registry answers", argument=name, hint="give the text in its 'schema'")
        try:
            return json.dumps(schema)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"is not JSON: {error}", argument=name) from None
    kind, hint = f"{type(schema).__module__}.{type(schema).__name__}".removeprefix("builtins."), None
    if isinstance(schema, bytes):
        hint = "decode() makes text of it"
    elif isinstance(schema, PathLike):
        hint = "its read_text() is the schema's text"
    elif isinstance(getattr(schema, "schema_str", None), str):
        hint = "its schema_str is the schema's text"
    raise ArgumentError(f"expected an Avro schema as text, dict or list, and not {kind}", argument=name, hint=hint)

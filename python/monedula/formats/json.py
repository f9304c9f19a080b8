"""`Json`: keys or values of JSON as typed columns."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, Self

from monedula._arguments import truth
from monedula._monedula import ColumnSpec
from monedula.errors import ArgumentError
from monedula.formats._typed import (
    Mode,
    RegistryFraming,
    Typed,
    behaviour_of,
    check_framing,
    check_id_in_header,
    check_subject,
    framing_of_subject,
    option_pairs,
    option_text,
)

CORRUPT_RECORD = "_corrupt_record"
"""Field for the text of bad values, as in Spark."""


class Json(Typed):
    """JSON objects, decoded into a struct column, `Consumer(..., value=Json(schema))`, or encoded from one.

    Values become neither Python objects nor a binary column: fields are decoded from the fetched bytes into Arrow.
    Fields that the schema does not name are skipped. Values are parsed by the rules of Spark's `from_json`.

    Args:
        schema: the fields, in any form that `monedula.formats.schemas.schema_of` takes: a pyarrow or polars schema,
            Spark's DDL such as `"id bigint, user string"`, or a JSON Schema. Types: boolean, int8 to int64, float32,
            float64, decimal128, string, binary, date32, timestamp("us"), struct, list, and map with string keys. Every
            field is nullable, since any may be missing. Without pyarrow, an object with `__arrow_c_schema__`. If it is
            left out, for writing, the fields are the table's.
        mode: treatment of records that cannot be decoded. `"fail"` raises `DecodeError`, and the position stays at the
            record. `"null"` keeps the record: bad fields are null, and a string field named `corrupt_record` in the
            schema has the whole text. `"drop"` leaves it out; `metrics()` counts such records in `records_dropped`.
        dead_letter: the topic to which such records are written, in place of a mode, with their bytes, headers and
            timestamp, and headers for their origin and error (`__dlq.errors.*`, KIP-1191). A batch is returned once the
            brokers have acknowledged them, so no offset is committed before.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        corrupt_record: the field for the text of bad values; only with `mode="null"`.
        framing: how a value names its schema: `"bare"`, the default, not at all; `"confluent"` by a zero byte and the
            schema's id in a registry, or a one and its GUID, before the value or in the header `__value_schema_id` or
            `__key_schema_id`; `"apicurio"` and `"glue"` as Apicurio's and AWS Glue's serializers do, see `Avro`. For
            reading, any id is accepted, and no registry is needed. For writing, only Confluent's is supported, with
            `schema.registry.url`: the JSON Schema is registered there, `schema` if it is one, else that of the fields.
        subject: a subject of the registry, such as `"orders-value"`, in place of `schema`: the fields are those of its
            latest version, or of `version`, as with `Avro`. Together with `schema`, it is where that is registered.
        version: the number of a version of `subject`.
        options: options of Spark's `from_json` and `to_json` by their names, such as `{"timestampFormat": "dd.MM.yyyy
            HH:mm"}`, or `{"ignoreNullFields": False}` for writing, and `{"envelope": "debezium"}`, which extracts the
            row from Debezium's envelope.
        id_in_header: for writing: whether the schema is named by its GUID in the header `__value_schema_id` or
            `__key_schema_id`, as by Confluent's `HeaderSchemaIdSerializer`, and not by its id before the value. The
            values are bare then. Readers find the GUID there by themselves.

    Raises:
        ArgumentError: if the schema has a type that is not supported, an option is not supported, or arguments
            contradict each other.

    Examples:
        >>> Json("id bigint, user string", mode="drop")
        Json(id: int64, user: string, mode='drop')
    """

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {**Typed._DEFAULTS, "corrupt_record": CORRUPT_RECORD}
    _KIND = "JSON"

    def __init__(
        self,
        schema: Any = None,
        *,
        mode: Mode = "fail",
        dead_letter: str | None = None,
        flatten: bool = False,
        corrupt_record: str = CORRUPT_RECORD,
        framing: RegistryFraming | None = None,
        subject: str | None = None,
        version: int | None = None,
        options: Mapping[str, str | bool] | None = None,
        id_in_header: bool = False,
    ) -> None:
        behaviour = behaviour_of(mode, dead_letter)
        check_framing(framing)
        if check_id_in_header(id_in_header, framing):
            framing = "confluent"
        if subject is not None or version is not None:
            check_subject(subject, version, schema)
            framing = framing_of_subject(framing)
        if corrupt_record != CORRUPT_RECORD and mode != "null":
            raise ArgumentError.of(
                "corrupt_record", corrupt_record, "it is for mode='null': in other modes no row has a bad value"
            )
        texts = {name: option_text(name, value) for name, value in option_pairs(options)}
        self._arguments: dict[str, Any] = {
            "mode": mode,
            "dead_letter": dead_letter,
            "flatten": truth("flatten", flatten),
            "corrupt_record": corrupt_record,
            "framing": framing,
            "subject": subject,
            "version": version,
            "options": texts,
            "id_in_header": id_in_header,
        }
        self._given = None
        self._is_of_registry = schema is None and subject is not None
        if self._is_of_registry:
            return
        registered: dict[str, str | None] = {"text": None, "title": None, "subject": subject}
        if schema is not None:
            document = _json_schema(schema) if framing == "confluent" else None
            schema = self._given = _arrow(schema)
            _check_fields(schema, mode, corrupt_record)
            if document is not None:
                import json

                text = self._given = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
                registered |= {"text": text, "title": document.get("title")}
        spec = ColumnSpec.json(
            schema, behaviour, self.flatten, corrupt_record, list(texts.items()), framing or "bare", registered
        )
        self.spec = self._written_in_header(spec)

    def of_id(self, number: int) -> Self:
        """Return a copy that writes its schema under the id `number`, without requests to the registry."""
        made = type(self)(self._given, **{**self._arguments, "version": None})
        made.spec = made.spec.with_id(number)
        return made

    def _with_schema(self, text: str, references: list[tuple[str, str]], number: int | None = None) -> Self:
        document = _document(text, references)
        made = type(self)(document, **{**self._arguments, "version": None})
        if number is not None:
            made.spec = made.spec.with_id(number)
        return made


def _document(text: str, references: list[tuple[str, str]]) -> Any:
    """Combine a registry's JSON Schema with the schemas that it refers to."""
    import json

    from monedula.formats.schemas.json_schema import bundled

    try:
        return bundled(json.loads(text), {name: json.loads(each) for name, each in references})
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"the registry's is no JSON: {error}", argument="schema") from None


def registered_columns(text: str, references: list[tuple[str, str]]) -> Any:
    """Return the columns of a registry's JSON Schema: the core writes rows with a subject's latest version."""
    return _arrow(_document(text, references))


def _json_schema(schema: Any) -> dict[str, Any] | None:
    from monedula.formats.schemas.sources import document_of

    return document_of(schema)


def _check_fields(schema: Any, mode: Mode, corrupt_record: str) -> None:
    """Refuse a schema without fields, and one whose field for the text of bad values has another type than string.

    Schemas of other libraries, which may exist without pyarrow, are left to the core.
    """
    if not hasattr(schema, "names"):
        return
    if not schema.names:
        raise ArgumentError("there is no field in it; without value=Json(...) values are bytes", argument="schema")
    if mode != "null":
        return
    if corrupt_record not in schema.names:
        if corrupt_record != CORRUPT_RECORD:
            raise ArgumentError.of(
                "corrupt_record", corrupt_record, "the schema has no such field", "add it, of type string"
            )
    elif (kind := str(schema.field(corrupt_record).type)) != "string":
        raise ArgumentError(
            f"field {corrupt_record}: the text of bad values is a string, not {kind}", argument="schema"
        )


def _arrow(schema: Any) -> Any:
    """Convert the schema to an object with `__arrow_c_schema__`. Without pyarrow, only such an object is accepted."""
    if find_spec("pyarrow") is not None:
        from monedula.formats.schemas import schema_of

        return schema_of(schema)
    if hasattr(schema, "__arrow_c_schema__"):
        return schema
    kind = type(schema).__name__
    raise ArgumentError(
        f"without pyarrow (pip install 'monedula[arrow]') it must have __arrow_c_schema__, which {kind} has not",
        argument="schema",
    )

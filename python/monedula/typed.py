"""`Json`: keys or values that are decoded into typed columns while they are read."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

from monedula._monedula import JsonSpec
from monedula.errors import ArgumentError
from monedula.partitions import topic_names

Mode = Literal["fail", "null", "drop"]
"""What becomes of a record that cannot be decoded."""

CORRUPT_RECORD = "_corrupt_record"
"""The field that gets the text of a bad value, as in Spark."""


class Json:
    """JSON objects, decoded into a struct column: `Consumer(..., value=Json(schema))`.

    The values never become Python objects, nor a binary column: fields are decoded from the fetched bytes into Arrow.
    Fields that the schema does not name are skipped. What counts as a value of a type is as in Spark's `from_json`.

    Args:
        schema: the fields, in any form that `monedula.schemas.schema_of` takes: a pyarrow or polars schema, Spark's
            DDL such as `"id bigint, user string"`, or a JSON Schema. Types: boolean, int8 to int64, float32, float64,
            decimal128, string, binary, date32, timestamp("us"), struct, list, and map with string keys. Every field is
            nullable, since any may be missing. Without pyarrow, an object with `__arrow_c_schema__`.
        mode: what becomes of a record that cannot be decoded. `"fail"` raises `DecodeError`, and the position stays at
            the record. `"null"` keeps it: bad fields are null, and a field named `corrupt_record` in the schema, of
            type string, has the whole text. `"drop"` leaves it out; `metrics()` counts those in `records_dropped`.
        dead_letter: in place of a mode, the topic to which such records are written, with their bytes, headers and
            timestamp, and headers that say where they are from and why (`__dlq.errors.*`, KIP-1191). A batch is
            returned once the brokers have acknowledged them, so no offset is committed before.
        flatten: whether the fields are columns of their own, in place of one struct column; only for `value=`.
        corrupt_record: the field for the text of bad values; only with `mode="null"`.
        options: options of Spark's `from_json` by their names, such as `{"timestampFormat": "dd.MM.yyyy HH:mm"}`, and
            `{"envelope": "debezium"}`, which takes the row out of Debezium's envelope.

    Raises:
        ArgumentError: if the schema has a type that no value is decoded to, an option is not supported, or arguments
            contradict each other.

    Examples:
        >>> Json("id bigint, user string", mode="drop")
        Json(id: int64, user: string, mode='drop')
    """

    def __init__(
        self,
        schema: Any,
        *,
        mode: Mode = "fail",
        dead_letter: str | None = None,
        flatten: bool = False,
        corrupt_record: str = CORRUPT_RECORD,
        options: Mapping[str, str | bool] | None = None,
    ) -> None:
        if mode not in ("fail", "null", "drop"):
            here = _MODES_OF_SPARK.get(str(mode).upper())
            also = "" if here is None else f"; Spark's {str(mode).upper()} is {here!r}"
            raise ArgumentError(f"mode={mode!r}: expected 'fail', 'null' or 'drop'{also}")
        if dead_letter is not None:
            if mode != "fail":
                raise ArgumentError(f"mode={mode!r} and dead_letter say two things about bad records; give one of them")
            topic_names([dead_letter], "dead_letter is the name of one topic")
        if corrupt_record != CORRUPT_RECORD and mode != "null":
            raise ArgumentError("corrupt_record is for mode='null': in other modes no row has a bad value")
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
        self._schema = schema
        behaviour = "dead_letter" if dead_letter else mode
        self.spec = JsonSpec(schema, behaviour, flatten, corrupt_record, list(texts.items()))

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
        return _restored, (self._schema, self._arguments)

    def __repr__(self) -> str:
        defaults: dict[str, Any] = {
            "mode": "fail",
            "dead_letter": None,
            "flatten": False,
            "corrupt_record": CORRUPT_RECORD,
            "options": {},
        }
        given = [f"{name}={value!r}" for name, value in self._arguments.items() if value != defaults[name]]
        return f"Json({', '.join([*self.spec.fields, *given])})"


_MODES_OF_SPARK = {"PERMISSIVE": "null", "DROPMALFORMED": "drop", "FAILFAST": "fail"}


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


def _restored(schema: Any, arguments: dict[str, Any]) -> Json:
    return Json(schema, **arguments)


def _option(name: str, value: object) -> str:
    if name.lower() in ("mode", "columnnameofcorruptrecord"):
        raise ArgumentError(f"options: {name} is an argument of its own, mode= or corrupt_record=")
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
        if isinstance(given, Json) and columns is not None:
            fields = {field.partition(": ")[0] for field in given.spec.fields}
            for column in columns:
                field = column.removeprefix(f"{name}.")
                if column not in _COLUMNS and field in fields:
                    raise ArgumentError(
                        f"columns: {column!r} is a field of {name}: the column {name!r} brings all fields of its "
                        f"schema. Give Json(...) a schema of the fields that you want, and columns=[{name!r}, ...]"
                    )


_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _hint(given: object) -> str:
    """What else to say if it is a function, as other clients take, or no decoder at all."""
    if callable(given) and given is not Json:
        return "; a function would be called for each record: decode the column of bytes with it"
    return ""


def spec_of(name: str, given: object) -> JsonSpec | None:
    """The core's form of `key=` or `value=`.

    Raises:
        ArgumentError: if it is neither `None` nor `Json`, or the fields of keys are to be flattened.
    """
    if given is None:
        return None
    if not isinstance(given, Json):
        raise ArgumentError(
            f"{name}={_short(given)}: expected monedula.Json(schema), or nothing for bytes{_hint(given)}"
        )
    if name == "key" and given.flatten:
        raise ArgumentError("key=Json(flatten=True): only the fields of values can be columns of their own")
    return given.spec

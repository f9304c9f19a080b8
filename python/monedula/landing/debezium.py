"""Rows of Debezium's envelopes: the columns of `after`, or of `before` for a deletion, with `_op` and `_ts_ms`.

Of JSON the core takes the row out of the envelope. Of Avro and Protobuf, and of JSON whose schema is the envelope's,
it is done here, with the columns of the envelope.
"""

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from monedula.errors import ArgumentError
from monedula.formats._typed import Typed
from monedula.formats.json import Json

Unwrap = Literal["debezium"]
"""What values are wrapped in: the envelopes of Debezium."""

OP = "_op"
"""What was done: c, u, d, r for create, update, delete, read by a snapshot; t for truncate, m for a message; null in
tombstones."""
TS_MS = "_ts_ms"
"""When Debezium processed it, in milliseconds since 1970."""

_CORE_NAMES = {"__op": OP, "__ts_ms": TS_MS}
_BEFORE, _AFTER, _OP, _TS_MS = "before", "after", "op", "ts_ms"


def row_decoder(given: Typed | None) -> Typed:
    """The decoder of envelopes for one whose schema is that of the rows, or of the envelopes.

    Raises:
        ArgumentError: if values are not decoded at all.
    """
    if given is None:
        raise ArgumentError.of("unwrap", "debezium", "it is about decoded values", "give `value=monedula.Json(...)`")
    if not isinstance(given, Json) or given._is_of_registry or {_AFTER, _OP} <= set(given.field_names()):
        return given
    from monedula.formats.schemas import schema_of

    schema = schema_of(given._given)
    for name, kind in (("__op", pa.string()), ("__ts_ms", pa.int64())):
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    options = {**given._arguments["options"], "envelope": "debezium"}
    return Json(schema, **{**given._arguments, "options": options})


def row_fields(kind: Any) -> list[Any]:
    """The fields of the rows of decoded values of a type.

    Raises:
        ArgumentError: if these are no envelopes.
    """
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    if "__op" in names:
        return [field.with_name(_CORE_NAMES.get(field.name, field.name)) for field in kind]
    wrapped = {name: kind.field(name).type for name in (_BEFORE, _AFTER, _OP, _TS_MS) if name in names}
    if len(wrapped) < 4 or not pa.types.is_struct(wrapped[_AFTER]) or not pa.types.is_struct(wrapped[_BEFORE]):
        told = ", ".join(names) or str(kind)
        raise ArgumentError.of(
            "unwrap",
            "debezium",
            f"an envelope has the structs before and after, op and ts_ms, and the values have {told}",
            "give the schema of the envelope, or of Json that of the rows",
        )
    return [*wrapped[_AFTER], pa.field(OP, pa.string()), pa.field(TS_MS, pa.int64())]


def row_columns(values: Any) -> dict[str, Any]:
    """The columns of the rows, by the names of `row_fields`."""
    if values.type.get_field_index("__op") >= 0:
        names = [_CORE_NAMES.get(field.name, field.name) for field in values.type]
        return dict(zip(names, values.flatten(), strict=True))
    parts: list[Any] = [pc.struct_field(values, name) for name in (_BEFORE, _AFTER, _OP, _TS_MS)]
    before, after, op, ts_ms = parts
    is_deletion = pc.fill_null(pc.equal(op, pa.scalar("d")), False)
    old = {field.name: column for field, column in zip(before.type, before.flatten(), strict=True)}
    columns = {
        field.name: pc.if_else(is_deletion, old[field.name], column) if field.name in old else column
        for field, column in zip(after.type, after.flatten(), strict=True)
    }
    return {**columns, OP: op, TS_MS: ts_ms}

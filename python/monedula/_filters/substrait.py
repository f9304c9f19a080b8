"""Conditions from pyarrow expressions, which can be parsed only in their Substrait form.

Substrait is a protobuf message. Only the few fields that comparisons have are read, by their numbers in
`substrait/algebra.proto`; everything else becomes a condition that is not understood.
"""

import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from monedula._filters.conditions import (
    And,
    Bytes,
    Condition,
    Constant,
    Not,
    Numbers,
    Or,
    Unknown,
    any_of,
    compared_bytes,
    compared_topic,
    not_null,
)
from monedula._filters.intervals import MIRRORED, compared

_OPERATORS = {"equal": "==", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_LITERALS = {
    1: "bool",
    2: "int",
    3: "int",
    5: "int",
    7: "int",
    10: "f32",
    11: "f64",
    12: "text",
    13: "bytes",
    14: "us",
    27: "us",
}
"""Fields of a literal that hold a value, with its kind. Both kinds of timestamps are microseconds."""
_NULL = 29
_NAIVE = 14

Message = list[tuple[int, Any]]
_NOT_UNDERSTOOD = object()


def of_pyarrow(expression: Any, schema: Any, *, naive_times: bool = True) -> tuple[Condition, set[str] | None]:
    """Convert a pyarrow expression on records of this schema to a condition, and return the columns that it names.

    Times without a zone are in UTC for pyarrow. With `naive_times=False` they are not understood.

    The columns are `None` if pyarrow has no Substrait form of the expression; then no part of it is understood.
    """
    import pyarrow as pa

    text = " ".join(str(expression).split())
    try:
        data = bytes(expression.to_substrait(schema))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if "FieldRef" in str(error):
            raise
        return Unknown(text), None
    message = _decoded(data)
    functions = {}
    for declaration in _all(message, 2):
        function = dict(_decoded(_one(_decoded(declaration), 3) or b""))
        functions[function.get(2, 0)] = function.get(3, b"").decode()
    reader = _Reader(functions, list(schema.names), text, naive_times)
    root = _one(_decoded(_one(message, 3)), 1)
    condition = reader.condition(root)
    reader.name_columns(root)
    return condition, reader.columns


class _Reader:
    def __init__(self, functions: dict[int, str], names: list[str], text: str, naive_times: bool) -> None:
        self._functions = functions
        self._names = names
        self._text = text
        self._kinds = _LITERALS if naive_times else {**_LITERALS, _NAIVE: ""}
        self.columns: set[str] = set()

    def condition(self, data: bytes) -> Condition:
        expression = dict(_decoded(data))
        if 3 in expression:
            return self._function(expression[3])
        if 6 in expression:
            return self._if_then(expression[6])
        if 8 in expression:
            return self._any_of(expression[8])
        value = self._operand(data)
        if value is None or isinstance(value, bool):
            return Constant(value)
        return Unknown(self._text)

    def name_columns(self, data: bytes) -> None:
        for field, value in _decoded(data):
            if field == 2 and isinstance(value, bytes) and (name := self._column(value)) is not None:
                self.columns.add(name)
            elif isinstance(value, bytes) and _is_message(value):
                self.name_columns(value)

    def _function(self, data: bytes) -> Condition:
        call = _decoded(data)
        name = self._functions.get(_one(call, 1) or 0)
        arguments = [_one(_decoded(argument), 3) for argument in _all(call, 4)]
        if any(argument is None for argument in arguments):
            return Unknown(self._text)
        if name in ("and", "or"):
            parts = tuple(self.condition(argument) for argument in arguments)
            return And(parts) if name == "and" else Or(parts)
        if name == "not" and len(arguments) == 1:
            return Not(self.condition(arguments[0]))
        operands = [self._operand(argument) for argument in arguments]
        if name in ("is_null", "is_not_null") and len(operands) == 1 and isinstance(operands[0], tuple):
            if operands[0] == ("key",):
                return not_null("key") if name == "is_not_null" else Bytes("key", "is null")
            # These four columns are never null.
            known = operands[0][0] in ("topic", "partition", "offset", "timestamp")
            return Constant(name == "is_not_null") if known else Unknown(self._text)
        if name in _OPERATORS and len(operands) == 2:
            operator = _OPERATORS[name]
            if isinstance(operands[1], tuple):
                operands.reverse()
                operator = MIRRORED[operator]
            return self._comparison(operator, *operands)
        if name == "starts_with" and len(operands) == 2 and operands[0] == ("topic",):
            prefix, options = operands[1], [_decoded(option) for option in _all(call, 5)]
            if isinstance(prefix, str) and all(_one(option, 2) == b"CASE_SENSITIVE" for option in options):
                return Bytes("topic", "starts with", (prefix.encode(),))
        return Unknown(self._text)

    def _comparison(self, operator: str, column: object, value: object) -> Condition:
        if not isinstance(column, tuple) or isinstance(value, tuple) or value is _NOT_UNDERSTOOD:
            return Unknown(self._text)
        if value is None:
            return Constant(None)
        name = column[0]
        if name == "topic" and isinstance(value, str):
            return compared_topic(operator, value)
        if name == "key" and isinstance(value, bytes):
            return compared_bytes(name, operator, value)
        if name in ("partition", "offset", "timestamp") and isinstance(value, (int, Fraction)):
            return Numbers(name, compared(operator, value))
        return Unknown(self._text)

    def _if_then(self, data: bytes) -> Condition:
        """Match DuckDB's `IN`: `if column is not null then column in (...) else null`; only a key may be null here."""
        message = _decoded(data)
        clauses = _all(message, 1)
        clause = dict(_decoded(clauses[0])) if len(clauses) == 1 else {}
        wanted = self.condition(clause.get(2, b""))
        match self.condition(clause.get(1, b"")), wanted, self.condition(_one(message, 2) or b""):
            case Constant(True), _, _:
                return wanted
            case known, And((first, Bytes("key") as found)), Constant(None) if known == first == not_null("key"):
                return found
        return Unknown(self._text)

    def _any_of(self, data: bytes) -> Condition:
        message = _decoded(data)
        column = self._operand(_one(message, 1) or b"")
        values = [self._operand(option) for option in _all(message, 2)]
        if not isinstance(column, tuple):
            return Unknown(self._text)
        each = [self._comparison("==", column, value) for value in values]
        # Leave nulls to the caller's filter: Substrait does not say how a null among the options, or its negation,
        # matches.
        found = any_of(column[0], [Unknown(self._text) if part == Constant(None) else part for part in each])
        # For pyarrow a null is not in the list, rather than unknown.
        return And((not_null("key"), found)) if column[0] == "key" else found

    def _operand(self, data: bytes) -> Any:
        """Return a column's name in a tuple, a literal's value, or `_NOT_UNDERSTOOD`."""
        expression = dict(_decoded(data))
        if 2 in expression:
            name = self._column(expression[2])
            return _NOT_UNDERSTOOD if name is None else (name,)
        if 1 in expression:
            return _literal(_decoded(expression[1]), self._kinds)
        return _NOT_UNDERSTOOD

    def _column(self, data: bytes) -> str | None:
        """Return the column that a field reference names, directly or as the parent of a nested field."""
        if not _is_message(data):
            return None
        reference = dict(_decoded(data))
        segment = reference.get(1)
        if set(reference) != {1, 4} or not isinstance(segment, bytes) or not _is_message(segment):
            return None
        inner = dict(_decoded(segment))
        if set(inner) != {2} or not isinstance(inner[2], bytes) or not _is_message(inner[2]):
            return None
        index = dict(_decoded(inner[2])).get(1, 0)
        return self._names[index] if isinstance(index, int) and index < len(self._names) else None


def _literal(message: Message, kinds: dict[int, str]) -> Any:
    for field, value in message:
        if field == _NULL:
            return None
        match kinds.get(field), value:
            case "bool", int():
                return bool(value)
            case "int" | "us", int():
                return value - (1 << 64) if value >= 1 << 63 else value
            case "text", bytes():
                return value.decode()
            case "bytes", bytes():
                return value
            case "f32" | "f64" as kind, bytes():
                (number,) = struct.unpack("<f" if kind == "f32" else "<d", value)
                return Fraction(number) if number - number == 0 else _NOT_UNDERSTOOD
    return _NOT_UNDERSTOOD


def _one(message: Message, field: int) -> Any:
    return next((value for number, value in message if number == field), None)


def _all(message: Message, field: int) -> list[Any]:
    return [value for number, value in message if number == field]


def _is_message(data: bytes) -> bool:
    try:
        _decoded(data)
    except ValueError:
        return False
    return True


def _decoded(data: bytes) -> Message:
    """Return the fields of a protobuf message: numbers, and bytes for length-delimited fields."""
    fields: Message = []
    at = 0
    fixed: dict[int, Callable[[int], int]] = {1: lambda at: at + 8, 5: lambda at: at + 4}
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            fields.append((number, value))
            continue
        if kind == 2:
            length, at = _varint(data, at)
            end = at + length
        elif kind in fixed:
            end = fixed[kind](at)
        else:
            raise ValueError(f"no field has kind {kind}")
        if number == 0 or end > len(data):
            raise ValueError("a field reaches beyond the message")
        fields.append((number, data[at:end]))
        at = end
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 70:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at
    raise ValueError("a number reaches beyond the message")

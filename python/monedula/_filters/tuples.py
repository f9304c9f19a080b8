"""Conditions from tuples such as `("partition", "=", 3)`, like the filters of pyarrow's and deltalake's readers."""

import math
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from monedula._config.texts import is_utf8
from monedula._filters.conditions import (
    COLUMNS,
    HEADER,
    KEY,
    And,
    Bytes,
    Condition,
    Constant,
    Not,
    Numbers,
    Or,
    any_of,
    compared_bytes,
    compared_topic,
    is_compared,
)
from monedula._filters.intervals import OPERATORS, compared, normal
from monedula.errors import ArgumentError
from monedula.types.times import EPOCH, EXPECTED_TIME, time_of

_ALIASES = {"=": "==", "<>": "!="}
_NULLS = ("is null", "is not null")
_EXAMPLE = '[("timestamp", ">=", "1h ago"), ("partition", "in", [0, 3])]'
_EXPECTED = f"expected tuples such as {_EXAMPLE}, or an expression of pyarrow or polars"


def of_tuples(where: object) -> Condition:
    """Convert one tuple, a list of tuples (conjunction), or a list of such lists (disjunction) to a condition."""
    if _is_tuple(where):
        return _comparison(where)
    if isinstance(where, (str, bytes)) or not isinstance(where, Iterable):
        raise ArgumentError.of("where", where, _EXPECTED)
    parts = list(where)
    if not parts:
        raise ArgumentError(f"where={where!r} has no condition; leave it out, or give some: {_EXAMPLE}")
    if all(isinstance(part, list) for part in parts):
        return Or(tuple(_all_of(part, where) for part in parts))
    return _all_of(parts, where)


def _is_tuple(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and isinstance(value[0], str)


def _all_of(parts: list[object], where: object) -> Condition:
    if _is_tuple(tuple(parts)) and is_compared(parts[0]) and len(parts) == 3:
        raise ArgumentError.of("where", where, f"a condition is a tuple: give {tuple(parts)!r}")
    for part in parts:
        if not _is_tuple(part):
            mixed = " and lists of them at once" if isinstance(part, list) else ""
            raise ArgumentError.of("where", where, f"{part!r} is no condition{mixed}; {_EXPECTED}")
    if not parts:
        raise ArgumentError.of("where", where, f"a list of conditions is empty; {_EXPECTED}")
    return And(tuple(_comparison(part) for part in parts))


def _comparison(part: Any) -> Condition:
    column, operator, value = part if len(part) == 3 else (*part, None) if len(part) == 2 else ("", None, None)
    name = " ".join(operator.lower().split()) if isinstance(operator, str) else operator
    name = _ALIASES.get(name, name)
    if len(part) != (2 if name in _NULLS else 3):
        raise ArgumentError(
            f"where: {part!r} has {len(part)} elements; expected (column, operator, value), or (column, 'is null')"
        )
    if not is_compared(column):
        raise ArgumentError(f"where: {part!r}: {not_a_column(column)}")
    if not is_utf8(column):
        raise ArgumentError(f"where: {part!r}: no header has this name, which cannot be written as UTF-8")
    if name in _NULLS:
        found: Condition = Constant(False) if column in COLUMNS else Bytes(column, "is null")
        return Not(found) if name == "is not null" else found
    if name in ("in", "not in"):
        found = _any_of(column, value, part)
        return Not(found) if name == "not in" else found
    if name not in OPERATORS:
        known = '"=", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null"'
        raise ArgumentError(f"where: {part!r}: there is no operator {operator!r}; expected {known}")
    if column == "topic":
        return compared_topic(name, _topic(value, part))
    if name in ("==", "!=") and isinstance(value, (list, tuple, set, frozenset, range)):
        raise ArgumentError(f'where: {part!r}: several values are compared by "in" or "not in"')
    if column not in COLUMNS:
        return compared_bytes(column, name, _bytes(column, value, part))
    return Numbers(column, compared(name, _number(column, value, part)))


def _any_of(column: str, values: object, part: object) -> Condition:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(f'where: {part!r}: "in" and "not in" take a list of values, such as [{values!r}]')
    if column == "topic":
        return any_of(column, [compared_topic("==", _topic(value, part)) for value in values])
    if column not in COLUMNS:
        return any_of(column, [compared_bytes(column, "==", _bytes(column, value, part)) for value in values])
    if isinstance(values, range) and len(values) > 0 and values.step == 1 and column != "timestamp":
        return Numbers(column, normal([(values.start, values.stop - 1)]))
    exact = (compared("==", _number(column, value, part)) for value in values)
    return Numbers(column, normal(interval for some in exact for interval in some))


def _topic(value: object, part: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"where: {part!r}: a topic is compared with a name, not with {type(value).__name__}")
    return value


def _bytes(column: str, value: object, part: object) -> bytes:
    if value is None:
        raise ArgumentError(
            f'where: {part!r}: without a value is ({column!r}, "is null") or ({column!r}, "is not null")'
        )
    if isinstance(value, str):
        return _utf8(value, part)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ArgumentError(
            f"where: {part!r}: {column} is compared with bytes, or with a text for its UTF-8, not with "
            f"{type(value).__name__}"
        )
    return bytes(value)


def _number(column: str, value: Any, part: object) -> int | Fraction:
    if column == "timestamp":
        return time_us(value, part)
    kind = type(value).__name__
    if isinstance(value, bool) or not (hasattr(value, "__index__") or hasattr(value, "__float__")):
        raise ArgumentError(f"where: {part!r}: {column} is compared with a number, not with {kind}")
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if not math.isfinite(value):
        raise ArgumentError(f"where: {part!r}: {column} cannot be compared with {value!r}")
    return Fraction(float(value))


def time_us(value: object, part: object) -> int | Fraction:
    """Convert an aware datetime, a text, or milliseconds to microseconds since 1970, UTC."""
    time: object = time_of(value) if isinstance(value, str) else value
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ArgumentError(
                f"where: {part!r}: {value!r} has no time zone; use datetime.now(timezone.utc), or .astimezone()"
            )
        # Handle pandas.Timestamp, a subclass whose differences have nanoseconds as well.
        plain = datetime.fromisoformat(time.isoformat(timespec="microseconds"))
        return (plain - EPOCH) // timedelta(microseconds=1) + Fraction(getattr(time, "nanosecond", 0), 1000)
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        hint = f"; a day is text: {value.isoformat()!r}" if isinstance(value, date) else ""
        if isinstance(value, float):
            hint = "; seconds since 1970 are int(seconds * 1000)"
        raise ArgumentError(
            f"where: {part!r}: {value!r} is no time: expected milliseconds since 1970, or {EXPECTED_TIME}{hint}"
        )
    return int(time.__index__()) * 1000


def not_a_column(column: object) -> str:
    """Return the reason why `where` takes no condition on `column`."""
    if column == "headers":
        return f"a header is compared by its name: {HEADER + 'NAME'!r} is the value of the last header with that name"
    if column in ("value", "timestampType"):
        return (
            f"decided before values are decoded, it takes no condition on {column}: filter what was read, or "
            "read by monedula.scan() or monedula.dataset(), which take any condition"
        )
    near = get_close_matches(str(column), (*COLUMNS, KEY), 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"there is no column {column!r}; where takes conditions on {', '.join((*COLUMNS, KEY))} and {HEADER}NAME{meant}"
    )


def _utf8(text: str, part: object) -> bytes:
    """The bytes of a text. Those of the command line that are no UTF-8 are in it as lone surrogates (PEP 383)."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"where: {part!r}: the text {text!r} cannot be written as UTF-8", hint="give bytes"
        ) from error

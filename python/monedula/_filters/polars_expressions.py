"""Conditions from polars expressions, which are parsed in their JSON form.

polars does not guarantee that form. So everything that is not exactly as expected here becomes a condition that is not
understood. Parts without a column, such as `pl.lit(now) - pl.duration(hours=1)`, are computed by polars.
"""

import json
import math
import warnings
from fractions import Fraction
from io import StringIO
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
from monedula._filters.intervals import MIRRORED, compared, intersection
from monedula._process.signals import is_of_signal_handler

_OPERATORS = {
    "Eq": "==",
    "EqValidity": "==",
    "NotEq": "!=",
    "NotEqValidity": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}
_NUMBERS = ("partition", "offset", "timestamp")
_MICROSECONDS = {"ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}
_EXACT_FLOATS = 1 << 52
_NOT_UNDERSTOOD = object()


def of_polars(expression: Any) -> Condition:
    """Convert a polars expression to a condition."""
    text = str(expression)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars warns that the form is not stable
            node = json.loads(expression.meta.serialize(format="json"))
    except Exception as error:  # an expression with a function in Python, or a polars without this form
        if is_of_signal_handler(error):
            raise
        return Unknown(text)
    return _condition(node, text)


def _condition(node: Any, text: str) -> Condition:
    match node:
        case {"Alias": [inner, str()]}:
            return _condition(inner, text)
        case {"BinaryExpr": {"left": left, "op": str(operator), "right": right}}:
            return _binary(left, operator, right, text)
        case {"Function": {"input": list(inputs), "function": function}}:
            return _function(inputs, function, text)
        case {"Column": _}:
            return Unknown(text)
    match _value(node):
        case bool() | None as value:
            return Constant(value)
    return Unknown(text)


def _binary(left: Any, operator: str, right: Any, text: str) -> Condition:
    match operator:
        case "And" | "LogicalAnd":
            return And((_condition(left, text), _condition(right, text)))
        case "Or" | "LogicalOr":
            return Or((_condition(left, text), _condition(right, text)))
        case "Xor":
            one, other = _condition(left, text), _condition(right, text)
            return Or((And((one, Not(other))), And((Not(one), other))))
    if operator not in _OPERATORS:
        return Unknown(text)
    symbol = _OPERATORS[operator]
    if _column(left) is None:
        left, right, symbol = right, left, MIRRORED[symbol]
    value = _value(right)
    if value is None and operator.endswith("Validity"):
        return Unknown(text)
    if operator.endswith("Validity") and _column(left) == "key":
        # Other than with a comparison, a null differs from a value.
        same = And((not_null("key"), _comparison("key", "==", value, text)))
        return same if symbol == "==" else Not(same)
    return _comparison(_column(left), symbol, value, text)


def _function(inputs: list[Any], function: Any, text: str) -> Condition:
    match function, inputs:
        case {"Boolean": "Not"}, [inner]:
            return Not(_condition(inner, text))
        case {"Boolean": "AllHorizontal"}, [*parts]:
            return And(tuple(_condition(part, text) for part in parts))
        case {"Boolean": "AnyHorizontal"}, [*parts]:
            return Or(tuple(_condition(part, text) for part in parts))
        case {"Boolean": "IsNull" | "IsNotNull" as name}, [{"Column": str(column)}] if column in ("topic", *_NUMBERS):
            return Constant(name == "IsNotNull")  # none of these columns is ever null
        case {"Boolean": "IsNull" | "IsNotNull" as name}, [{"Column": "key"}]:
            return not_null("key") if name == "IsNotNull" else Bytes("key", "is null")
        case {"Boolean": {"IsBetween": {"closed": str(closed)}}}, [inner, low, high]:
            lower, upper = closed in ("Both", "Left"), closed in ("Both", "Right")
            between = _column(inner)
            first = _comparison(between, ">=" if lower else ">", _value(low), text)
            last = _comparison(between, "<=" if upper else "<", _value(high), text)
            if isinstance(first, Numbers) and isinstance(last, Numbers):
                return Numbers(first.column, intersection(first.allowed, last.allowed))
            return And((first, last))
        case {"Boolean": {"IsIn": options}}, [inner, values]:
            if _column(inner) == "key" and options != {"nulls_equal": False}:
                return Unknown(text)
            return _any_of(_column(inner), values, text)
        case {"StringExpr": "StartsWith"}, [{"Column": "topic"}, prefix]:
            start = _value(prefix)
            if isinstance(start, str):
                return Bytes("topic", "starts with", (start.encode(errors="surrogatepass"),))
    return Unknown(text)


def _comparison(column: str | None, operator: str, value: Any, text: str) -> Condition:
    if column is not None and value is None:
        return Constant(None)
    if column == "topic" and isinstance(value, str):
        return compared_topic(operator, value)
    if column == "key" and isinstance(value, bytes):
        return compared_bytes(column, operator, value)
    if column in _NUMBERS and isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        return Numbers(str(column), compared(operator, value))
    if column == "timestamp" and isinstance(value, _Time):
        return Numbers(column, compared(operator, value.microseconds))
    return Unknown(text)


def _any_of(column: str | None, node: Any, text: str) -> Condition:
    series = _series(node)
    if series is not None and hasattr(series.dtype, "inner") and len(series) == 1:
        series = series.explode()
    if column is None or series is None or series.null_count():
        return Unknown(text)
    each = [_comparison(column, "==", _plain(series[at : at + 1]), text) for at in range(len(series))]
    return any_of(column, each) if each else Constant(False)


def _column(node: Any) -> str | None:
    match node:
        case {"Column": str(name)}:
            return name
        case {"Alias": [inner, str()]}:
            return _column(inner)
        case {"Cast": {"expr": {"Column": "partition" | "offset" as cast}, "dtype": {"Literal": "Int64" | "Float64"}}}:
            return str(cast)
        case {
            "Cast": {"expr": {"Column": "timestamp" as cast}, "dtype": {"Literal": {"Datetime": [_, {"inner": "UTC"}]}}}
        }:
            # polars compares in the coarser of two units. Kafka's times are whole milliseconds, so nothing is lost.
            return str(cast)
    return None


class _Time:
    def __init__(self, microseconds: Fraction) -> None:
        self.microseconds = microseconds


def _value(node: Any) -> Any:
    series = _series(node)
    return _NOT_UNDERSTOOD if series is None or len(series) != 1 else _plain(series)


def _series(node: Any) -> Any:
    """Compute an expression without columns by polars; `None` if it has columns, or cannot be computed."""
    import polars as pl

    if _names_columns(node):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression = pl.Expr.deserialize(StringIO(json.dumps(node)), format="json")
            return pl.select(expression.alias("value"))["value"]
    except Exception as error:  # polars may raise anything; the part is then left to it
        if is_of_signal_handler(error):
            raise
        return None


def _names_columns(node: Any) -> bool:
    if isinstance(node, dict):
        return any(key in ("Column", "Selector", "Len") or _names_columns(inner) for key, inner in node.items())
    if isinstance(node, list):
        # Lists of numbers are a series in its own form.
        return any(_names_columns(inner) for inner in node if isinstance(inner, (dict, list, str)))
    return node in ("Len", "Element")


def _plain(series: Any) -> Any:
    import polars as pl

    kind = series.dtype
    if series.null_count():
        return None
    if isinstance(kind, pl.Datetime):
        # polars compares a time without a zone only with columns without one.
        if kind.time_zone is None:
            return _NOT_UNDERSTOOD
        return _Time(series.to_physical()[0] * _MICROSECONDS[str(kind.time_unit)])
    value = series[0]
    if kind == pl.Float64:
        return Fraction(value) if math.isfinite(value) and abs(value) < _EXACT_FLOATS else _NOT_UNDERSTOOD
    if kind.is_integer() or kind in (pl.Boolean, pl.String, pl.Binary):
        return value
    return _NOT_UNDERSTOOD

"""Generated conditions: each as tuples, as an expression of pyarrow and of polars, and as a function of a row."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tests.arrow.where.logs import HEADER, Rows, header_of

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Leaf = tuple[str, str, Any] | tuple[str, str]
Truth = bool | None
"""As in SQL, whether a comparison with null holds is unknown, and so is its opposite."""


@dataclass(frozen=True)
class Generated:
    """One condition in its forms."""

    text: str
    holds: Callable[[dict[str, Any]], Truth]
    pyarrow: Any
    polars: pl.Expr


def time_of(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


class Generator:
    """Conditions with the values of some rows, and values beside these."""

    def __init__(self, random: Random, rows: Rows) -> None:
        self._random = random
        self._rows = rows

    def leaf(self, *others: str) -> Leaf:
        """A comparison of one of the columns that `where` takes of every form of condition, or one of these."""
        columns = ("topic", "partition", "offset", "timestamp", "timestamp", "key", *others)
        column = self._random.choice(columns)
        if column in ("key", HEADER) and self._random.random() < 0.2:
            return column, self._random.choice(("is null", "is not null"))
        if self._random.random() < 0.25:
            some = [self._value(column) for _ in range(self._random.randint(1, 4))]
            return column, self._random.choice(("in", "not in")), some
        return column, self._random.choice(list(OPERATORS)), self._value(column)

    def tuples(self) -> list[list[Leaf]]:
        return [
            [self.leaf(HEADER) for _ in range(self._random.randint(1, 3))] for _ in range(self._random.randint(1, 3))
        ]

    def tree(self, depth: int = 3, *, any_column: bool = False) -> Generated:
        """A condition; with `any_column`, also one on the value, which no offset is known for."""
        kind = self._random.choice(("and", "or", "not", "leaf", "leaf")) if depth else "leaf"
        if kind == "leaf":
            return of_leaf(self.leaf(*(("value",) * any_column)))
        if kind == "not":
            one = self.tree(depth - 1, any_column=any_column)
            return Generated(f"not({one.text})", lambda row: _not(one.holds(row)), ~one.pyarrow, ~one.polars)
        parts = [self.tree(depth - 1, any_column=any_column) for _ in range(self._random.randint(2, 3))]
        joined = operator.and_ if kind == "and" else operator.or_
        return Generated(
            f"{kind}({', '.join(part.text for part in parts)})",
            lambda row: _joined([part.holds(row) for part in parts], decisive=kind == "or"),
            reduce(joined, (part.pyarrow for part in parts)),
            reduce(joined, (part.polars for part in parts)),
        )

    def _value(self, column: str) -> Any:
        row = self._random.choice(self._rows)
        if column in ("key", HEADER):
            known = header_of(row["value"]) if column == HEADER else row["key"]
            return self._random.choice((known or b"3", b"3", b"", b"31"))
        known = row[column]
        if column == "topic":
            return self._random.choice((known, known[:-1], "zzz"))
        if column == "value":
            return known
        if column == "timestamp":
            known += self._random.choice((0, 0, 1, -1, 1000, -1000, 500))
            return time_of(known)
        return known + self._random.choice((0, 0, 0, 1, -1))


def _not(one: Truth) -> Truth:
    return None if one is None else not one


def _joined(parts: list[Truth], *, decisive: bool) -> Truth:
    return decisive if decisive in parts else None if None in parts else not decisive


def holds(leaf: Leaf, row: dict[str, Any]) -> Truth:
    """Whether a row meets a condition."""
    column, name = leaf[:2]
    given: Any = header_of(row["value"]) if column == HEADER else row[column]
    given = time_of(given) if column == "timestamp" else given
    if len(leaf) == 2:
        return (given is None) == (name == "is null")
    if given is None:
        return None
    value = leaf[2]
    if name in ("in", "not in"):
        return (given in value) == (name == "in")
    return OPERATORS[name](given, value)


def of_leaf(leaf: Leaf) -> Generated:
    """One comparison in its forms."""
    column, name = leaf[:2]
    arrow, frame = pc.field(column), pl.col(column)
    if len(leaf) == 2:
        is_null = (arrow.is_null(), frame.is_null())
        expressions: tuple[Any, pl.Expr] = is_null if name == "is null" else (~is_null[0], ~is_null[1])
        return Generated(str(leaf), lambda row: holds(leaf, row), *expressions)
    value = leaf[2]
    if column == "key" and name in ("in", "not in"):
        # For pyarrow's isin(), a null is not in the list; here that is unknown, as for polars.
        expressions = (reduce(operator.or_, (arrow == one for one in value)), frame.is_in(value))
        expressions = (~expressions[0], ~expressions[1]) if name == "not in" else expressions
    elif name in ("in", "not in"):
        kind = {"timestamp": pa.timestamp("us", "UTC"), "value": pa.binary()}.get(column)
        expressions = (arrow.isin(pa.array(value, kind)), frame.is_in(value))
        if name == "not in":
            expressions = (~expressions[0], ~expressions[1])
    else:
        expressions = (OPERATORS[name](arrow, value), OPERATORS[name](frame, value))  # type: ignore[assignment]
    return Generated(str(leaf), lambda row: holds(leaf, row), *expressions)

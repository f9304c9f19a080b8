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

from tests.arrow.where.logs import Rows

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Leaf = tuple[str, str, Any]


@dataclass(frozen=True)
class Generated:
    """One condition in its forms."""

    text: str
    holds: Callable[[dict[str, Any]], bool]
    pyarrow: Any
    polars: pl.Expr


def time_of(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


class Generator:
    """Conditions with the values of some rows, and values beside these."""

    def __init__(self, random: Random, rows: Rows) -> None:
        self._random = random
        self._rows = rows

    def leaf(self, *, any_column: bool = False) -> Leaf:
        columns = ("topic", "partition", "offset", "timestamp", "timestamp", *(("value",) * any_column))
        column = self._random.choice(columns)
        if self._random.random() < 0.25:
            some = [self._value(column) for _ in range(self._random.randint(1, 4))]
            return column, self._random.choice(("in", "not in")), some
        return column, self._random.choice(list(OPERATORS)), self._value(column)

    def tuples(self) -> list[list[Leaf]]:
        return [[self.leaf() for _ in range(self._random.randint(1, 3))] for _ in range(self._random.randint(1, 3))]

    def tree(self, depth: int = 3, *, any_column: bool = False) -> Generated:
        """A condition; with `any_column`, also one on the value, which no offset is known for."""
        kind = self._random.choice(("and", "or", "not", "leaf", "leaf")) if depth else "leaf"
        if kind == "leaf":
            return of_leaf(self.leaf(any_column=any_column))
        if kind == "not":
            one = self.tree(depth - 1, any_column=any_column)
            return Generated(f"not({one.text})", lambda row: not one.holds(row), ~one.pyarrow, ~one.polars)
        parts = [self.tree(depth - 1, any_column=any_column) for _ in range(self._random.randint(2, 3))]
        joined = operator.and_ if kind == "and" else operator.or_
        every = all if kind == "and" else any
        return Generated(
            f"{kind}({', '.join(part.text for part in parts)})",
            lambda row: every(part.holds(row) for part in parts),
            reduce(joined, (part.pyarrow for part in parts)),
            reduce(joined, (part.polars for part in parts)),
        )

    def _value(self, column: str) -> Any:
        known = self._random.choice(self._rows)[column]
        if column == "topic":
            return self._random.choice((known, known[:-1], "zzz"))
        if column == "value":
            return known
        if column == "timestamp":
            known += self._random.choice((0, 0, 1, -1, 1000, -1000, 500))
            return time_of(known)
        return known + self._random.choice((0, 0, 0, 1, -1))


def holds(leaf: Leaf, row: dict[str, Any]) -> bool:
    """Whether a row meets a condition."""
    column, name, value = leaf
    given = time_of(row[column]) if column == "timestamp" else row[column]
    if name in ("in", "not in"):
        return (given in value) == (name == "in")
    return OPERATORS[name](given, value)


def of_leaf(leaf: Leaf) -> Generated:
    """One comparison in its forms."""
    column, name, value = leaf
    arrow, frame = pc.field(column), pl.col(column)
    if name in ("in", "not in"):
        kind = {"timestamp": pa.timestamp("us", "UTC"), "value": pa.binary()}.get(column)
        expressions: tuple[Any, pl.Expr] = (arrow.isin(pa.array(value, kind)), frame.is_in(value))
        if name == "not in":
            expressions = (~expressions[0], ~expressions[1])
    else:
        expressions = (OPERATORS[name](arrow, value), OPERATORS[name](frame, value))  # type: ignore[assignment]
    return Generated(str(leaf), lambda row: holds(leaf, row), *expressions)

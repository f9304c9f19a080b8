"""Filters of a query that decide what is read: Spark calls `pushFilters` with them, from 4.1 on.

Filters on `topic`, `partition` and `offset` are dealt with completely, by which offsets are read. Those on `timestamp`
decide where reading begins, and those on a binary `key` what is decoded; Spark applies both to the rows as well.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from monedula._filters.conditions import (
    COLUMNS,
    KEY,
    And,
    Bytes,
    Condition,
    Constant,
    Not,
    Numbers,
    Unknown,
    any_of,
    compared_bytes,
    compared_topic,
    not_null,
)
from monedula._filters.intervals import compared
from monedula._filters.ranges import Bounds, Found, Plan, narrowed
from monedula.spark.offsets import PartitionOffsets
from monedula.spark.source.cluster import Cluster
from monedula.types.partitions import TopicPartition
from monedula.types.times import EPOCH

_OPERATORS = {
    "EqualTo": "==",
    "EqualNullSafe": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TEXTS = {"StringStartsWith": "starts with", "StringEndsWith": "ends with", "StringContains": "contains"}


def condition_of(filter_: Any, columns: Collection[str] = COLUMNS) -> Condition:
    """The condition of a filter of Spark, if it is on one of these columns."""
    kind = type(filter_).__name__
    if kind == "Not":
        return Not(condition_of(filter_.child, columns))
    path = tuple(getattr(filter_, "attribute", ()))
    if len(path) != 1 or path[0] not in columns:
        return Unknown(str(filter_))
    column = path[0]
    if kind in ("IsNull", "IsNotNull"):
        if column == KEY:
            return not_null(column) if kind == "IsNotNull" else Bytes(column, "is null")
        return Constant(kind == "IsNotNull")  # none of the others is ever null
    if kind == "In":
        return any_of(column, [_comparison(column, "==", value, filter_) for value in filter_.value])
    if kind in _TEXTS and column == "topic":
        return Bytes(column, _TEXTS[kind], (filter_.value.encode(),))
    if kind not in _OPERATORS:
        return Unknown(str(filter_))
    if kind == "EqualNullSafe" and column == KEY:
        # Other than with a comparison, a null differs from a value.
        same = _comparison(column, "==", filter_.value, filter_)
        return Bytes(column, "is null") if filter_.value is None else And((not_null(column), same))
    if kind == "EqualNullSafe" and filter_.value is None:
        return Constant(False)
    return _comparison(column, _OPERATORS[kind], filter_.value, filter_)


def is_settled(condition: Condition) -> bool:
    """Return true if no row has to be compared any more once the offsets are chosen."""
    match condition:
        case Constant():
            return True
        case Bytes(column, _, _):
            return column == "topic"
        case Numbers("partition", _):
            return True
        case Numbers("offset", allowed):
            return len(allowed) <= 1
        case Not(Bytes() | Constant() | Not() | Numbers("partition", _) as inner):
            return is_settled(inner)
    return False


def narrow(
    condition: Condition,
    start: PartitionOffsets,
    end: PartitionOffsets,
    cluster: Cluster,
    max_lateness_ms: int | None,
) -> None:
    """Reduce `start` and `end` to what the condition needs; partitions of which nothing is needed are removed."""
    bounds: Bounds = {each: (first, end[each]) for each, first in start.items()}
    plan: Plan = narrowed(condition, bounds, _Lookups(cluster), max_lateness_ms)
    for partition, (first, last) in plan.bounds.items():
        if first < last:
            start[partition], end[partition] = first, last
        else:
            del start[partition], end[partition]


def passed_for_default(push: Callable[..., Any], default: Callable[..., Any]) -> Callable[..., Any]:
    """`push`, so that Spark takes it for the `default` of its base class.

    Spark refuses each query of a reader that has a `pushFilters` of its own unless
    `spark.sql.python.filterPushdown.enabled` is set, which by default it is not, and a reader cannot know. Spark
    compares `__func__` of the method with that of its base class.
    """
    return _Passed(push, default)


class _Passed:
    def __init__(self, push: Callable[..., Any], default: Callable[..., Any]) -> None:
        self._push = push
        self.__func__ = default

    def __call__(self, filters: list[Any]) -> Any:
        return self._push(filters)


def _comparison(column: str, operator: str, value: Any, filter_: Any) -> Condition:
    if value is None:
        return Constant(None)
    if column == "topic" and isinstance(value, str):
        return compared_topic(operator, value)
    if column == KEY and isinstance(value, (bytes, bytearray)):
        return compared_bytes(column, operator, bytes(value))
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        return Numbers(column, compared(operator, (value - EPOCH) // timedelta(microseconds=1)))
    if column in ("partition", "offset") and isinstance(value, int) and not isinstance(value, bool):
        return Numbers(column, compared(operator, value))
    return Unknown(str(filter_))


class _Lookups:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def first_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found]:
        return {
            each: None if at is None else (at, times_ms[each]) for each, at in self._cluster.by_time(times_ms).items()
        }

    def largest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Found]:
        return self._cluster.largest_timestamps(partitions)

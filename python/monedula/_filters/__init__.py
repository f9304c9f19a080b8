"""Conditions that decide what is fetched, on topic, partition, offset and timestamp, or decoded, on key and headers."""

from typing import Any

from monedula._filters.conditions import (
    COLUMNS,
    Condition,
    TooManyAlternativesError,
    Unknown,
    columns_of,
    is_compared,
    unknown_parts,
)
from monedula._filters.ranges import Bounds, Found, Plan, narrowed
from monedula._filters.tuples import not_a_column, of_tuples
from monedula.errors import ArgumentError

__all__ = [
    "COLUMNS",
    "Bounds",
    "Condition",
    "Found",
    "Plan",
    "TooManyAlternativesError",
    "Unknown",
    "columns_of",
    "condition_of",
    "narrowed",
]


def condition_of(where: object, schema: object = None) -> Condition:
    """Convert the user's `where` to a condition, all of which must be understood.

    Args:
        where: tuples, or an expression of pyarrow or polars.
        schema: the records' pyarrow schema; by default the schema of all columns.

    Raises:
        ArgumentError: if it is not a condition, or has a part that is not decided before records are decoded.
    """
    module = type(where).__module__.partition(".")[0]
    if module == "polars":
        return _only_understood(_of_polars(where))
    if module == "pyarrow":
        return _only_understood(_of_pyarrow(where, schema))
    return of_tuples(where)


def _of_polars(where: object) -> Condition:
    from monedula._filters.polars_expressions import of_polars

    if not hasattr(where, "meta"):
        raise ArgumentError(f"where is a {type(where).__name__} of polars; expected an expression")
    _check_columns(where.meta.root_names())
    return of_polars(where)


def _of_pyarrow(where: object, schema: object) -> Condition:
    import pyarrow as pa

    from monedula._filters.substrait import of_pyarrow

    if not hasattr(where, "to_substrait"):
        raise ArgumentError(f"where is a {type(where).__name__} of pyarrow; expected an expression")
    try:
        condition, columns = of_pyarrow(where, schema or _records_schema(), naive_times=False)
    except pa.ArrowInvalid as error:
        raise ArgumentError(f"where: {error}") from None
    _check_columns(sorted(columns or ()))
    return condition


def _check_columns(names: "list[str]") -> None:
    for name in names:
        if not is_compared(name):
            raise ArgumentError(f"where: {not_a_column(name)}")


def _only_understood(condition: Condition) -> Condition:
    for text in unknown_parts(condition):
        raise ArgumentError(
            f"where: {text} is no condition that is decided before records are decoded. where takes comparisons of "
            f"{', '.join(COLUMNS)} with values, and of key with bytes such as b'7', in, between, starts_with of topic, "
            "and, or, not; a time has a time zone. monedula.scan() and monedula.dataset() take any condition"
        )
    return condition


def _records_schema() -> Any:
    """The `pyarrow.Schema` of batches with every column, against which expressions are checked."""
    import pyarrow as pa

    header: Any = pa.struct([("key", pa.string()), ("value", pa.binary())])
    fields: list[tuple[str, Any]] = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", header))),
    ]
    return pa.schema(fields)

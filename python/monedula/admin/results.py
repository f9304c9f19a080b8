"""`Results`: a dict of results, with the errors of the items that failed. `TableResults`: the same, also as a table."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from monedula._monedula import Operation, Table
from monedula._reprs import counted, html_table
from monedula.admin.calls import Call
from monedula.admin.values import Items, items
from monedula.errors import AdminErrors, ArgumentError, KafkaError

K = TypeVar("K")
V = TypeVar("V")

Columns = tuple[tuple[str, str], ...]
"""The columns of a table: name and Arrow type of each."""


def columns(text: str) -> Columns:
    """The columns of a text such as `topic string, partition int32`."""
    pairs = (column.split(" ") for column in text.split(", "))
    return tuple((name, kind) for name, kind in pairs)


class Results(dict[K, V]):
    """The results of a call for several topics, partitions, groups or resources: a dict of those that succeeded.

    Attributes:
        errors: the errors of those that failed. Empty unless the call was made with `errors="return"`.
    """

    errors: dict[K, KafkaError]

    def __init__(
        self, values: Mapping[K, V] | Iterable[tuple[K, V]] = (), errors: Mapping[K, KafkaError] | None = None
    ) -> None:
        super().__init__(values)
        self.errors = dict(errors or {})

    def __repr__(self) -> str:
        failed = f", errors={self.errors!r}" if self.errors else ""
        return f"{type(self).__name__}({super().__repr__()}{failed})"


class Tabular:
    """Results with a table form."""

    _columns: Columns = ()

    def _rows(self) -> Iterable[tuple[object, ...]]:
        raise NotImplementedError

    def to_arrow(self) -> Table:
        """The results as an Arrow table: for `polars.DataFrame(table)`, `pyarrow.table(table)`, DuckDB."""
        rows = list(self._rows())
        values = list(zip(*rows, strict=True)) if rows else [()] * len(self._columns)
        return Table([(name, kind, list(column)) for (name, kind), column in zip(self._columns, values, strict=True)])

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        rows = list(self._rows())
        caption = f"{type(self).__name__}: {counted(len(rows), 'row')}"
        if errors := getattr(self, "errors", None):
            caption += f", {counted(len(errors), 'error')}"
        return html_table(caption, [name for name, _ in self._columns], rows, len(rows))


class TableResults(Results[K, V], Tabular, Generic[K, V]):
    """Results that can also be read as a table."""


class ListedResults(TableResults[str, V], Generic[V]):
    """What the brokers of a cluster have listed, by id.

    Attributes:
        missing: the errors of brokers that did not answer, by broker id. What they coordinate is left out.
    """

    missing: dict[int, KafkaError]

    def __init__(self, values: Iterable[tuple[str, V]] = (), missing: Mapping[int, KafkaError] | None = None) -> None:
        super().__init__(values)
        self.missing = dict(missing or {})

    def __repr__(self) -> str:
        missing = f", missing={self.missing!r}" if self.missing else ""
        return f"{type(self).__name__}({dict.__repr__(self)}{missing})"


R = TypeVar("R", bound=Results[Any, Any])


def answered(results: R, errors: str) -> R:
    """Return the results; with `errors="raise"`, raise their errors.

    Raises:
        KafkaError: the error of the only item; `AdminErrors` if there are several items.
    """
    if errors not in ("raise", "return"):
        raise ArgumentError.of("errors", errors, "expected 'raise' or 'return'")
    if errors == "return" or not results.errors:
        return results
    if len(results) + len(results.errors) == 1:
        (error,) = results.errors.values()
        raise error
    raise AdminErrors(results, results.errors)


def of_items(
    operation: "Operation[Items]",
    results: type[R],
    key: Callable[[Any], Any],
    value: Callable[[Any, Any], Any],
    errors: str,
    ignored: tuple[str, ...] = (),
) -> Call[R]:
    """A call for several items: `results` by functions for item and value, without errors of the `ignored` codes."""

    def end(answer: Items) -> R:
        made, failed = items(answer, key, value)
        return answered(results(made, {at: each for at, each in failed.items() if each.code not in ignored}), errors)

    return Call(operation, end)

"""Several answers at once: a dict of what succeeded, with the errors of what did not, and as a table."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from monedula._monedula import Table
from monedula.errors import AdminErrors, ArgumentError, KafkaError

K = TypeVar("K")
V = TypeVar("V")

Columns = tuple[tuple[str, str], ...]
"""Names and Arrow types of a table."""


class Results(dict[K, V]):
    """What a call came to for each topic, partition, group or resource: a dict of those that succeeded.

    Attributes:
        errors: why, for those that failed. Empty unless the call was made with `errors="return"`.
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


class TableResults(Results[K, V], Generic[K, V]):
    """Results that are a table too."""

    _columns: Columns = ()

    def _rows(self) -> Iterable[tuple[object, ...]]:
        raise NotImplementedError

    def to_arrow(self) -> Table:
        """All of it as a table for Arrow: `polars.DataFrame(table)`, `pyarrow.table(table)`, DuckDB."""
        rows = list(self._rows())
        values = list(zip(*rows, strict=True)) if rows else [()] * len(self._columns)
        return Table([(name, kind, list(column)) for (name, kind), column in zip(self._columns, values, strict=True)])


R = TypeVar("R", bound=Results[Any, Any])


def left_out(results: R, codes: tuple[str, ...]) -> R:
    """The results without errors of these codes, which the caller can do with."""
    results.errors = {key: error for key, error in results.errors.items() if error.code not in codes}
    return results


def answered(results: R, errors: str) -> R:
    """The results, unless an error is to be raised.

    Raises:
        KafkaError: that of the only item; `AdminErrors` if there are several.
    """
    if errors not in ("raise", "return"):
        raise ArgumentError(f"errors={errors!r}: expected 'raise' or 'return'")
    if errors == "return" or not results.errors:
        return results
    if len(results) + len(results.errors) == 1:
        (error,) = results.errors.values()
        raise error
    raise AdminErrors(results, results.errors)

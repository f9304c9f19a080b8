"""The pyarrow `Dataset` behind `monedula.dataset`, which DuckDB takes as a table.

DuckDB calls `scanner(columns=..., filter=...)` of any `pyarrow.dataset.Dataset`, but none of Arrow's own kinds of
datasets calls Python for its rows. So for Arrow's C++ code, this object is a dataset of one file that does not exist:
code that bypasses the methods here gets an error, and never takes a topic for an empty one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from monedula._filters.conditions import Condition, Unknown
from monedula._filters.substrait import of_pyarrow
from monedula._monedula import Batch
from monedula._reprs import some
from monedula.consumer._base import MAX_ROWS
from monedula.errors import ArgumentError
from monedula.formats._typed import check_column
from monedula.reading._topic_scan import TopicScan

_NO_FILE = "/a dataset of monedula is read by its own methods, not as files"


def _refusal(name: str) -> Callable[..., NoReturn]:
    """A method that refuses: what every dataset has, and this one cannot have."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise ArgumentError(f"a dataset of topics has no {name}(): read a table first, by dataset.to_table(filter=...)")

    return refuse


class TopicDataset(ds.FileSystemDataset):
    """Topics as a dataset. Made by `monedula.dataset`."""

    def __init__(self, source: TopicScan, filter: Any = None) -> None:  # noqa: A002 - pyarrow's name
        with source.empty() as stream:
            schema = pa.schema(cast("Any", stream.schema))
        form, files = ds.IpcFileFormat(), pyarrow.fs.LocalFileSystem()
        super().__init__([form.make_fragment(_NO_FILE, files)], schema, form, files)
        self._source = source
        self._filter = filter

    def scanner(  # type: ignore[override]
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **options: Any,
    ) -> ds.Scanner:
        """Scan the rows that meet `filter`, with these columns; options as for every dataset."""
        every = filter if self._filter is None else self._filter if filter is None else self._filter & filter
        condition, compared = (Unknown(""), set()) if every is None else of_pyarrow(every, self.schema)
        names = self._columns(columns, compared)
        read = pa.schema([self.schema.field(name) for name in names])
        size = min(options.pop("batch_size", None) or MAX_ROWS, MAX_ROWS)
        batches = pa.RecordBatchReader.from_batches(read, self._batches(condition, names, size))
        known = {name: value for name, value in options.items() if name in ("use_threads", "memory_pool")}
        return ds.Scanner.from_batches(batches, columns=columns, filter=every, **known)

    def filter(self, expression: Any) -> "TopicDataset":
        """Return the dataset of the rows that meet the expression, and all filters before."""
        both = expression if self._filter is None else self._filter & expression
        return TopicDataset(self._source, both)

    def head(  # type: ignore[override]
        self,
        num_rows: int,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **options: Any,
    ) -> pa.Table:
        """The first rows; without a filter, little more than these is fetched."""
        if filter is not None or self._filter is not None:
            return self.scanner(columns=columns, filter=filter, **options).head(num_rows)
        names = self._columns(columns, set())
        read = pa.schema([self.schema.field(name) for name in names])
        rows = self._source.read_first(num_rows, names)
        batches = pa.RecordBatchReader.from_batches(read, _with_columns(rows, names))
        return ds.Scanner.from_batches(batches, columns=columns).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # type: ignore[override]  # noqa: A002
        """Return the number of rows that meet the filter. Values are decoded for it only if bad records are dropped."""
        batches = self.scanner(columns=["partition"], filter=filter, **options).to_batches()
        return sum(batch.num_rows for batch in batches)

    # The columns are fixed by Kafka's records, there are no files, and tables are what is joined and sorted.
    replace_schema: Any = _refusal("replace_schema")
    get_fragments: Any = _refusal("get_fragments")
    join: Any = _refusal("join")
    join_asof: Any = _refusal("join_asof")
    sort_by: Any = _refusal("sort_by")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a dataset of topics cannot be pickled: make one where it is used, from the same settings")

    def __repr__(self) -> str:
        filtered = "" if self._filter is None else f", rows with {self._filter}"
        return f"<monedula.TopicDataset of {some(self._source.topics)}: {', '.join(self._source.names)}{filtered}>"

    def _columns(self, columns: Any, compared: "set[str] | None") -> list[str]:
        """Choose the columns to read: all, if expressions are computed from them, or the filter is not understood."""
        if columns is None or isinstance(columns, dict) or compared is None:
            return list(self.schema.names)
        for name in columns:
            check_column(name, self.schema.names)
        return [name for name in self.schema.names if name in columns or name in compared] or ["partition"]

    def _batches(self, condition: Condition, names: list[str], size: int) -> Iterator[pa.RecordBatch]:
        with self._source.read(condition, names, size) as stream:
            yield from _with_columns(stream, names)


def _with_columns(batches: Iterable[Batch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch(batch).select(names)

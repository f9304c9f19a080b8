"""`DeltaSnapshot`: the data files that a version of a table of Delta names, and their rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from monedula.landing.columns import conformed
from monedula.landing.data_files import DataFiles

_BATCH_ROWS = 1 << 16


class LiveFile(NamedTuple):
    """A data file that a version of a table names."""

    path: str
    """Relative to the table, as the store has it."""
    size: int
    modified_ms: int
    partition: Any
    """The value of the partition column; `None` if it is null, or there is no such column."""
    statistics: Mapping[str, Any]
    """The extremes of columns that are told, as `min.id` and `max.id`."""
    has_deletions: bool
    """Whether a deletion vector says that some of its rows are none."""

    def may_hold(self, column: str, smallest: Any, largest: Any) -> bool:
        """Return false if the statistics say that no value of a column is between these."""
        low, high = self.statistics.get(f"min.{column}"), self.statistics.get(f"max.{column}")
        if low is None or high is None or type(low) is not type(smallest):
            return True
        # Delta's protocol has timestamps in milliseconds, cut off: the largest one may be up to one more.
        end = high + timedelta(milliseconds=1) if isinstance(high, datetime) else high
        return bool(low <= largest and end >= smallest)


class DeltaSnapshot:
    """The files of the version that a handle is at, until it moves on.

    Attributes:
        schema: the columns of the table.
        partition_column: the column by which it is partitioned, or `None`.
    """

    def __init__(self, table: DeltaTable, filesystem: Any) -> None:
        self._table = table
        self._filesystem = filesystem
        self.schema = pa.schema(table.schema().to_arrow())
        columns = table.metadata().partition_columns
        self.partition_column: str | None = columns[0] if columns else None

    def files(self) -> list[LiveFile]:
        """The files, the oldest first."""
        deleted: set[str] = set()
        if "deletionVectors" in (self._table.protocol().writer_features or ()):
            vectors: Any = pa.RecordBatchReader.from_stream(self._table.deletion_vectors()).read_all()
            deleted = {_name(unquote(path)) for path in vectors.column("filepath").to_pylist()}
        found = []
        actions: Any = pa.table(self._table.get_add_actions(flatten=True))
        for action in actions.to_pylist():
            # The log has paths in percent encoding; the name of a partition's folder is encoded a second time.
            path = unquote(action["path"])
            partition = action.get(f"partition.{self.partition_column}")
            facts = action["size_bytes"], action["modification_time"], partition, action, _name(path) in deleted
            found.append(LiveFile(path, *facts))
        return sorted(found, key=lambda file: (file.modified_ms, file.path))

    def batches(self, file: LiveFile, names: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows of a file in their order, with the columns of the table, or some of them.

        Columns that the file lacks are null.
        """
        schema = self.schema if names is None else pa.schema([self.schema.field(name) for name in names])
        with (
            self._filesystem.open_input_file(file.path) as source,
            # Spark writes timestamps in nanoseconds of 96 bits, which reach further as microseconds.
            pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as parquet,
        ):
            there = [name for name in schema.names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=there):
                rows = batch
                if self.partition_column in schema.names:
                    value = pa.scalar(file.partition, schema.field(self.partition_column).type)
                    rows = rows.append_column(self.partition_column, pa.repeat(value, batch.num_rows))
                yield conformed(rows, schema)

    def copy(self, file: LiveFile, into: DataFiles, dropped: Any = None) -> None:
        """Write the rows of a file into other files.

        Args:
            file: the file.
            into: files of this table with all of its columns.
            dropped: an array of the numbers of the rows to leave out.
        """
        first = 0
        for batch in self.batches(file):
            after = first + batch.num_rows
            rows = batch
            if dropped is not None:
                rows = batch.filter(pc.invert(pc.is_in(pa.array(range(first, after), pa.int64()), value_set=dropped)))
            first = after
            if not rows.num_rows:
                continue
            if self.partition_column is None:
                into.write(rows)
            else:
                into.write(rows.drop_columns([self.partition_column]), rows.column(self.partition_column))


def _name(path: str) -> str:
    return path.rpartition("/")[2]

"""The outputs of `monedula consume` in Arrow and Parquet; they need pyarrow."""

from collections.abc import Sequence
from io import BufferedWriter
from typing import Any

from monedula import Batch
from monedula.cli.sinks import Sink

# The least rows or bytes of a Parquet row group: many small row groups make a file slow.
_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 64 << 20


class ArrowSink(Sink):
    """Arrow IPC, in the stream or the file format."""

    def __init__(self, file: BufferedWriter, schema: Any, as_file: bool) -> None:
        import pyarrow
        import pyarrow.ipc

        self._file = file
        self._of = pyarrow.record_batch
        make = pyarrow.ipc.new_file if as_file else pyarrow.ipc.new_stream
        self._writer = make(pyarrow.PythonFile(file, mode="w"), pyarrow.schema(schema))

    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch."""
        self._writer.write_batch(_chosen(self._of(batch), rows))

    def flush(self) -> None:
        """Let others see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Finish."""
        self._writer.close()
        self._file.close()


class ParquetSink(Sink):
    """Parquet; batches are collected into large row groups."""

    def __init__(self, file: BufferedWriter, schema: Any) -> None:
        import pyarrow
        import pyarrow.parquet

        self._file = file
        self._arrow = pyarrow
        self._group: list[Any] = []
        self._writer = pyarrow.parquet.ParquetWriter(
            pyarrow.PythonFile(file, mode="w"), pyarrow.schema(schema), compression="zstd"
        )

    def write(self, batch: Batch, rows: Sequence[int]) -> None:
        """Write these rows of a batch."""
        self._group.append(_chosen(self._arrow.record_batch(batch), rows))
        grouped = sum(part.num_rows for part in self._group)
        if grouped >= _GROUP_ROWS or sum(part.nbytes for part in self._group) >= _GROUP_BYTES:
            self._write_group()

    def flush(self) -> None:
        """Do nothing: a Parquet file is not readable before it is closed."""

    def close(self) -> None:
        """Finish."""
        self._write_group()
        self._writer.close()
        self._file.close()

    def _write_group(self) -> None:
        if self._group:
            self._writer.write_table(self._arrow.Table.from_batches(self._group))
            self._group.clear()


def _chosen(batch: Any, rows: Sequence[int]) -> Any:
    return batch.slice(0, len(rows)) if isinstance(rows, range) else batch.take(list(rows))

"""`DataFiles`: the Parquet files of a commit, open and closed, within a bound of memory."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from time import time
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monedula.landing.store_errors import landing_error, of_store

MAX_OPEN = 100
"""The most values of a partition column whose files are open at once."""
_ROW_GROUP_BYTES = 16 << 20
_MOST_BATCHES = 64
_UNWRITTEN = "a data file cannot be written"
_DICTIONARY_BYTES = 128 << 10
"""Columns of more values than fit in it have no dictionary. At Parquet's 1 MB, of 2 M orders those of ids and offsets
took two fifths of the time, and made the file a fifth larger."""


class Store(Protocol):
    """Where data files are written, beside a table's metadata.

    Attributes:
        name: the table, for errors.
    """

    name: str

    def open(self, path: str) -> Any:
        """Begin a file; nobody sees it before it is closed."""

    def delete(self, path: str) -> None:
        """Delete a file that was closed."""


def is_remote(path: str) -> bool:
    """Return true for the address of a store; a folder of this machine has none, or that of a file."""
    return "://" in path and not path.startswith("file://")


class DataFile(NamedTuple):
    """A Parquet file that is written completely, and in no table yet."""

    path: str
    """In a table of Delta, relative to it."""
    size: int
    rows: int
    partition: Any
    """The value of the partition column in all of its rows; `None` if it is null, or there is no such column."""
    metadata: Any
    """The footer, a `pyarrow.parquet.FileMetaData`."""


class CountedStream:
    """Passes what is written to a stream of Rust or of pyiceberg, which take bytes alone, and counts it."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.size = 0

    def write(self, data: Any) -> int:
        """Write a buffer."""
        content = bytes(data)
        self._stream.write(content)
        self.size += len(content)
        return len(content)

    def tell(self) -> int:
        """The number of bytes written."""
        return self.size

    def flush(self) -> None:
        """Do nothing: a file is there once it is closed."""

    def close(self) -> None:
        """Write the rest; the file is there from now on."""
        if not self.closed:
            self.closed = True
            self._stream.close()


class _OpenFile:
    """A file with its rows that are not written yet."""

    def __init__(self, path: str, partition: Any, store: Store, schema: Any) -> None:
        self.path = path
        self.partition = partition
        self.rows = 0
        self.buffered_bytes = 0
        self._batches: list[Any] = []
        self._uncombined = 0
        self._schema = schema
        self._stream = CountedStream(store.open(path))
        sink: Any = self._stream
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            write_page_index=True,
            store_schema=False,
        )

    @property
    def size(self) -> int:
        return self._stream.size + self.buffered_bytes

    def append(self, batch: Any) -> None:
        self._batches.append(batch)
        self._uncombined += 1
        if self._uncombined >= _MOST_BATCHES:
            # A batch weighs kilobytes besides its rows, of which it may have a single one.
            few = pa.Table.from_batches(self._batches[-_MOST_BATCHES:], self._schema).combine_chunks()
            self._batches[-_MOST_BATCHES:] = few.to_batches()
            self._uncombined = 0
        self.rows += batch.num_rows
        self.buffered_bytes += batch.nbytes
        if self.buffered_bytes >= _ROW_GROUP_BYTES:
            self.write_row_group()

    def write_row_group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, self._schema)
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._batches, self._uncombined, self.buffered_bytes = [], 0, 0

    def close(self) -> DataFile:
        self.write_row_group()
        self._writer.close()
        self._stream.close()
        return DataFile(self.path, self._stream.size, self.rows, self.partition, self._writer.writer.metadata)

    def abandon(self) -> None:
        """Close it with what is written; it has to be deleted then."""
        self._batches = []
        self._writer.close()
        self._stream.close()


class DataFiles:
    """The files of the next commit. Their rows are read by nobody before a commit of the table names them.

    They are written by a thread of their own, while the next rows are read and decoded.

    Args:
        store: where they are written.
        schema: the columns of the files.
        partition_column: the column of whose values each has files of its own, or `None`.
        path_of: the path of a new file for a value of it, given a unique name.
        max_memory_bytes: the bytes of rows that may wait: half of them for the thread, half for their row group, of
            which the largest one is written beyond that.
    """

    def __init__(
        self,
        store: Store,
        schema: Any,
        partition_column: str | None,
        path_of: Callable[[str, Any], str],
        max_memory_bytes: int,
    ) -> None:
        self._store = store
        self._schema = schema
        self._partition_column = partition_column
        self._path_of = path_of
        self._share_bytes = max_memory_bytes // 2
        # No executor: at its end the interpreter waits for the threads of those, and so for a store that hangs.
        self._thread: Thread | None = None
        self._tasks: SimpleQueue[tuple[Future[None], Any, Any] | None] = SimpleQueue()
        self._queue: deque[tuple[Future[None], int]] = deque()
        """What the thread has not written yet, and its bytes."""
        # The thread's alone until it has ended.
        self._open: dict[Any, _OpenFile] = {}
        self._closed: list[DataFile] = []
        self._size = 0
        self.begun = time()
        self.rows = 0

    is_full = False

    @property
    def size(self) -> int:
        """The bytes of Parquet that are written, and those of columns that are not yet."""
        return self._size + self._queued_bytes()

    def write(self, rows: Any, partitions: Any | None = None) -> None:
        """Have rows of the files' schema written.

        Args:
            rows: a `pyarrow.RecordBatch`.
            partitions: the value of the partition column of each row, if there is one.

        Raises:
            LandingError: if the store did not take what an earlier call had.
        """
        with of_store(self._store.name, _UNWRITTEN):
            self._wait(self._share_bytes - rows.nbytes)
        if self._thread is None:
            self._thread = Thread(target=self._work, name="monedula-data-files", daemon=True)
            self._thread.start()
        written: Future[None] = Future()
        self._tasks.put((written, rows, partitions))
        self._queue.append((written, rows.nbytes))
        self.rows += rows.num_rows

    def finish(self) -> list[DataFile]:
        """Complete all files.

        Raises:
            LandingError: if the store does not take one. It is among those that `discard` deletes.
        """
        with of_store(self._store.name, _UNWRITTEN):
            try:
                self._wait(0)
            finally:
                self._end_thread()
            for value in list(self._open):
                self._closed.append(self._open[value].close())
                del self._open[value]
        return self._closed

    def discard(self) -> None:
        """Delete all files: for those that no commit names, and that no commit under way may name.

        Raises:
            LandingError: if some may be left. All were tried.
        """
        self._end_thread()
        failure: Exception | None = None
        for file in self._open.values():
            try:
                file.abandon()
            except Exception as error:  # of the store, whose errors are of many classes
                failure = error
        for path in [each.path for each in self._closed] + [each.path for each in self._open.values()]:
            try:
                self._store.delete(path)
            except FileNotFoundError:
                pass  # a file that could not be completed
            except Exception as error:  # as above
                failure = error
        self._closed, self._open = [], {}
        if failure is not None:
            raise landing_error(self._store.name, "files that no commit names are left", failure)

    def _queued_bytes(self) -> int:
        return sum(size for _, size in self._queue)

    def _wait(self, most_bytes: int) -> None:
        """Wait until no more bytes than these are in the queue."""
        while self._queue and (self._queue[0][0].done() or self._queued_bytes() > most_bytes):
            self._queue[0][0].result()
            self._queue.popleft()

    def _end_thread(self) -> None:
        """Have the thread end after what it is writing."""
        for written, _ in self._queue:
            written.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._tasks.put(None)
            thread.join()
        self._queue.clear()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            written, rows, partitions = task
            if written.set_running_or_notify_cancel():
                try:
                    self._append(rows, partitions)
                except BaseException as error:  # raised to the caller of write() or finish()
                    written.set_exception(error)
                else:
                    written.set_result(None)

    def _append(self, rows: Any, partitions: Any | None) -> None:
        if partitions is None:
            self._file(None).append(rows)
        else:
            for value, indices in _by_value(partitions):
                # Copied: a view of few rows would keep all of them in memory until its row group is written.
                self._file(value).append(rows.take(indices))
        while sum(each.buffered_bytes for each in self._open.values()) > self._share_bytes:
            max(self._open.values(), key=lambda each: each.buffered_bytes).write_row_group()
        self._size = sum(each.size for each in self._closed) + sum(each.size for each in self._open.values())

    def _file(self, value: Any) -> _OpenFile:
        if value not in self._open:
            if len(self._open) >= MAX_OPEN:
                largest = max(self._open.values(), key=lambda each: each.size)
                self._closed.append(self._open.pop(largest.partition).close())
            self._open[value] = _OpenFile(self._path_of(str(uuid4()), value), value, self._store, self._schema)
        return self._open[value]


def _by_value(partitions: Any) -> Iterator[tuple[Any, Any]]:
    """Each value of a column, and the indices of its rows in their order."""
    encoded: Any = partitions.dictionary_encode(null_encoding="encode")
    order: Any = pc.sort_indices(encoded.indices)  # a stable sort
    start = 0
    for counted in pc.value_counts(encoded.indices.take(order)).to_pylist():
        yield encoded.dictionary[counted["values"]].as_py(), order.slice(start, counted["counts"])
        start += counted["counts"]


def leaf_paths(schema: Any) -> list[tuple[str, ...] | None]:
    """The names on the way to each Parquet column, in their order; `None` for columns within lists and maps."""
    return [path for field in schema for path in _leaves(field.type, (field.name,), is_repeated=False)]


def _leaves(kind: Any, path: tuple[str, ...], is_repeated: bool) -> list[tuple[str, ...] | None]:
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(field.type, (*path, field.name), is_repeated)]
    if pa.types.is_list(kind):
        return _leaves(kind.value_type, path, is_repeated=True)
    if pa.types.is_map(kind):
        return _leaves(kind.key_type, path, True) + _leaves(kind.item_type, path, True)
    return [None if is_repeated else path]


class Extremes(NamedTuple):
    """What the footer of a file says of a column."""

    smallest: Any
    """`None` if it is not known."""
    largest: Any
    nulls: int | None


def extremes(metadata: Any, schema: Any) -> Mapping[tuple[str, ...], Extremes]:
    """The extremes of the columns of a file that are not within lists or maps, by the names on the way to them."""
    found: dict[tuple[str, ...], Extremes] = {}
    for index, path in enumerate(leaf_paths(schema)):
        groups = [metadata.row_group(number).column(index).statistics for number in range(metadata.num_row_groups)]
        if path is None or not groups or any(each is None for each in groups):
            continue
        nulls = sum(each.null_count for each in groups) if all(each.has_null_count for each in groups) else None
        # A group of nulls alone has no extremes.
        told = [each for each in groups if each.num_values]
        low, high = None, None
        if told and all(each.has_min_max for each in told):
            with suppress(OverflowError):  # times that Python does not have
                low, high = min(each.min for each in told), max(each.max for each in told)
        found[path] = Extremes(low, high, nulls)
    return found

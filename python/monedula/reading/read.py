"""Bounded reads without a group: `read`, `read_range` and their result, `RecordStream`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar

from monedula._arguments import (
    RawPosition,
    is_pair,
    loses_values,
    raw_partition,
    timestamp_ms,
    topic_names,
    truth,
    whole_number,
)
from monedula._monedula import Batch, ReaderCore, Schema
from monedula._reprs import counted, html_table, some
from monedula.config import Settings, Unpicklable, raw_columns, raw_settings
from monedula.consumer._base import MAX_BYTES, MAX_ROWS
from monedula.errors import ArgumentError
from monedula.formats._typed import Typed, check_columns, pinned, selected, spec_of
from monedula.reading._export import installed, no_array, to_polars
from monedula.types.conditions import Where
from monedula.types.partitions import TopicPartition
from monedula.types.times import EXPECTED_TIME, time_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Bound = int | str | datetime
"""One end of a range: an offset (if negative, counted from the end of the log), `"earliest"`, `"latest"`, or a time: an
aware datetime, or a text such as `"1h ago"`, `"yesterday"`, `"2026-11-21T10:00:00Z"`."""

P = TypeVar("P", bound=tuple[str, int])
"""A partition as a dict key: a `TopicPartition` or a plain tuple, as the key type of a Mapping is invariant."""

Order = Literal["partition"]
"""The order of the rows of a read: by topic, partition and offset."""

TOPICS_SECOND = "the topics come second, as in read(settings, 'orders')"

Progress = Callable[[int, int], object]
"""Called after each batch with the number of offsets passed so far, and the number of offsets to read in total."""


def read(
    config: Settings,
    topics: str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]],
    *,
    start: Bound | Mapping[P, Bound] = "earliest",
    end: Bound | Mapping[P, Bound] = "latest",
    where: Where | None = None,
    max_lateness: float | timedelta | None = None,
    order: Order | None = None,
    columns: Sequence[str] | None = None,
    headers: bool = False,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
    key: Typed | None = None,
    value: Typed | None = None,
) -> "RecordStream":
    """Read topics from `start` to before `end`, without a group.

    Both offsets of each partition are determined once, when the read begins: records that arrive later are not read.
    The read ends at an offset, not after a number of records, so compaction and transaction markers do not disturb it.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        start: an offset (negative: that many before the end), `"earliest"`, `"latest"`, or a time, for the first record
            that is not older: an aware datetime, or a text such as `"1h ago"`, `"yesterday"`,
            `"2026-11-21T10:00:00Z"`; or a dict of these by `(topic, partition)`.
        end: the same; the first offset that is not read.
        where: a condition on `topic`, `partition`, `offset` and `timestamp`, which decides what is fetched, and on
            `key` and `headers.NAME`, which decides what is decoded. Only the records that meet it are returned. It is a
            tuple such as `("timestamp", ">=", "1h ago")` or `("headers.type", "=", "paid")`; a list of tuples, all of
            which must hold; a list of such lists, one of which must hold; or an expression of pyarrow or polars.
        max_lateness: the most by which a record's timestamp can be before the timestamp of an earlier record in its
            partition, in seconds or as `timedelta`. Only with it, an upper bound on `timestamp` ends the read early;
            records that are later than it says may then be missed.
        order: `"partition"` for all rows of one partition before those of the next, in the order of topics and
            partitions, so that each read of the same offsets has the same sequence of rows. If left out, partitions
            interleave as they arrive, which is faster.
        columns: names of the columns of a batch; by default all but `headers`. They may be fields of a value with
            `flatten=True`, whose other fields are left out then.
        headers: whether to add the `headers` column.
        max_rows: the most rows of a batch.
        max_bytes: the most bytes of a batch's columns.
        progress: called after each batch with the number of offsets passed, and the number of offsets in total.
        key: how keys are decoded, such as `monedula.Json(schema)`, `Avro(schema)` or `Protobuf(schema)`; bytes if
            left out.
        value: how values are decoded; bytes if left out.

    Returns:
        A stream of batches: iterate it, or pass it to anything that takes Arrow streams, such as
        `pyarrow.table(stream)`, `polars.DataFrame(stream)` or DuckDB.

    Raises:
        ArgumentError: if an argument is invalid, such as a pattern: topics are given by name.
        UnknownTopicError: if a topic or partition does not exist.
        OffsetOutOfRangeError: if `start` or `end` lies outside of the log. The stream raises it too, if records are
            deleted while it reads: nothing is skipped silently.
        BrokerConnectionError: if the cluster cannot be reached.
        KafkaTimeoutError: if there is no progress for `default.api.timeout.ms`.
    """
    try:
        raw = raw_settings(config, {}, in_place_of_text=TOPICS_SECOND)
    finally:
        del config  # keeps passwords out of tracebacks that show locals
    ranges = [
        (topic, partition, bound_of(start, topic, partition, "start"), bound_of(end, topic, partition, "end"))
        for topic, partition in targets(topics, start, end)
    ]
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress={progress!r} cannot be called")
    check_without_dead_letters(key=key, value=value)
    names = list(dict.fromkeys(topic for topic, *_ in ranges))
    key, value = pinned(raw, key, "key", names), pinned(raw, value, "value", names)
    columns, values, fields = selected(raw_columns(columns), value)
    check_columns(columns, key, value)
    reading = (raw, columns, truth("headers", headers), max_rows, max_bytes, spec_of("key", key), values)
    in_order = is_ordered(order)
    if where is not None:
        # Imported here, so that programs that only consume do not pay for the import.
        from monedula.reading._bounded import reader_of

        return RecordStream(reader_of(where, max_lateness, ranges, *reading, fields, in_order), progress)
    if max_lateness is not None:
        raise ArgumentError("max_lateness says how a condition on timestamp is read; without where it has no effect")
    core = ReaderCore(*reading, fields=fields, in_order=in_order)
    try:
        core.begin(ranges)
    except BaseException:
        core.close()
        raise
    return RecordStream(core, progress)


def read_range(
    config: Settings,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    columns: Sequence[str] | None = None,
    headers: bool = False,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
    key: Typed | None = None,
    value: Typed | None = None,
) -> "RecordStream":
    """Read one partition from offset `start` to before offset `end`. Arguments, result and errors as `read`."""
    pair = raw_partition((topic, partition))
    try:
        return read(
            config,
            [pair],
            start={pair: start},
            end={pair: end},
            columns=columns,
            headers=headers,
            max_rows=max_rows,
            max_bytes=max_bytes,
            progress=progress,
            key=key,
            value=value,
        )
    finally:
        del config  # keeps passwords out of tracebacks that show locals


class RecordStream(Unpicklable):
    """The batches of a bounded read, as an iterator or as an Arrow stream.

    It can be read once: the Arrow stream contains only the batches that were not iterated before.
    """

    def __init__(self, core: ReaderCore, progress: Progress | None = None) -> None:
        self._core = core
        self._on_batch = progress
        self._exported = False
        self._closed = False
        # Kept for the repr: asking the core waits while another thread reads.
        self._ranges = core.ranges()
        self._passed, self._total = core.progress()

    def __repr__(self) -> str:
        """Topics, and how far the stream is as of its last batch."""
        topics = {topic for (topic, _), _ in self._ranges}
        of = f" of {some(topics)}" if topics else ""
        far = f"{counted(len(self._ranges), 'partition')}, {self._passed:,} of {counted(self._total, 'offset')}"
        end = ", closed" if self._closed else ", handed out" if self._exported else ""
        return f"<monedula.RecordStream{of}: {far}{end}>"

    def _repr_html_(self) -> str:
        """The offsets of the first partitions, for notebooks: the rows can be read once."""
        rows = ((*partition, *offsets) for partition, offsets in self._ranges)
        return html_table(repr(self), ("topic", "partition", "start", "end"), rows, len(self._ranges))

    @property
    def schema(self) -> Schema:
        """The Arrow schema of every batch; see `Consumer.schema`."""
        return self._core.schema

    @property
    def ranges(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset to read of each partition, and the offset after the last one."""
        return {TopicPartition(*partition): offsets for partition, offsets in self._ranges}

    @property
    def progress(self) -> tuple[int, int]:
        """The number of offsets passed so far, and the total number; compacted offsets and markers count as passed."""
        return self._core.progress()

    def metrics(self) -> dict[str, int]:
        """Counters of this read: connections, requests, bytes, records and so on; as `Consumer.metrics`."""
        return dict(self._core.metrics())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        if self._exported:
            raise ArgumentError("this stream was handed out already; a stream can be read once: start another read")
        batch = self._core.next()
        if batch is None:
            self._report()
            self.close()
            raise StopIteration
        self._report()
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_schema__(self) -> object:
        """Export the schema as an `arrow_schema` capsule."""
        return self._core.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the remaining batches as an `arrow_array_stream` capsule; `requested_schema` is ignored.

        Raises:
            ArgumentError: on a second call: a stream can be read once.
        """
        if self._exported:
            raise ArgumentError("this stream was handed out already; a stream can be read once: start another read")
        self._exported = True
        return self._core.stream(self._report if self._on_batch is not None else None)

    def to_pyarrow(self) -> "pa.Table":
        """Read the remaining batches into one table. Needs pyarrow (`pip install 'monedula[arrow]'`).

        Returns:
            A `pyarrow.Table`.
        """
        pyarrow = installed("pyarrow", "arrow")
        # Iterate instead of using __arrow_c_stream__, which would turn this stream's errors into pyarrow's.
        batches = [pyarrow.record_batch(batch) for batch in self]
        self._exported = True
        table: pa.Table = pyarrow.Table.from_batches(batches, pyarrow.schema(self.schema))
        return table

    def to_pandas(self, **options: Any) -> "pd.DataFrame":
        """Read the remaining batches into one frame. Needs pandas and pyarrow (`pip install 'monedula[pandas]'`).

        Args:
            **options: those of pyarrow's `to_pandas`, such as `types_mapper=pandas.ArrowDtype`.

        Returns:
            A `pandas.DataFrame`.
        """
        installed("pandas", "pandas")
        frame: pd.DataFrame = self.to_pyarrow().to_pandas(**options)
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """Read the remaining batches into one frame. Needs polars (`pip install 'monedula[polars]'`).

        Returns:
            A `polars.DataFrame`.
        """
        polars = installed("polars", "polars")
        frames = [polars.DataFrame(batch) for batch in self]
        frame: pl.DataFrame = polars.concat(frames, rechunk=False) if frames else to_polars(self)
        self._exported = True
        return frame

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        raise no_array(self)

    def close(self) -> None:
        """End the read early. At its end the stream closes itself. A stream that was closed early returns no more."""
        self._closed = True
        self._core.close()

    def _report(self) -> None:
        self._passed, self._total = self._core.progress()
        if self._on_batch is not None:
            self._on_batch(self._passed, self._total)


_INSTEAD = "read() takes names, or (topic, partition) pairs; list_topics() of an Admin has all names"
_PATTERN_INSTEAD = (
    "read() takes names, not a pattern: [name for name in Admin(settings).list_topics() if re.fullmatch(pattern, name)]"
)


def targets(
    topics: str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]],
    *edges: Bound | Mapping[Any, Bound],
) -> list[tuple[str, int | None]]:
    """Check the topics and partitions to read; `None` stands for all partitions of a topic."""
    if loses_values(topics):
        raise ArgumentError(
            f"topics={topics!r}: expected names or (topic, partition) pairs; where they are read from and to is "
            f"start= and end=, such as start={{('orders', 0): 2}}"
        )
    single = isinstance(topics, (str, bytes)) or is_pair(topics) or not isinstance(topics, Iterable)
    items: list[object] = [topics] if single else list(topics)
    by_partition = any(isinstance(edge, Mapping) for edge in edges)
    targets: list[tuple[str, int | None]] = []
    for item in items:
        if isinstance(item, str):
            if by_partition:
                raise ArgumentError(
                    f"start or end is given by partition, so {item!r} must be too: use [({item!r}, 0), ...]"
                )
            targets.extend((name, None) for name in topic_names([item], _INSTEAD, _PATTERN_INSTEAD))
        elif isinstance(item, bytes):
            topic_names([item], _INSTEAD)
        else:
            targets.append(raw_partition(item))
    if not targets:
        raise ArgumentError("nothing to read: give a topic")
    return targets


def is_ordered(order: object) -> bool:
    """Check the argument `order`; true for rows partition by partition."""
    if order not in (None, "partition"):
        raise ArgumentError.of("order", order, "expected 'partition'; sort a table by any other column")
    return order is not None


def check_without_dead_letters(**given: object) -> None:
    """Check that a read supports this decoding of keys and values."""
    for name, spec in given.items():
        if isinstance(spec, Typed) and spec.dead_letter is not None:
            raise ArgumentError(f"{name}: dead letters are for consumers, which commit; here use mode='null' or 'drop'")


def bound_of(bound: Bound | Mapping[Any, Bound], topic: str, partition: int | None, name: str) -> RawPosition:
    """Convert one end of a range to the core's form."""
    if isinstance(bound, Mapping):
        try:
            bound = bound[(topic, partition or 0)]
        except KeyError:
            raise ArgumentError(f"{name} has no entry for {(topic, partition)!r}") from None
    if isinstance(bound, datetime):
        return ("timestamp", timestamp_ms(bound))
    offset = whole_number(bound)
    if offset is not None:
        return ("offset", offset)
    if isinstance(bound, str):
        if bound in ("earliest", "latest"):
            return (bound, 0)
        if time_of(bound) is not None:
            return ("timestamp", timestamp_ms(bound))
    raise ArgumentError.of(name, bound, f"expected an offset, 'earliest', 'latest', or a time: {EXPECTED_TIME}")

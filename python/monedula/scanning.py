"""Topics as tables that are queried: `scan`, a `LazyFrame` of polars, and `dataset`, a `Dataset` of pyarrow for DuckDB.

What a query needs is known when it runs: `TopicScan` reads that much of the topics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from monedula._consumer_base import MAX_BYTES, MAX_ROWS
from monedula._conversions import installed
from monedula._monedula import Batch, ReaderCore
from monedula._where import Condition, TooManyAlternativesError, Unknown, columns_of
from monedula._where.bounded import Range, begin, first_rows, lateness_ms, plan_of
from monedula.config import RawSettings, Settings, raw_settings
from monedula.reading import Bound, RecordStream, bound_of, targets

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.dataset

Topics = str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]]
Edge = Bound | Mapping[tuple[str, int], Bound]

_SMALL_ROWS = 10_000
_SMALL_FETCH = (("fetch.max.bytes", 64 << 10), ("max.partition.fetch.bytes", 64 << 10))
"""Fetches of a read for a few rows; a batch that is larger arrives all the same."""


class TopicScan:
    """What a query reads: settings, topics and their ends, from which any number of reads is begun."""

    def __init__(
        self, config: Settings, topics: Topics, start: Edge, end: Edge, headers: bool, max_lateness: object
    ) -> None:
        try:
            self._raw = raw_settings(config, {})
        finally:
            del config  # no traceback shows passwords as locals
        self.headers = headers
        self._late_ms = lateness_ms(max_lateness)
        self._ranges: list[Range] = []
        for topic, partition in targets(topics, start, end):
            first = bound_of(start, topic, partition, "start")
            self._ranges.append((topic, partition, first, bound_of(end, topic, partition, "end")))
        self.topics = sorted({topic for topic, *_ in self._ranges})
        # Bad settings are an error here and not when the query runs; this connects to nothing.
        ReaderCore(self._raw, None, headers, 1, 1).close()

    def read(self, condition: Condition, columns: Sequence[str] | None, max_rows: int = MAX_ROWS) -> RecordStream:
        """The rows that may meet the condition, in batches of these columns."""
        core = self._core(self._raw, condition, columns, max_rows)
        try:
            begin(core, self._plan(core, condition))
        except BaseException:
            core.close()
            raise
        return RecordStream(core)

    def read_first(self, rows: int, columns: Sequence[str] | None) -> Iterator[Batch]:
        """The first rows, and perhaps a few more; little else is fetched."""
        condition = Unknown("")
        raw = self._raw if rows > _SMALL_ROWS else _with_small_fetches(self._raw)
        core = self._core(raw, condition, columns, max(min(rows, MAX_ROWS), 1))
        try:
            yield from first_rows(core, self._plan(core, condition), rows)
        finally:
            core.close()

    def _core(self, raw: RawSettings, condition: Condition, columns: Sequence[str] | None, max_rows: int) -> ReaderCore:
        compared = sorted(columns_of(condition))
        headers = columns is None and self.headers
        names = None if columns is None else list(columns)
        return ReaderCore(raw, names, headers, max_rows, MAX_BYTES, compared=compared)

    def _plan(self, core: ReaderCore, condition: Condition) -> Any:
        try:
            return plan_of(core, self._ranges, condition, self._late_ms)
        except TooManyAlternativesError:
            return plan_of(core, self._ranges, Unknown(""), self._late_ms)


def _with_small_fetches(raw: RawSettings) -> RawSettings:
    given = {key.strip().replace("_", ".") for key, _ in raw}
    # librdkafka's names of the same settings are aliases here.
    if given & {"fetch.max.bytes", "max.partition.fetch.bytes", "fetch.message.max.bytes", "fetch.min.bytes"}:
        return raw
    small = RawSettings([*raw, *((key, str(value)) for key, value in _SMALL_FETCH)])
    small.token_source = raw.token_source
    return small


def scan(
    config: Settings,
    topics: Topics,
    *,
    start: Edge = "earliest",
    end: Edge = "latest",
    headers: bool = False,
    max_lateness: float | timedelta | None = None,
) -> "pl.LazyFrame":
    """Topics as a `LazyFrame` of polars: what a query does not need is not fetched, or not decoded.

    Nothing is read, and no broker is asked, before the query runs; it reads what the topics hold then. Only the columns
    that it uses are decoded. Its conditions on `topic`, `partition`, `offset` and `timestamp` decide which partitions
    and offsets are fetched, and all its conditions are applied. `head(10)` fetches about as much.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        start: where to begin at the earliest, as for `read`.
        end: the first offset that is not read, as for `read`.
        headers: whether to add the `headers` column.
        max_lateness: as for `read`: with it an upper bound of `timestamp` ends the read early.

    Returns:
        A `polars.LazyFrame`. When it is collected it raises what `read` raises.

    Raises:
        ArgumentError: if an argument or a setting is invalid.
        ModuleNotFoundError: without polars (`pip install 'monedula[polars]'`).
    """
    try:
        source = TopicScan(config, topics, start, end, headers, max_lateness)
    finally:
        del config  # no traceback shows passwords as locals
    installed("polars", "polars")
    from monedula._where.polars_source import lazy_frame

    return lazy_frame(source)


def dataset(
    config: Settings,
    topics: Topics,
    *,
    start: Edge = "earliest",
    end: Edge = "latest",
    headers: bool = False,
    max_lateness: float | timedelta | None = None,
) -> "pyarrow.dataset.Dataset":
    """Topics as a `Dataset` of pyarrow, which DuckDB queries by the name of the variable: `SELECT ... FROM orders`.

    Nothing is read, and no broker is asked, before a query runs; it reads what the topics hold then. DuckDB hands over
    the columns and conditions of the query: only these columns are decoded, and conditions on `topic`, `partition`,
    `offset` and `timestamp` decide which partitions and offsets are fetched.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        start: where to begin at the earliest, as for `read`.
        end: the first offset that is not read, as for `read`.
        headers: whether to add the `headers` column.
        max_lateness: as for `read`: with it an upper bound of `timestamp` ends the read early.

    Returns:
        A `pyarrow.dataset.Dataset`: `scanner`, `to_table`, `to_batches`, `head`, `count_rows` and `filter` work, and
        take the columns and filters that every dataset takes.

    Raises:
        ArgumentError: if an argument or a setting is invalid.
        ModuleNotFoundError: without pyarrow (`pip install 'monedula[arrow]'`).
    """
    try:
        source = TopicScan(config, topics, start, end, headers, max_lateness)
    finally:
        del config  # no traceback shows passwords as locals
    installed("pyarrow", "arrow")
    from monedula._where.arrow_dataset import TopicDataset

    return TopicDataset(source)

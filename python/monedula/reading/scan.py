"""Topics as tables that are queried: `scan`, a `LazyFrame` of polars, and `dataset`, a `Dataset` of pyarrow for DuckDB.

What a query needs is known when it runs: `TopicScan` reads that much of the topics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from monedula._monedula import Batch, ColumnSpec, ReaderCore
from monedula.config import RawSettings, Settings, raw_settings
from monedula.consumer._base import MAX_BYTES, MAX_ROWS
from monedula.formats._typed import Typed, pinned, spec_of
from monedula.reading._export import installed
from monedula.reading.filters import Condition, TooManyAlternativesError, Unknown, columns_of
from monedula.reading.filters.bounded import Range, begin, first_rows, lateness_ms, plan_of
from monedula.reading.read import TOPICS_SECOND, Bound, RecordStream, bound_of, check_without_dead_letters, targets

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.dataset

Topics = str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]]
Edge = Bound | Mapping[tuple[str, int], Bound]

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of batches in their order, if no field is a column of its own."""

_SMALL_ROWS = 10_000
_SMALL_FETCH = (("fetch.max.bytes", 64 << 10), ("max.partition.fetch.bytes", 64 << 10))
"""Fetches of a read for a few rows; a batch that is larger arrives all the same."""


class ScanOptions(TypedDict, total=False):
    """What `scan` and `dataset` take beside the settings and the topics. They say what each is."""

    start: Edge
    end: Edge
    headers: bool
    max_lateness: float | timedelta | None
    key: Typed | None
    value: Typed | None


class TopicScan:
    """What a query reads: settings, topics and their ends, from which any number of reads is begun."""

    def __init__(
        self,
        config: Settings,
        topics: Topics,
        start: Edge = "earliest",
        end: Edge = "latest",
        headers: bool = False,
        max_lateness: object = None,
        key: Typed | None = None,
        value: Typed | None = None,
    ) -> None:
        try:
            self._raw = raw_settings(config, {}, in_place_of_text=TOPICS_SECOND)
        finally:
            del config  # no traceback shows passwords as locals
        self._headers = headers
        self._late_ms = lateness_ms(max_lateness)
        self._ranges: list[Range] = []
        for topic, partition in targets(topics, start, end):
            first = bound_of(start, topic, partition, "start")
            self._ranges.append((topic, partition, first, bound_of(end, topic, partition, "end")))
        self.topics = sorted({topic for topic, *_ in self._ranges})
        check_without_dead_letters(key=key, value=value)
        key, value = pinned(self._raw, key), pinned(self._raw, value)
        self._specs = {"key": spec_of("key", key), "value": spec_of("value", value)}
        self._decoded = {name: spec for name, spec in (("key", key), ("value", value)) if spec is not None}
        # Bad settings are an error here and not when the query runs; this connects to nothing.
        with self.empty() as stream:
            self.names = stream.schema.names
        self._fields = [name for name in self.names if name not in KAFKA_COLUMNS]

    def empty(self) -> RecordStream:
        """No batches, with the schema of those that have every column."""
        return RecordStream(ReaderCore(self._raw, None, self._headers, 1, 1, self._specs["key"], self._specs["value"]))

    def read(self, condition: Condition, columns: Sequence[str], max_rows: int = MAX_ROWS) -> RecordStream:
        """The rows that may meet the condition, in batches of these columns, and perhaps others."""
        core = self._core(self._raw, condition, columns, max_rows)
        try:
            begin(core, self._plan(core, condition))
        except BaseException:
            core.close()
            raise
        return RecordStream(core)

    def read_first(self, rows: int, columns: Sequence[str]) -> Iterator[Batch]:
        """The first rows, and perhaps a few more; little else is fetched."""
        condition = Unknown("")
        raw = self._raw if rows > _SMALL_ROWS else _with_small_fetches(self._raw)
        core = self._core(raw, condition, columns, max(min(rows, MAX_ROWS), 1))
        try:
            yield from first_rows(core, self._plan(core, condition), rows)
        finally:
            core.close()

    def _core(self, raw: RawSettings, condition: Condition, columns: Sequence[str], max_rows: int) -> ReaderCore:
        specs = {name: self._spec(name, columns) for name in ("key", "value")}
        needed = {name for name, spec in specs.items() if spec is not None} | columns_of(condition)
        names = [name for name in KAFKA_COLUMNS if name in columns]
        if not names:
            # The fields stand in place of the value.
            names = ["value"]
        return ReaderCore(raw, names, False, max_rows, MAX_BYTES, specs["key"], specs["value"], sorted(needed))

    def _spec(self, column: str, columns: Sequence[str]) -> ColumnSpec | None:
        """How a column is decoded if these columns are asked for; `None` if it need not be decoded."""
        given, spec = self._decoded.get(column), self._specs[column]
        if given is None or spec is None:
            return None
        if given.drops:
            # Which records are left out must not depend on what is asked for.
            return spec
        if not given.flatten:
            return spec if column in columns else None
        fields = [name for name in self._fields if name in columns]
        return spec.only(fields) if fields else None

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


def _check_options(function: str, options: ScanOptions) -> None:
    if unknown := [name for name in options if name not in ScanOptions.__annotations__]:
        from monedula._migration_hints import no_argument

        raise no_argument(function, unknown)


def scan(config: Settings, topics: Topics, **options: Unpack[ScanOptions]) -> "pl.LazyFrame":
    """Topics as a `LazyFrame` of polars: what a query does not need is not fetched, or not decoded.

    Nothing is read, and no broker is asked, before the query runs; it reads what the topics hold then. Only the columns
    that it uses are decoded. Its conditions on `topic`, `partition`, `offset` and `timestamp` decide which partitions
    and offsets are fetched, and all its conditions are applied. `head(10)` fetches about as much.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        **options: `start`, `end`, `max_lateness`, `key` and `value` as for `read`, and `headers`, whether to add the
            `headers` column. With `value=Json(schema, flatten=True)` each field is a column, and only fields that the
            query uses are decoded.

    Returns:
        A `polars.LazyFrame`. When it is collected it raises what `read` raises.

    Raises:
        ArgumentError: if an argument or a setting is invalid.
        ModuleNotFoundError: without polars (`pip install 'monedula[polars]'`).
    """
    try:
        _check_options("scan", options)
        source = TopicScan(config, topics, **options)
    finally:
        del config  # no traceback shows passwords as locals
    installed("polars", "polars")
    from monedula.reading.filters.polars_source import lazy_frame

    return lazy_frame(source)


def dataset(config: Settings, topics: Topics, **options: Unpack[ScanOptions]) -> "pyarrow.dataset.Dataset":
    """Topics as a `Dataset` of pyarrow, which DuckDB queries by the name of the variable: `SELECT ... FROM orders`.

    Nothing is read, and no broker is asked, before a query runs; it reads what the topics hold then. DuckDB hands over
    the columns and conditions of the query: only these columns are decoded, and conditions on `topic`, `partition`,
    `offset` and `timestamp` decide which partitions and offsets are fetched.

    Args:
        config: settings, as for `Consumer`.
        topics: one topic, several topics, or `(topic, partition)` pairs.
        **options: `start`, `end`, `max_lateness`, `key` and `value` as for `read`, and `headers`, whether to add the
            `headers` column. With `value=Json(schema, flatten=True)` each field is a column, and only fields that the
            query uses are decoded.

    Returns:
        A `pyarrow.dataset.Dataset`: `scanner`, `to_table`, `to_batches`, `head`, `count_rows` and `filter` work, and
        take the columns and filters that every dataset takes.

    Raises:
        ArgumentError: if an argument or a setting is invalid.
        ModuleNotFoundError: without pyarrow (`pip install 'monedula[arrow]'`).
    """
    try:
        _check_options("dataset", options)
        source = TopicScan(config, topics, **options)
    finally:
        del config  # no traceback shows passwords as locals
    installed("pyarrow", "arrow")
    from monedula.reading.filters.arrow_dataset import TopicDataset

    return TopicDataset(source)

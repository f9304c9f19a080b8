"""`TopicScan`, the base of `scan` and `dataset`: it reads only the parts of topics that a query needs, when it runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from monedula._arguments import truth
from monedula._filters import Condition, TooManyAlternativesError, Unknown, columns_of
from monedula._filters.records import record_filter
from monedula._migration_hints import no_argument
from monedula._monedula import Batch, ColumnSpec, ReaderCore
from monedula.config import RawSettings, Settings, raw_settings
from monedula.consumer._base import MAX_BYTES, MAX_ROWS
from monedula.formats._typed import KAFKA_COLUMNS, Typed, pinned, spec_of
from monedula.reading._bounded import Range, begin, first_rows, lateness_ms, plan_of
from monedula.reading.read import (
    TOPICS_SECOND,
    Bound,
    Order,
    RecordStream,
    bound_of,
    check_without_dead_letters,
    is_ordered,
    targets,
)

Topics = str | tuple[str, int] | Iterable[str] | Iterable[tuple[str, int]]
Edge = Bound | Mapping[Any, Bound]

_SMALL_ROWS = 10_000
_SMALL_FETCH = (("fetch.max.bytes", 64 << 10), ("max.partition.fetch.bytes", 64 << 10))
"""Limits of the fetches for a read of few rows; a larger batch still arrives whole."""


class ScanOptions(TypedDict, total=False):
    """Options of `scan` and `dataset`, which document them."""

    start: Edge
    end: Edge
    headers: bool
    max_lateness: float | timedelta | None
    order: Order | None
    key: Typed | None
    value: Typed | None


class TopicScan:
    """Source of a query: settings, topics and their ends, from which any number of reads can start."""

    def __init__(
        self,
        config: Settings,
        topics: Topics,
        start: Edge = "earliest",
        end: Edge = "latest",
        headers: bool = False,
        max_lateness: object = None,
        order: Order | None = None,
        key: Typed | None = None,
        value: Typed | None = None,
    ) -> None:
        try:
            self._raw = raw_settings(config, {}, in_place_of_text=TOPICS_SECOND)
        finally:
            del config  # keeps passwords out of tracebacks that show locals
        self._headers = truth("headers", headers)
        self._late_ms = lateness_ms(max_lateness)
        self._in_order = is_ordered(order)
        self._ranges: list[Range] = []
        for topic, partition in targets(topics, start, end):
            first = bound_of(start, topic, partition, "start")
            self._ranges.append((topic, partition, first, bound_of(end, topic, partition, "end")))
        self.topics = sorted({topic for topic, *_ in self._ranges})
        check_without_dead_letters(key=key, value=value)
        key, value = pinned(self._raw, key, "key", self.topics), pinned(self._raw, value, "value", self.topics)
        self._specs = {"key": spec_of("key", key), "value": spec_of("value", value)}
        self._decoded = {name: spec for name, spec in (("key", key), ("value", value)) if spec is not None}
        # Bad settings must fail here, not when the query runs; this connects to nothing.
        with self.empty() as stream:
            self.names = stream.schema.names
        self._fields = [name for name in self.names if name not in KAFKA_COLUMNS]

    def empty(self) -> RecordStream:
        """Return a stream without batches that has the schema of all columns."""
        return RecordStream(ReaderCore(self._raw, None, self._headers, 1, 1, self._specs["key"], self._specs["value"]))

    def read(self, condition: Condition, columns: Sequence[str], max_rows: int = MAX_ROWS) -> RecordStream:
        """Read a superset of the rows that meet the condition, in batches of these columns."""
        core = self._core(self._raw, condition, columns, max_rows)
        try:
            begin(core, self._plan(core, condition))
        except BaseException:
            core.close()
            raise
        return RecordStream(core)

    def read_first(self, rows: int, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the first rows, and perhaps a few more, with little other data fetched."""
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
            # Flattened fields replace the value.
            names = ["value"]
        # The query compares what a key was decoded to.
        kept = record_filter(condition, key="key" not in self._decoded, always=any(specs.values()))
        limits = (max_rows, MAX_BYTES)
        compared, in_order = sorted(needed), self._in_order
        return ReaderCore(raw, names, False, *limits, specs["key"], specs["value"], compared, None, kept, in_order)

    def _spec(self, column: str, columns: Sequence[str]) -> ColumnSpec | None:
        """Return the decoding of a column for a query of these columns; `None` if it need not be decoded."""
        given, spec = self._decoded.get(column), self._specs[column]
        if given is None or spec is None:
            return None
        if given.drops:
            # Decode all fields, since dropped records must not depend on the query's columns.
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
    # Aliases include librdkafka's names of the same settings.
    if given & {"fetch.max.bytes", "max.partition.fetch.bytes", "fetch.message.max.bytes", "fetch.min.bytes"}:
        return raw
    small = RawSettings([*raw, *((key, str(value)) for key, value in _SMALL_FETCH)])
    small.token_source = raw.token_source
    return small


def check_options(function: str, options: ScanOptions) -> None:
    if unknown := [name for name in options if name not in ScanOptions.__annotations__]:
        raise no_argument(function, unknown)

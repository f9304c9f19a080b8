"""Starts a bounded read of the records that a condition selects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import ceil

from monedula._arguments import RawPosition, seconds
from monedula._filters import condition_of
from monedula._filters.conditions import Box, Condition, boxes, columns_of
from monedula._filters.ranges import Found, Plan, narrowed
from monedula._filters.records import record_filter
from monedula._monedula import Batch, ColumnSpec, ReaderCore
from monedula.config import RawSettings
from monedula.types.partitions import TopicPartition

Range = tuple[str, int | None, RawPosition, RawPosition]
"""A topic, a partition (`None` for all of the topic), and the two ends."""


def lateness_ms(max_lateness: object) -> int | None:
    """Convert the argument `max_lateness` to milliseconds."""
    if max_lateness is None:
        return None
    if isinstance(max_lateness, timedelta):
        max_lateness = max_lateness.total_seconds()
    number = seconds("max_lateness", max_lateness)
    if number == float("inf"):
        return None
    return ceil(number * 1000)


def reader_of(
    where: object,
    max_lateness: object,
    ranges: Iterable[Range],
    settings: RawSettings,
    columns: list[str] | None,
    headers: bool,
    max_rows: int,
    max_bytes: int,
    key: ColumnSpec | None,
    value: ColumnSpec | None,
    fields: list[str] | None,
    in_order: bool,
) -> ReaderCore:
    """Start a read of the records that the user's condition `where` selects."""
    condition, late_ms = condition_of(where), lateness_ms(max_lateness)
    compared = sorted(columns_of(condition))
    kept = record_filter(condition, always=key is not None or value is not None)
    core = ReaderCore(settings, columns, headers, max_rows, max_bytes, key, value, compared, fields, kept, in_order)
    try:
        begin(core, plan_of(core, ranges, condition, late_ms))
    except BaseException:
        core.close()
        raise
    return core


def plan_of(core: ReaderCore, ranges: Iterable[Range], condition: Condition, max_lateness_ms: int | None) -> Plan:
    """Plan the spans to read within the ranges, with the lookups that this needs."""
    resolved = core.resolve(list(_possible(core, ranges, condition)))
    bounds = {TopicPartition(*partition): (start, end) for partition, start, end in resolved}
    return narrowed(condition, bounds, _Lookups(core), max_lateness_ms)


def begin(core: ReaderCore, plan: Plan) -> None:
    """Start the planned read."""
    core.begin_within([(each, *span) for each, spans in plan.spans.items() for span in spans], _raw(plan.kept))


def first_rows(core: ReaderCore, plan: Plan, rows: int) -> Iterator[Batch]:
    """Yield batches of at least `rows` rows in total, partition by partition, and read little more than that.

    Pieces of as many offsets as rows are missing are read one after another. Where offsets have no records, or records
    are not kept, the pieces become larger.
    """
    missing = rows
    for partition, start, end in sorted((each, *span) for each, spans in plan.spans.items() for span in spans):
        size = missing
        while start < end and missing > 0:
            piece = (partition, start, min(start + size, end))
            kept = {partition: plan.kept[partition]} if partition in plan.kept else {}
            core.begin_within([piece], _raw(kept))
            while (batch := core.next()) is not None:
                missing -= batch.num_rows
                yield batch
            start, size = piece[2], max(missing, 2 * size)


def _raw(kept: Mapping[TopicPartition, Sequence[Box]]) -> list[tuple[tuple[str, int], Sequence[Box]]]:
    return [((partition.topic, partition.partition), some) for partition, some in kept.items()]


def _possible(core: ReaderCore, ranges: Iterable[Range], condition: Condition) -> Iterator[Range]:
    """Yield the ranges of partitions that may have matching rows; other partitions are not requested."""
    possible = [each for each in ranges if boxes(condition, each[0], each[1])]
    known = core.partitions_of([topic for topic, partition, _, _ in possible if partition is None])
    for topic, partition, start, end in possible:
        if partition is not None:
            yield topic, partition, start, end
            continue
        for _, index in (each for each in known if each[0] == topic):
            if boxes(condition, topic, index):
                yield topic, index, start, end


class _Lookups:
    def __init__(self, core: ReaderCore) -> None:
        self._core = core

    def first_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found]:
        asked = [((each.topic, each.partition), time_ms) for each, time_ms in times_ms.items()]
        return {TopicPartition(*each): found for each, found in self._core.first_at(asked)}

    def largest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Found]:
        asked = [(each.topic, each.partition) for each in partitions]
        return {TopicPartition(*each): found for each, found in self._core.max_timestamps(asked)}

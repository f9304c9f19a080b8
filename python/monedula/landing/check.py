"""`check`: which records of a topic a table has more than once, and which it lacks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from monedula.config import Settings, raw_settings
from monedula.errors import LandingError
from monedula.landing.job_settings import committed_only, setting
from monedula.reading.read import read
from monedula.types.partitions import TopicPartition

if TYPE_CHECKING:
    from monedula.landing.job import Target

_NEAR = 10_000
Ranges = Sequence[tuple[int, int]]
"""Ranges of offsets: the first one, and the one after the last."""


class PartitionCheck(NamedTuple):
    """What a table has of a partition."""

    rows: int
    start: int | None
    """Where the job began, or the offset of the first row; `None` if neither is known."""
    end: int | None
    """The position of the job, or else the offset after the last row."""
    repeated: Ranges
    """The offsets of which there is more than one row."""
    missing: Ranges
    """Offsets from `start` to `end` of records that the log has, and the table has not. Records that the decoder
    dropped or wrote to a dead-letter topic are among them."""
    unknown: Ranges
    """Offsets without a row that the log does not reach back to."""

    @property
    def ok(self) -> bool:
        """True if no record is there twice, and none is known to be missing."""
        return not self.repeated and not self.missing


@dataclass(frozen=True)
class TableCheck:
    """What a table has of a topic: the result of `check`.

    Attributes:
        partitions: the result for each partition of which the table has rows or a position.
    """

    partitions: Mapping[TopicPartition, PartitionCheck]

    @property
    def ok(self) -> bool:
        """True if it is so of all partitions."""
        return all(each.ok for each in self.partitions.values())


def check(settings: Settings, topic: str, target: "Target", *, job: str | None = None) -> TableCheck:
    """Compare the offsets in a table with those in the log.

    Offsets without a row are looked up in the log: those that it does not have either, because of compaction or as
    markers of transactions, are not missing. The memory that it takes grows with the number of gaps, not with the rows.

    Args:
        settings: settings, as for `read`.
        topic: the topic.
        target: the table, such as `monedula.Delta("./lake/orders")`.
        job: the name of the job, whose positions are the ends; `group.id`, or `"land-"` and the topic, if left out, as
            of `land`. Without positions of it a partition is looked at from its first row to its last.

    Returns:
        The ranges that are repeated, missing or unknown, for each partition.

    Raises:
        LandingError: if there is no table, or it has no column `_kafka`.
        UnknownTopicError: if the topic does not exist.
    """
    try:
        raw: Any = committed_only(raw_settings(settings, {}))
    finally:
        del settings  # no traceback shows passwords as locals
    table = target._table(job or setting(raw, "group.id") or f"land-{topic}")
    if not table.open():
        raise LandingError(f"{target!r}: there is no table")
    runs: dict[int, list[tuple[int, int]]] = {}
    for partitions, offsets in table.origins(topic):
        for number in pc.unique(partitions).to_pylist():
            runs.setdefault(number, []).extend(_runs(offsets.filter(pc.equal(partitions, number))))
    with read(raw, topic, columns=["offset"]) as ends:
        logs = dict(ends.ranges)
    starts, positions = table.starts(logs), table.positions(logs)
    found = {}
    for partition, log in sorted(logs.items()):
        each = runs.get(partition.partition, [])
        if each or positions[partition] is not None:
            start = min((at for at in (starts[partition], *(run[0] for run in each)) if at is not None), default=None)
            found[partition] = _compared(raw, partition, each, (start, positions[partition]), log, table.upserts)
    return TableCheck(found)


def _compared(
    settings: Settings,
    partition: TopicPartition,
    runs: list[tuple[int, int]],
    job: tuple[int | None, int | None],
    log: tuple[int, int],
    replaces: bool,
) -> PartitionCheck:
    """Look at the rows of a partition.

    Args:
        settings: for looking up what has no row.
        partition: the partition.
        runs: the ranges of offsets that have rows.
        job: where the job began, or the first row if that is before it, and the job's position.
        log: where the log begins and ends.
        replaces: whether rows of the table replace each other.
    """
    runs.sort()
    start, position = job
    after = start or 0
    repeated: list[tuple[int, int]] = []
    gaps: list[tuple[int, int]] = []
    for first, end in runs:
        if first < after:
            repeated.append((first, min(end, after)))
        elif first > after:
            gaps.append((after, first))
        after = max(after, end)
    if position is not None and position > after:
        gaps.append((after, position))
    # Rows that were replaced are no loss.
    missing, unknown = _looked_up(settings, partition, gaps, log) if gaps and not replaces else ([], [])
    rows = sum(end - first for first, end in runs)
    return PartitionCheck(rows, start, position or after, _merged(repeated), missing, unknown)


def _looked_up(
    settings: Settings, partition: TopicPartition, gaps: list[tuple[int, int]], log: tuple[int, int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The offsets of gaps that the log has, and those that are before or behind it."""
    begins, ends = log
    unknown = [(first, min(end, begins)) for first, end in gaps if first < begins]
    # Of a topic that was deleted and created again.
    unknown += [(max(first, ends), end) for first, end in gaps if end > ends]
    within = sorted((max(first, begins), min(end, ends)) for first, end in gaps if end > begins and first < ends)
    missing: list[tuple[int, int]] = []
    # Each marker of a transaction is a gap: those that are near each other are looked up by one read.
    for first, end in _merged(within, _NEAR):
        there: list[tuple[int, int]] = []
        with read(settings, [partition], start=first, end=end, columns=["offset"]) as stream:
            for batch in stream:
                there += _runs(batch["offset"])
        missing += _common(within, _merged(there))
    return _merged(missing), unknown


def _runs(offsets: Any) -> Iterable[tuple[int, int]]:
    """The ranges of consecutive offsets; an offset that is there twice makes two."""
    values: Any = pc.take(offsets, pc.sort_indices(offsets))
    if not len(values):
        return []
    breaks = pc.indices_nonzero(pc.not_equal(pc.pairwise_diff(values), pa.scalar(1, values.type))).to_pylist()
    starts = [0, *breaks]
    ends = [*breaks, len(values)]
    return [(values[first].as_py(), values[end - 1].as_py() + 1) for first, end in zip(starts, ends, strict=True)]


def _common(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The offsets that are in ranges of both lists, which are sorted and do not overlap."""
    found, index = [], 0
    for first, end in others:
        while index < len(some) and some[index][1] <= first:
            index += 1
        at = index
        while at < len(some) and some[at][0] < end:
            found.append((max(first, some[at][0]), min(end, some[at][1])))
            at += 1
    return found


def _merged(ranges: Iterable[tuple[int, int]], near: int = 0) -> list[tuple[int, int]]:
    """The ranges without overlaps; those with at most `near` offsets between them are one."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1] + near:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((first, end))
    return merged

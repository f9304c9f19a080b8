"""Divides offset ranges into tasks: `split` as Spark's KafkaOffsetRangeCalculator does, `coalesce` for fewer tasks."""

import heapq
import math
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import NamedTuple

from monedula.spark.options.values import INT_MAX
from monedula.types.partitions import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets of a partition from `start` to before `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets, which is larger than the number of records if the log has gaps."""
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """Split ranges into the same pieces as Spark's JVM source; empty ranges are left out.

    Args:
        ranges: the offsets to read, one range for each partition.
        min_partitions: the least number of pieces, approximately: rounding makes it a few more or less.
        max_records_per_partition: the most offsets of a piece.
    """
    pieces = [each for each in ranges if each.size > 0]
    if max_records_per_partition is not None:
        limit = float(max_records_per_partition)
        pieces = [part for each in pieces for part in _divide(each, min(math.ceil(float(each.size) / limit), INT_MAX))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(each.size for each in pieces)
    small = [each for each in pieces if _part_count(each.size, total, min_partitions) == 1]
    small_partitions = {each.partition for each in small}
    large_total = total - sum(each.size for each in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        part
        for each in pieces
        for part in _divide(
            each, 1 if each.partition in small_partitions else _part_count(each.size, large_total, large_parts)
        )
    ]


def _part_count(size: int, total: int, min_parts: int) -> int:
    # Floating point, rounded half up, as in Spark: with another rounding the plan would differ.
    share = float(size) / float(total) * min_parts
    whole = math.floor(share)
    return max(whole + (share - whole >= 0.5), 1)


def _divide(each: OffsetRange, parts: int) -> list[OffsetRange]:
    divided = []
    start = each.start
    for index in range(parts):
        end = start + (each.end - start) // (parts - index)
        if end > start:
            divided.append(OffsetRange(each.partition, start, end))
        start = end
    return divided


def coalesce(ranges: Iterable[OffsetRange], max_partitions: int | None = None) -> list[list[OffsetRange]]:
    """Combine ranges into at most `max_partitions` groups with about the same number of offsets; deterministic.

    A group has at most one range of a partition: adjacent ranges in it become one, others go into different groups.

    Args:
        ranges: the result of `split`; the ranges of one partition are adjacent.
        max_partitions: the most groups; with `None` each range is a group of its own.
    """
    wanted = list(ranges)
    if max_partitions is None or len(wanted) <= max_partitions:
        return [[each] for each in wanted]
    by_partition = groupby(sorted(wanted), lambda each: each.partition)
    wanted = [part for _, same in by_partition for part in _join(list(same), max_partitions)]
    groups: list[dict[TopicPartition, OffsetRange]] = [{} for _ in range(min(max_partitions, len(wanted)))]
    loads = [(0, index) for index in range(len(groups))]
    for each in sorted(wanted, key=lambda each: (-each.size, each)):
        refused = []
        while not _fits(groups[loads[0][1]], each):
            refused.append(heapq.heappop(loads))
        load, index = heapq.heappop(loads)
        other = groups[index].get(each.partition, each)
        joined = OffsetRange(each.partition, min(each.start, other.start), max(each.end, other.end))
        groups[index][each.partition] = joined
        for entry in [*refused, (load + each.size, index)]:
            heapq.heappush(loads, entry)
    return sorted(sorted(group.values()) for group in groups)


def _join(same: list[OffsetRange], most: int) -> list[OffsetRange]:
    """Join adjacent ranges of one partition to at most `most`, so that each finds a group without that partition."""
    for one, next_one in pairwise(same):
        if one.end != next_one.start:
            raise ValueError(f"{one} and {next_one} do not follow upon each other")
    runs = [same[len(same) * index // most : len(same) * (index + 1) // most] for index in range(most)]
    return [OffsetRange(run[0].partition, run[0].start, run[-1].end) for run in runs if run]


def _fits(group: dict[TopicPartition, OffsetRange], each: OffsetRange) -> bool:
    other = group.get(each.partition)
    return other is None or other.end == each.start or each.end == other.start

"""Offsets of each partition to read for a condition, and the rows of them to keep.

A lookup by time finds the first record, in log order, with at least that timestamp. So all records before it are older,
and reading may start there. The records after it are not ordered: with CreateTime a record may be older than those
before it. So the read ends at the end of the log, unless the user bounds how late records may be.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol

from monedula._filters.conditions import Box, Condition, boxes
from monedula._filters.intervals import ALL, MAX, intersection
from monedula.types.partitions import TopicPartition

Bounds = dict[TopicPartition, tuple[int, int]]
"""First offset, and the offset after the last one, by partition."""

Found = tuple[int, int] | None
"""Offset and timestamp in ms of a record; `None` if there is none."""


class Lookups(Protocol):
    """Time lookups in one cluster."""

    def first_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Found]:
        """Return the first record of each partition with at least this timestamp."""

    def largest(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Found]:
        """Return the record of each partition with the largest timestamp."""


Span = tuple[int, int]
"""First offset, and the offset after the last one."""

_NEAR_OFFSETS = 10_000
"""Spans with fewer offsets between them are read as one. A fetch returns up to `max.partition.fetch.bytes` anyway,
which covers such a gap unless records are large, and the next span would cost another fetch."""

_MAX_TIMES = 16
"""Limit on the ranges of times that are looked up one by one: each takes two requests."""

_MAX_SPANS = 100
"""Limit on the spans of a partition. They are read one after another, each with a fetch that takes a round trip."""


class Plan(NamedTuple):
    """Offsets to read, and the rows of them to keep."""

    spans: dict[TopicPartition, list[Span]]
    """Spans in ascending order; an empty list for a partition that is not needed."""
    kept: dict[TopicPartition, list[Box]]
    """Boxes of the rows to keep. Partitions that are missing here are kept whole."""

    @property
    def bounds(self) -> Bounds:
        """Return one range for each partition, from its first span to its last."""
        return {partition: (spans[0][0], spans[-1][1]) for partition, spans in self.spans.items()}


def narrowed(condition: Condition, bounds: Bounds, lookups: Lookups, max_lateness_ms: int | None) -> Plan:
    """Plan the reads within `bounds` for the condition.

    Args:
        condition: the condition.
        bounds: the ranges that would be read without the condition.
        lookups: the time lookups.
        max_lateness_ms: the most by which a record is older than any record before it; `None` if unknown.
    """
    wanted: dict[TopicPartition, list[Box]] = {}
    for partition, (start, end) in bounds.items():
        found = _within(boxes(condition, *partition), start, end)
        wanted[partition] = found if max_lateness_ms is None else _by_time(found)
    starts, ends = _times(wanted, max_lateness_ms)
    found_starts, found_ends = _looked_up(starts, lookups.first_at), _looked_up(ends, lookups.first_at)
    beyond = _without_later(found_starts, lookups)
    plan = Plan({}, {})
    for partition, some in wanted.items():
        left: list[Box] = []
        pieces: list[Span] = []
        for box in some:
            first, last = box.offsets[0][0], box.offsets[-1][1] + 1
            key = (partition, _first_ms(box))
            if key in beyond:
                continue
            at_start = found_starts.get(key)
            first = max(first, at_start[0]) if at_start is not None else first
            at_end = found_ends.get((partition, _end_ms(box, max_lateness_ms)))
            last = min(last, at_end[0]) if at_end is not None else last
            inside = intersection(box.offsets, ((first, last - 1),)) if first < last else ()
            if inside:
                pieces.extend((low, high + 1) for low, high in inside)
                left.append(box)
        start = bounds[partition][0]
        spans = _joined(pieces) or [(start, start)]
        plan.spans[partition] = spans
        whole = [offsets for box in left if box.timestamps_us == ALL for offsets in box.offsets]
        if not all(any(first <= low and high <= last + 1 for first, last in whole) for low, high in spans):
            plan.kept[partition] = left
    return plan


def _joined(pieces: list[Span]) -> list[Span]:
    spans: list[Span] = []
    for first, last in sorted(pieces):
        if spans and first - spans[-1][1] < _NEAR_OFFSETS:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    # Merge further if there are too many spans; only those with the largest gaps stay apart.
    by_gap = sorted(range(1, len(spans)), key=lambda index: spans[index][0] - spans[index - 1][1], reverse=True)
    edges = [0, *sorted(by_gap[: _MAX_SPANS - 1]), len(spans)]
    return [(spans[first][0], spans[last - 1][1]) for first, last in pairwise(edges) if first < last]


def _within(found: list[Box], start: int, end: int) -> list[Box]:
    if start >= end:
        return []
    inside = (Box(intersection(box.offsets, ((start, end - 1),)), box.timestamps_us) for box in found)
    return [box for box in inside if box.offsets]


def _by_time(found: list[Box]) -> list[Box]:
    """Split boxes into one range of times each, unless these are too many for lookups."""
    if sum(len(box.timestamps_us) for box in found) > _MAX_TIMES:
        return found
    return [Box(box.offsets, (times,)) for box in found for times in box.timestamps_us]


Question = tuple[TopicPartition, int | None]
"""Partition and a time in ms; `None` for no lookup."""


def _first_ms(box: Box) -> int | None:
    first_us = box.timestamps_us[0][0]
    # The timestamp of records without one is -1 ms, and no other is negative. All records are at or after -1 ms.
    return -(-first_us // 1000) if first_us > -1000 else None


def _end_ms(box: Box, max_lateness_ms: int | None) -> int | None:
    last_us = box.timestamps_us[-1][1]
    if max_lateness_ms is None or last_us == MAX:
        return None
    # Python's integers exceed the range of Kafka's times.
    end_ms = max(last_us // 1000 + 1, 0) + max_lateness_ms
    return end_ms if end_ms <= MAX else None


def _times(wanted: dict[TopicPartition, list[Box]], max_lateness_ms: int | None) -> tuple[set[Question], set[Question]]:
    starts = {(partition, _first_ms(box)) for partition, some in wanted.items() for box in some}
    ends = {(partition, _end_ms(box, max_lateness_ms)) for partition, some in wanted.items() for box in some}
    return starts, ends


def _looked_up(
    questions: set[Question], first_at: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]]
) -> dict[Question, Found]:
    """Look up the answers. One request can hold only one time for each partition."""
    answers: dict[Question, Found] = {}
    rounds: list[dict[TopicPartition, int]] = []
    for partition, time_ms in sorted((each, time_ms) for each, time_ms in questions if time_ms is not None):
        for asked in rounds:
            if partition not in asked:
                asked[partition] = time_ms
                break
        else:
            rounds.append({partition: time_ms})
    for asked in rounds:
        found = first_at(asked)
        answers.update({(partition, time_ms): found.get(partition) for partition, time_ms in asked.items()})
    return answers


def _without_later(found: dict[Question, Found], lookups: Lookups) -> set[Question]:
    """Return the questions to which "no record" is the true answer.

    A broker searches only the first segment whose largest timestamp is at or after the time. If the record with that
    timestamp was deleted (DeleteRecords), or has no timestamp, it answers that there is no record, although a later
    segment has one. So the answer counts only if the largest timestamp of the log is before the time as well. A missing
    answer for the largest timestamp proves nothing: that record may not be visible to readers yet.
    """
    missing = {question for question, answer in found.items() if answer is None}
    if not missing:
        return set()
    largest = lookups.largest(sorted({partition for partition, _ in missing}))
    return {
        (partition, time_ms)
        for partition, time_ms in missing
        if time_ms is not None and (known := largest.get(partition)) is not None and known[1] < time_ms
    }

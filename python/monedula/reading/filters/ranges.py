"""The offsets of each partition that have to be read for a condition, and what of them is to be kept.

A lookup by time finds the first record, in the order of the log, that is not older. So all records before it are older,
and reading may begin there. It says nothing about those after it: with CreateTime a record may be older than those
before it. So the read ends at the end of the log, unless the user says by how much records may be late.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol

from monedula.reading.filters.conditions import Box, Condition, boxes
from monedula.reading.filters.intervals import ALL, MAX, intersection
from monedula.types.partitions import TopicPartition

Bounds = dict[TopicPartition, tuple[int, int]]
"""By partition the first offset, and the offset after the last one."""

Found = tuple[int, int] | None
"""A record that was found: its offset and timestamp in ms; `None` if there is none."""


class Lookups(Protocol):
    """The lookups by time, of one cluster."""

    def first_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Found]:
        """The first record of each partition whose timestamp is at least this."""

    def largest(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Found]:
        """The record of each partition with the largest timestamp."""


Span = tuple[int, int]
"""The first of some offsets, and the one after the last."""

_NEAR_OFFSETS = 10_000
"""Spans with fewer offsets between them are read as one. A fetch brings more than is wanted, up to
`max.partition.fetch.bytes`, and the next span costs another one: that much lies between, if records are not large."""

_MAX_TIMES = 16
"""The most ranges of times that are looked up one by one: each takes two requests."""

_MAX_SPANS = 100
"""The most spans of a partition. One is read after another, each with a fetch that takes a round trip."""


class Plan(NamedTuple):
    """What is read, and what of it is kept."""

    spans: dict[TopicPartition, list[Span]]
    """In ascending order. A partition of which nothing is needed has an empty one."""
    kept: dict[TopicPartition, list[Box]]
    """Partitions that are missing here are kept whole."""

    @property
    def bounds(self) -> Bounds:
        """The spans, with what is between them."""
        return {partition: (spans[0][0], spans[-1][1]) for partition, spans in self.spans.items()}


def narrowed(condition: Condition, bounds: Bounds, lookups: Lookups, max_lateness_ms: int | None) -> Plan:
    """What has to be read of `bounds` for the condition.

    Args:
        condition: the condition.
        bounds: what would be read without it.
        lookups: where times are looked up.
        max_lateness_ms: the most by which a record is older than any record before it; `None` if that is unknown.
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
        if not all(any(_has_all(box, span) for box in left) for span in spans):
            plan.kept[partition] = left
    return plan


def _joined(pieces: list[Span]) -> list[Span]:
    """The spans to read for these pieces: those that overlap or are near are one."""
    spans: list[Span] = []
    for first, last in sorted(pieces):
        if spans and first - spans[-1][1] < _NEAR_OFFSETS:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    # Of too many, those with the largest gaps between them stay apart.
    by_gap = sorted(range(1, len(spans)), key=lambda index: spans[index][0] - spans[index - 1][1], reverse=True)
    edges = [0, *sorted(by_gap[: _MAX_SPANS - 1]), len(spans)]
    return [(spans[first][0], spans[last - 1][1]) for first, last in pairwise(edges) if first < last]


def _within(found: list[Box], start: int, end: int) -> list[Box]:
    if start >= end:
        return []
    inside = (Box(intersection(box.offsets, ((start, end - 1),)), box.timestamps_us) for box in found)
    return [box for box in inside if box.offsets]


def _by_time(found: list[Box]) -> list[Box]:
    """The same rows with one range of times in each box, unless these are too many to look all of them up."""
    if sum(len(box.timestamps_us) for box in found) > _MAX_TIMES:
        return found
    return [Box(box.offsets, (times,)) for box in found for times in box.timestamps_us]


def _has_all(box: Box, span: Span) -> bool:
    return box.timestamps_us == ALL and any(first <= span[0] and span[1] <= last + 1 for first, last in box.offsets)


Question = tuple[TopicPartition, int | None]
"""A partition and a time in ms; `None` where nothing is to be looked up."""


def _first_ms(box: Box) -> int | None:
    first_us = box.timestamps_us[0][0]
    # Without a timestamp a record has -1 ms; no other is negative. Any record is at or after that.
    return -(-first_us // 1000) if first_us > -1000 else None


def _end_ms(box: Box, max_lateness_ms: int | None) -> int | None:
    last_us = box.timestamps_us[-1][1]
    if max_lateness_ms is None or last_us == MAX:
        return None
    # Python's numbers do not end where Kafka's times do.
    end_ms = max(last_us // 1000 + 1, 0) + max_lateness_ms
    return end_ms if end_ms <= MAX else None


def _times(wanted: dict[TopicPartition, list[Box]], max_lateness_ms: int | None) -> tuple[set[Question], set[Question]]:
    starts = {(partition, _first_ms(box)) for partition, some in wanted.items() for box in some}
    ends = {(partition, _end_ms(box, max_lateness_ms)) for partition, some in wanted.items() for box in some}
    return starts, ends


def _looked_up(
    questions: set[Question], first_at: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]]
) -> dict[Question, Found]:
    """The answers. One request may ask for one time of a partition only."""
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
    """The questions to which "no record" is the true answer.

    A broker looks into the first segment whose largest timestamp is not before the time, and into no other. If the
    record with that timestamp was deleted (DeleteRecords), or has none at all, it answers that there is no record,
    although a later segment has one. So the largest timestamp of the log has to be before the time as well. If there
    is no answer to that, it may be that of a record which readers do not see yet.
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

"""Conditions on records as a tree, whichever library they were written with, and the rows of a partition that meet one.

A tree is evaluated for one partition at a time: its topic and number are known then, and what is left is which offsets
and timestamps meet the condition. What is not understood may hold for any row, so the rows that are found are never
fewer than those that meet the condition.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from monedula.errors import ArgumentError
from monedula.reading.filters.intervals import ALL, NONE, Intervals, complement, intersection, union

COLUMNS = ("topic", "partition", "offset", "timestamp")
"""The columns whose conditions decide what is fetched."""

_MOST_BOXES = 512


class TooManyAlternativesError(ArgumentError):
    """A condition combines more ranges of offsets with ranges of times than are worth to be followed."""


class Box(NamedTuple):
    """Rows of a partition: those whose offset and whose timestamp are in these intervals."""

    offsets: Intervals
    timestamps_us: Intervals


@dataclass(frozen=True)
class Numbers:
    """A condition on `partition`, `offset` or `timestamp` (in microseconds since 1970)."""

    column: str
    allowed: Intervals


@dataclass(frozen=True)
class Topic:
    """A condition on the topic's name."""

    holds: Callable[[str], bool]


@dataclass(frozen=True)
class Constant:
    """A condition without a column; with `None`, neither it nor its opposite holds."""

    value: bool | None


@dataclass(frozen=True)
class Unknown:
    """A condition that is not on these columns, or that is not understood."""

    text: str


@dataclass(frozen=True)
class And:
    """All of these."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Or:
    """Any of these."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Not:
    """The opposite."""

    part: "Condition"


Condition = Numbers | Topic | Constant | Unknown | And | Or | Not


def boxes(condition: Condition, topic: str, partition: int | None, *, is_negated: bool = False) -> list[Box]:
    """The rows of a partition that meet the condition (`is_negated`: its opposite), as a union of boxes.

    Without a partition, these are the rows of any.
    """
    match condition:
        case Unknown():
            return [Box(ALL, ALL)]
        case Constant(None):
            return []
        case Constant(value):
            return _whole(bool(value) != is_negated)
        case Topic(holds):
            return _whole(holds(topic) != is_negated)
        case Numbers(column, allowed):
            wanted = complement(allowed) if is_negated else allowed
            if column == "partition":
                return _whole(any(partition is None or first <= partition <= last for first, last in wanted))
            found = Box(wanted, ALL) if column == "offset" else Box(ALL, wanted)
            return [found] if wanted else []
        case Not(part):
            return boxes(part, topic, partition, is_negated=not is_negated)
        case And(parts) | Or(parts):
            each = (boxes(part, topic, partition, is_negated=is_negated) for part in parts)
            if isinstance(condition, And) == is_negated:
                return _merged([box for some in each for box in some])
            return _common(each)


def unknown_parts(condition: Condition) -> Iterator[str]:
    """The texts of the parts that are not understood."""
    match condition:
        case Unknown(text):
            yield text
        case Not(part):
            yield from unknown_parts(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from unknown_parts(part)


def columns_of(condition: Condition) -> set[str]:
    """The columns that rows are compared by: some of `offset` and `timestamp`."""
    match condition:
        case Numbers(column, _):
            return {column} - {"partition"}
        case Not(part):
            return columns_of(part)
        case And(parts) | Or(parts):
            return {column for part in parts for column in columns_of(part)}
    return set()


def _whole(is_met: bool) -> list[Box]:
    return [Box(ALL, ALL)] if is_met else []


def _common(each: Iterator[list[Box]]) -> list[Box]:
    found = [Box(ALL, ALL)]
    for some in each:
        pairs = ((one, other) for one in found for other in some)
        met = (Box(*(intersection(*both) for both in zip(one, other, strict=True))) for one, other in pairs)
        found = _merged([box for box in met if box.offsets and box.timestamps_us])
    return found


def _merged(found: list[Box]) -> list[Box]:
    """The same rows in fewer boxes: those that are equal in one dimension become one."""
    by_times: dict[Intervals, Intervals] = {}
    for box in found:
        by_times[box.timestamps_us] = union(by_times.get(box.timestamps_us, NONE), box.offsets)
    by_offsets: dict[Intervals, Intervals] = {}
    for times, offsets in by_times.items():
        by_offsets[offsets] = union(by_offsets.get(offsets, NONE), times)
    merged = [Box(*item) for item in by_offsets.items()]
    if Box(ALL, ALL) in merged:
        return [Box(ALL, ALL)]
    if len(merged) > _MOST_BOXES:
        raise TooManyAlternativesError(
            f"where combines {len(merged)} ranges of offsets with ranges of times; {_MOST_BOXES} are the most: give "
            "fewer, or read several times"
        )
    return merged

"""Conditions as a tree, independent of the library they were written with, and the rows of a partition that meet one.

A tree is evaluated for one partition at a time: with its topic and number known, the offsets and timestamps that meet
the condition remain. Parts that are not understood may hold for any row, so the result always includes all rows that
meet the condition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monedula._filters.intervals import ALL, NONE, Intervals, complement, intersection, normal, union
from monedula.errors import ArgumentError

COLUMNS = ("topic", "partition", "offset", "timestamp")
"""The columns whose conditions decide what is fetched."""

_MOST_BOXES = 512


class TooManyAlternativesError(ArgumentError):
    """A condition combines more ranges of offsets with ranges of times than are worth following."""


class Box(NamedTuple):
    """Rows of a partition whose offset and timestamp are in these intervals."""

    offsets: Intervals
    timestamps_us: Intervals


@dataclass(frozen=True)
class Numbers:
    """A condition on `partition`, `offset` or `timestamp` (in microseconds since 1970)."""

    column: str
    allowed: Intervals


@dataclass(frozen=True)
class Topic:
    """A condition on the name of the topic."""

    holds: Callable[[str], bool]


@dataclass(frozen=True)
class Constant:
    """A condition without columns. With `None`, neither it nor its negation holds."""

    value: bool | None


@dataclass(frozen=True)
class Unknown:
    """A condition on other columns, or one that is not understood."""

    text: str


@dataclass(frozen=True)
class And:
    """Conjunction of the parts."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Or:
    """Disjunction of the parts."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Not:
    """Negation of the part."""

    part: "Condition"


Condition = Numbers | Topic | Constant | Unknown | And | Or | Not


def any_of(column: str, parts: Sequence[Condition]) -> Condition:
    """Return the disjunction of conditions on a column: a single one, if it is about numbers alone."""
    exact = [part for part in parts if isinstance(part, Numbers)]
    if exact and len(exact) == len(parts):
        return Numbers(column, normal(interval for part in exact for interval in part.allowed))
    return Or(tuple(parts))


def boxes(condition: Condition, topic: str, partition: int | None, *, is_negated: bool = False) -> list[Box]:
    """Return the rows of a partition that meet the condition (with `is_negated`: its negation), as a union of boxes.

    Without a partition, the rows of any partition.
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
    """Return the texts of the parts that are not understood."""
    match condition:
        case Unknown(text):
            yield text
        case Not(part):
            yield from unknown_parts(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from unknown_parts(part)


def columns_of(condition: Condition) -> set[str]:
    """Return the columns that rows are compared by: some of `offset` and `timestamp`."""
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
    """Return the same rows in fewer boxes: boxes that are equal in one dimension are merged."""
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

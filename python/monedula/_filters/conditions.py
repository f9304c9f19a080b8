"""Conditions as a tree, independent of the library they were written with, and the rows of a partition that meet one.

A tree is evaluated for one partition at a time: with its topic and number known, the offsets and timestamps that meet
the condition remain. Parts that are not understood may hold for any row, so the result always includes all rows that
meet the condition.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monedula._filters.intervals import ALL, NONE, Intervals, complement, intersection, normal, union
from monedula.errors import ArgumentError

COLUMNS = ("topic", "partition", "offset", "timestamp")
"""The columns whose conditions decide what is fetched."""

KEY = "key"
HEADER = "headers."
"""Before the name of a header, of which the last one is compared."""

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
class Bytes:
    """A condition on the bytes of `topic`, `key` or `headers.NAME`. Of no bytes neither it nor its negation holds.

    The operator is one of `in`, `<`, `>`, `starts with`, `ends with`, `contains`, and `is null`, which has no values.
    """

    column: str
    operator: str
    values: tuple[bytes, ...] = ()

    def holds(self, given: bytes) -> bool:
        """Compare bytes, as the core does."""
        compare = {
            "in": lambda value: given == value,
            "<": lambda value: given < value,
            ">": lambda value: given > value,
            "starts with": given.startswith,
            "ends with": given.endswith,
            "contains": given.__contains__,
        }
        return any(map(compare[self.operator], self.values))


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


Condition = Numbers | Bytes | Constant | Unknown | And | Or | Not


def is_compared(column: object) -> bool:
    """True if conditions take this column: one that decides what is fetched, the key, or a header."""
    return column in COLUMNS or column == KEY or (isinstance(column, str) and column.startswith(HEADER))


def compared_bytes(column: str, operator: str, value: bytes) -> Condition:
    """Return the comparison of bytes with `value`, by one of `OPERATORS`."""
    match operator:
        case "==":
            return Bytes(column, "in", (value,))
        case "!=":
            return Not(Bytes(column, "in", (value,)))
        case "<=":
            return Not(Bytes(column, ">", (value,)))
        case ">=":
            return Not(Bytes(column, "<", (value,)))
        case _:
            return Bytes(column, operator, (value,))


def compared_topic(operator: str, value: str) -> Condition:
    """Return the comparison of the topic with a name, by bytes, as Arrow and polars compare."""
    return compared_bytes("topic", operator, value.encode(errors="surrogatepass"))


def not_null(column: str) -> Condition:
    """Return the condition that there are bytes."""
    return Not(Bytes(column, "is null"))


def any_of(column: str, parts: Sequence[Condition]) -> Condition:
    """Return the disjunction of conditions on a column: a single one, if it is about numbers alone, or values alone."""
    exact = [part for part in parts if isinstance(part, Numbers)]
    if exact and len(exact) == len(parts):
        return Numbers(column, normal(interval for part in exact for interval in part.allowed))
    texts = [part for part in parts if isinstance(part, Bytes) and part.operator == "in"]
    if texts and len(texts) == len(parts):
        return Bytes(column, "in", tuple(value for part in texts for value in part.values))
    return Or(tuple(parts))


def boxes(condition: Condition, topic: str, partition: int | None, *, is_negated: bool = False) -> list[Box]:
    """Return the rows of a partition that meet the condition (with `is_negated`: its negation), as a union of boxes.

    Without a partition, the rows of any partition.
    """
    match condition:
        case Bytes("topic", _, _):
            return _whole(condition.holds(topic.encode(errors="surrogatepass")) != is_negated)
        case Unknown() | Bytes():
            return [Box(ALL, ALL)]
        case Constant(None):
            return []
        case Constant(value):
            return _whole(bool(value) != is_negated)
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

"""Sets of 64-bit integers as intervals, and the integers that a comparison selects."""

import math
from collections.abc import Iterable
from fractions import Fraction

Intervals = tuple[tuple[int, int], ...]
"""Intervals with both their ends, in ascending order, that neither overlap nor touch."""

MIN, MAX = -(1 << 63), (1 << 63) - 1
ALL: Intervals = ((MIN, MAX),)
NONE: Intervals = ()

OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Equivalent operators for exchanged operands."""


def compared(operator: str, value: int | Fraction) -> Intervals:
    """Return the integers `n` for which `n operator value` holds; `value` may be between two integers."""
    below, above = math.ceil(value) - 1, math.floor(value) + 1
    match operator:
        case "<":
            return normal([(MIN, below)])
        case "<=":
            return normal([(MIN, above - 1)])
        case ">":
            return normal([(above, MAX)])
        case ">=":
            return normal([(below + 1, MAX)])
        case "==":
            return normal([(below + 1, above - 1)])
        case _:
            return complement(compared("==", value))


def normal(parts: Iterable[tuple[int, int]]) -> Intervals:
    """Return the union of `parts`, which may be empty, overlap, or exceed 64 bits."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted((max(first, MIN), min(last, MAX)) for first, last in parts):
        if first > last:
            continue
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def union(one: Intervals, other: Intervals) -> Intervals:
    """Return the union."""
    return normal([*one, *other])


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """Return the intersection."""
    if one == ALL or other == ALL:
        return other if one == ALL else one
    common, left, right = [], 0, 0
    while left < len(one) and right < len(other):
        first, last = max(one[left][0], other[right][0]), min(one[left][1], other[right][1])
        if first <= last:
            common.append((first, last))
        if one[left][1] < other[right][1]:
            left += 1
        else:
            right += 1
    return tuple(common)


def complement(some: Intervals) -> Intervals:
    """Return the complement."""
    gaps, free = [], MIN
    for first, last in some:
        gaps.append((free, first - 1))
        free = last + 1
    return normal([*gaps, (free, MAX)])

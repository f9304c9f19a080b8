"""Conditions in the form in which the core decides them for each record, before it decodes key and value.

That form is a tuple of a kind and what it is about, without negations: `("key", ("in", (b"a",), False))`. Parts that
are not understood hold for every record.
"""

from typing import Any

from monedula._filters.conditions import HEADER, And, Bytes, Condition, Constant, Not, Numbers, Or, Unknown
from monedula._filters.intervals import complement

RecordFilter = tuple[str, Any]

_EVERY: RecordFilter = ("all", ())
_NONE: RecordFilter = ("any", ())


def record_filter(condition: Condition, *, key: bool = True, always: bool = False) -> RecordFilter | None:
    """Return the filter of records that may meet the condition; `None` if it would leave none out.

    Args:
        condition: the condition.
        key: whether keys are compared as bytes. Otherwise conditions on the key are not understood.
        always: whether there is a filter even if the condition is on neither the key nor headers. A bounded read
            compares the other columns itself, at less cost, but after decoding.
    """
    found = _of(condition, key, False)
    return found if found != _EVERY and (always or _looks_into_records(found)) else None


def _of(condition: Condition, key: bool, is_negated: bool) -> RecordFilter:
    match condition:
        case Constant(None):
            return _NONE
        case Constant(value):
            return _EVERY if value != is_negated else _NONE
        case Numbers(column, allowed):
            return column, complement(allowed) if is_negated else allowed
        case Bytes(column, operator, values):
            test = (operator, values, is_negated)
            if column.startswith(HEADER):
                return "header", (column.removeprefix(HEADER), test)
            return (column, test) if key or column != "key" else _EVERY
        case Not(part):
            return _of(part, key, not is_negated)
        case And(parts) | Or(parts):
            is_all = isinstance(condition, And) != is_negated
            return _joined(is_all, [_of(part, key, is_negated) for part in parts])
        case Unknown():
            return _EVERY


def _joined(is_all: bool, parts: list[RecordFilter]) -> RecordFilter:
    # Neutral parts are left out, and one that decides alone stands for all.
    neutral, decisive = (_EVERY, _NONE) if is_all else (_NONE, _EVERY)
    left = [part for part in parts if part != neutral]
    if decisive in left:
        return decisive
    return left[0] if len(left) == 1 else ("all" if is_all else "any", tuple(left))


def _looks_into_records(found: RecordFilter) -> bool:
    kind, operand = found
    if kind in ("all", "any"):
        return any(map(_looks_into_records, operand))
    return kind in ("key", "header")

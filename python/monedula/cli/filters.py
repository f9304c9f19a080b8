"""Filters of `monedula consume`: conditions on keys, values and headers.

A condition is an operator and a text: `=TEXT` (exactly), `:TEXT` (contains), `~REGEX` (a regular expression that is
found in it), each with `!` before it for the opposite. A header's name stands before the operator.
"""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter

from monedula import Batch, Record
from monedula.cli.failures import UsageError

SYNTAX = "=TEXT exactly, :TEXT contains, ~REGEX matches; ! before it for the opposite"

_CONDITION = re.compile(r"(!?)([=:~])(.*)", re.DOTALL)
_HEADER = re.compile(r"(!?)([^=:~!]+)(?:(!?)([=:~])(.*))?", re.DOTALL)

Condition = Callable[[Record], bool]


class Filter:
    """The records that are wanted: those that meet every condition. Without conditions, all of them.

    Args:
        keys: conditions on the key; a text without an operator has to be contained.
        values: conditions on the value, likewise.
        headers: conditions on headers; `NAME` for records that have the header, `!NAME` for those that do not.
    """

    def __init__(self, keys: Sequence[str] | None, values: Sequence[str] | None, headers: Sequence[str] | None) -> None:
        self.columns = [name for name, given in (("key", keys), ("value", values), ("headers", headers)) if given]
        self._conditions: list[Condition] = [_of_field("key", text) for text in keys or ()]
        self._conditions += [_of_field("value", text) for text in values or ()]
        self._conditions += [_of_header(text) for text in headers or ()]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def rows(self, batch: Batch, most: int | None) -> Sequence[int]:
        """The rows of a batch that meet every condition, `most` at the most."""
        if not self._conditions:
            return range(batch.num_rows if most is None else min(batch.num_rows, most))
        conditions = self._conditions
        found = (
            row for row, record in enumerate(batch.records()) if all(condition(record) for condition in conditions)
        )
        return list(islice(found, most))


def _of_field(name: str, text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    opposite, operator, operand = ("", ":", text) if found is None else found.groups()
    holds, field = _of_operator(f"--{name}", text, operator, operand), attrgetter(name)
    return lambda record: ((data := field(record)) is not None and holds(data)) != bool(opposite)


def _of_header(text: str) -> Condition:
    found = _HEADER.fullmatch(text)
    if found is None:
        raise UsageError(f"--header {text}: expected the header's name, then {SYNTAX}")
    first, name, second, operator, operand = found.groups()
    negated = bool(first) != bool(second)
    if operator is None:
        return lambda record: any(each == name for each, _ in record.headers or ()) != negated
    holds = _of_operator("--header", text, operator, operand)
    return lambda record: (
        any(each == name and value is not None and holds(value) for each, value in record.headers or ()) != negated
    )


def _of_operator(option: str, text: str, operator: str, operand: str) -> Callable[[bytes], bool]:
    # Bytes that are not UTF-8, as the shell passed them, stay those bytes.
    wanted = operand.encode(errors="surrogateescape")
    if operator == "=":
        return lambda data: data == wanted
    if operator == ":":
        return lambda data: wanted in data
    try:
        search = re.compile(operand).search
    except re.error as error:
        raise UsageError(f"{option} {text}: no regular expression: {error}") from None
    return lambda data: search(data.decode(errors="surrogateescape")) is not None

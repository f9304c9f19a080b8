"""`--where` of `monedula consume`: conditions that are decided before records are decoded, as `where` of `read`."""

import re
from collections.abc import Sequence

from monedula._filters import condition_of
from monedula.cli.failures import UsageError
from monedula.errors import ArgumentError
from monedula.types.conditions import Leaf

SYNTAX = "COLUMN OPERATOR VALUE, as key = k-7, headers.type != test, offset >= 4, partition in 0,3 or key is null"

_CONDITION = re.compile(
    r"\s*(?P<column>\S+?)\s*"
    r"(?:(?P<operator><=|>=|!=|<>|==|=|<|>)|\s(?P<word>(?:not\s+)?in)\s|\s(?P<null>is\s+(?:not\s+)?null)\s*$)"
    r"\s*(?P<value>.*)",
    re.DOTALL | re.IGNORECASE,
)


def where_of(texts: Sequence[str] | None) -> list[Leaf] | None:
    """The conditions of the option, all of which must hold; `None` without any."""
    return [_leaf(text) for text in texts] if texts else None


def _leaf(text: str) -> Leaf:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(f"--where {text}: expected {SYNTAX}")
    column, value = found["column"], found["value"]
    if column == "value":
        raise UsageError(
            f"--where {text}: decided before values are decoded, it takes no condition on value; --value has them"
        )
    leaf: Leaf
    if found["null"]:
        leaf = (column, found["null"])
    elif found["word"]:
        leaf = (column, found["word"], [_value(column, part.strip(), text) for part in value.split(",")])
    else:
        leaf = (column, found["operator"], _value(column, value, text))
    try:
        condition_of(leaf)
    except ArgumentError as error:
        raise UsageError(f"--where {text}: {str(error).removeprefix(f'where: {leaf!r}: ')}") from None
    return leaf


def _value(column: str, value: str, text: str) -> object:
    if column in ("partition", "offset") or (column == "timestamp" and re.fullmatch(r"-?\d+", value)):
        try:
            return int(value)
        except ValueError:
            raise UsageError(f"--where {text}: {column} is compared with a whole number, not with {value!r}") from None
    return value

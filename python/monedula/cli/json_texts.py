"""The texts of JSON values as they stand in a line: parsed and written again, numbers and escapes would change."""

import json
import re
from collections.abc import Iterator
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")


def member_texts(text: str) -> dict[str, str]:
    """By its name, the text of each member of an object that is known to be one."""
    return dict(_members(text))


def element_texts(text: str) -> list[str]:
    """The text of each element of an array that is known to be one."""
    return list(_elements(text))


def is_digits_limit(error: ValueError) -> bool:
    """Return true if Python refuses a whole number because it has thousands of digits."""
    return "set_int_max_str_digits" in str(error)


def _whole(text: str) -> int | float:
    try:
        return int(text)
    except ValueError as error:
        if not is_digits_limit(error):
            raise
        return float(text)


_DECODER = json.JSONDecoder(parse_int=_whole)


def _members(text: str) -> Iterator[tuple[str, str]]:
    at = _behind_space(text, _behind_space(text, 0) + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _behind_space(text, _behind_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield name, text[start:end]
        at = _behind_comma(text, end)


def _elements(text: str) -> Iterator[str]:
    at = _behind_space(text, _behind_space(text, 0) + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _behind_comma(text, end)


def _behind_comma(text: str, at: int) -> int:
    at = _behind_space(text, at)
    return _behind_space(text, at + 1) if text[at] == "," else at


def _behind_space(text: str, at: int) -> int:
    found: Any = _SPACE.match(text, at)
    end: int = found.end()
    return end

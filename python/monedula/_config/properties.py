"""Java's properties files: `key=value`, `key: value` or `key value`, `#` and `!` for comments, backslash escapes."""

from collections.abc import Iterator
from typing import NamedTuple

_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_UNICODE_DIGITS = 4


class Property(NamedTuple):
    line: int
    key: str
    value: str
    """The value. As in Java, blanks at its end are kept, because they may belong to a password."""
    is_separated: bool
    """True if `=` or `:` is between key and value."""


def properties(text: str) -> Iterator[Property]:
    """Parse the entries, by the rules of `java.util.Properties.load`.

    Raises:
        ValueError: for a backslash and `u` that four hexadecimal digits do not follow. The message does not show the
            line, which may have a password.
    """
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        is_separated = rest[:1] in ("=", ":")
        value = rest[1:].lstrip(_BLANKS) if is_separated else rest
        yield Property(number, _unescaped(line[:end], number), _unescaped(value, number), is_separated)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments; a line that ends with a backslash is joined with the next."""
    begun, first = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield first, begun + line
        begun, first = "", 0
    if first and begun:
        yield first, begun


def _end_of_key(line: str) -> int:
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANKS}":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts = []
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter != "\\" or at == len(text):
            parts.append(letter)
            continue
        escaped = text[at]
        at += 1
        if escaped == "u":
            digits = text[at : at + _UNICODE_DIGITS]
            at += _UNICODE_DIGITS
            parts.append(_character(digits, line))
        else:
            parts.append(_ESCAPED.get(escaped, escaped))
    # Two escapes may be the surrogates of one character.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(digits: str, line: int) -> str:
    if len(digits) == _UNICODE_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return chr(int(digits, 16))
    raise ValueError(f"line {line}: four hexadecimal digits must follow \\u")

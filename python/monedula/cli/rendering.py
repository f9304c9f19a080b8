"""Bytes as text, for a screen."""

import base64
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# What moves a cursor or changes a terminal: a record must not be able to.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Form(StrEnum):
    """How a key or a value is shown."""

    auto = "auto"
    string = "string"
    json = "json"
    base64 = "base64"
    hex = "hex"


def shown(data: bytes, form: Form) -> str:
    """Data on one line of a terminal. With `auto`, what is not UTF-8 is shown as hex, with 0x before it."""
    return escaped(as_text(data, form))


def as_text(data: bytes, form: Form) -> str:
    """Data as text, its control characters in it."""
    if form is Form.base64:
        return base64.b64encode(data).decode()
    if form is Form.hex:
        return data.hex()
    if form is Form.string:
        return data.decode(errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def escaped(text: str) -> str:
    """Text without control characters."""
    return _CONTROL.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def time_text(milliseconds: int | None) -> str | None:
    """A record's time in ISO 8601, UTC, to the millisecond."""
    if milliseconds is None:
        return None
    second, rest = divmod(milliseconds, 1000)
    return f"{_second_text(second)}.{rest:03}Z"


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    # Records of one second come together, and dates take longer to format than the rest of a line.
    try:
        return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return f"{second}s after 1970"

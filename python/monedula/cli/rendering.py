"""Renders the bytes and timestamps of records as text."""

import base64
import re
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1)

# Control characters: a record must not be able to move the cursor or to change the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Form(StrEnum):
    """The form in which a key or a value is shown."""

    auto = "auto"
    string = "string"
    json = "json"
    base64 = "base64"
    hex = "hex"


def shown(data: bytes, form: Form) -> str:
    """The data as text for one line of a terminal. With `auto`, data that are not UTF-8 are shown as hex after 0x."""
    return escaped(as_text(data, form))


def as_text(data: bytes, form: Form) -> str:
    """The data as text, with control characters unchanged."""
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


def raw_bytes(data: bytes, form: Form) -> bytes:
    """The data for a program: unchanged, unless the form is base64 or hex."""
    return as_text(data, form).encode() if form in (Form.base64, Form.hex) else data


def escaped(text: str) -> str:
    """The text with control characters replaced by escapes."""
    return _CONTROL.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def counted(number: int, what: str) -> str:
    """A number of things: `1 partition`, `2 partitions`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def time_text(milliseconds: int | None) -> str | None:
    """A record's timestamp in ISO 8601, UTC, with milliseconds."""
    if milliseconds is None:
        return None
    second, rest = divmod(milliseconds, 1000)
    return f"{_second_text(second)}.{rest:03}Z"


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    # Cached, because formatting a date takes longer than the whole other line, and many records share a second.
    try:
        return (_EPOCH + timedelta(seconds=second)).isoformat()
    except OverflowError:
        return f"{second}s after 1970"

"""Parses the texts of options into numbers, booleans, times and sizes, by Spark's rules."""

import re
from collections.abc import Mapping

from monedula.errors import ConfigError

_WHOLE = re.compile(r"[+-]?[0-9]+")
_TIME = re.compile(r"(-?[0-9]+)([a-z]+)?")
_SIZE = re.compile(r"([0-9]+)([a-z]+)?")

_MICROSECONDS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 60 * 10**6,
    "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
}
_BYTES = {unit: 1 << 10 * power for power, letter in enumerate("bkmgtp") for unit in (letter, letter.rstrip("b") + "b")}

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1


def whole_number(name: str, text: str, minimum: int, maximum: int = LONG_MAX) -> int:
    """`text` as a whole number from `minimum` to `maximum`, both included."""
    stripped = text.strip()
    if not _WHOLE.fullmatch(stripped) or len(stripped) > 20 or not minimum <= int(stripped) <= maximum:
        raise bad_value(name, text, f"a whole number from {minimum} to {maximum}")
    return int(stripped)


def boolean(name: str, text: str) -> bool:
    """`text` as a boolean."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise bad_value(name, text, "true or false")
    return value


def time_ms(name: str, text: str) -> int:
    """Milliseconds from a time in Spark's form, such as `100ms`, `10s`, `15m`, `1h`; a bare number is milliseconds."""
    microseconds = _scaled(text, _TIME, _MICROSECONDS, "ms")
    if microseconds is None or not 0 <= microseconds // 1000 <= LONG_MAX:
        expected = "a time such as 100ms, 10s, 15m (or 15min), 1h or 1d; a bare number is milliseconds"
        raise bad_value(name, text, expected)
    return microseconds // 1000


def size_bytes(name: str, text: str) -> int:
    """Bytes from a size in Spark's form, such as `512k`, `64m`, `1g`; a bare number is bytes."""
    size = _scaled(text, _SIZE, _BYTES, "b")
    if size is None or not 1 <= size <= LONG_MAX:
        raise bad_value(name, text, "a size such as 512k, 64m or 1g, of at least 1 byte; a bare number is bytes")
    return size


def _scaled(text: str, pattern: re.Pattern[str], units: Mapping[str, int], default: str) -> int | None:
    match = pattern.fullmatch(text.strip().lower())
    factor = units.get(match[2] or default) if match else None
    return None if match is None or factor is None or len(match[1]) > 19 else int(match[1]) * factor


def bad_value(name: str, text: str, expected: str) -> ConfigError:
    """The error for an option with an invalid value."""
    return refused(name, f"is '{text}': expected {expected}")


def refused(name: str, reason: str) -> ConfigError:
    """The error for an option, which says what it is."""
    return ConfigError(f"option '{name}' {reason}", key=name)

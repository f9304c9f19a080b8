"""Parses offsets, times, durations and partitions of the command line."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from monedula.cli.failures import UsageError
from monedula.types.times import TIME_TEXTS, time_of

Place = int | str | datetime
"""An offset (if negative, counted from the end), `"earliest"`, `"latest"`, or a time."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Numbers are matched up to a length: int() refuses texts of thousands of digits.
_DURATION = re.compile(r"(\d{1,18})\s*([smhdw])")
_ISO_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,18})D)?(?:T(?:(?P<hours>\d{1,18})H)?(?:(?P<minutes>\d{1,18})M)?(?:(?P<seconds>\d{1,18})S)?)?"
)
_NAMES = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}


def place_of(text: str, option: str) -> Place:
    """The position that `--from` or `--to` gives."""
    if text in _NAMES:
        return _NAMES[text]
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    time = time_of(text)
    if time is None:
        raise UsageError(
            f"{option} {text}: expected an offset (42; -10: ten before the end), earliest, latest, or a time: "
            f"{TIME_TEXTS}"
        )
    return time


def with_time(told: str, options: Mapping[str, object]) -> str:
    """Add how a time is written, if an error names an offset that looks like one: 13 digits are ms since 1970."""
    meant = [text for text in options.values() if isinstance(text, str) and re.fullmatch(r"\d{13}", text)]
    return next((f"{told}; for a time write @{text}" for text in meant if text in told), told)


def duration_of(text: str, option: str) -> timedelta:
    """The duration that an option gives: `90m`, `7d`, or as in ISO 8601, `PT1H30M`."""
    found = _DURATION.fullmatch(text) or _ISO_DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise UsageError(f"{option} {text}: expected a time such as 30m, 12h, 7d (s, m, h, d, w) or PT1H30M")
    try:
        if found.re is _DURATION:
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
        return timedelta(**{unit: int(count) for unit, count in found.groupdict("0").items()})
    except OverflowError:
        raise UsageError(f"{option} {text}: that is too long") from None


def partitions_of(texts: list[str] | None) -> list[int]:
    """The partitions given as `0`, `0,2` or `0-3`."""
    found: list[int] = []
    for part in ",".join(texts or ()).split(",") if texts else ():
        span = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", part.strip())
        if span is None:
            raise UsageError(f"--partition {part}: expected a number, or several such as 0,2 or 0-3")
        first = int(span[1])
        last = int(span[2] or first)
        if not first <= last < 1 << 31 or last - first > 100_000:
            raise UsageError(f"--partition {part}: there are no such partitions")
        found.extend(range(first, last + 1))
    return list(dict.fromkeys(found))

"""Parses offsets, times and partitions of the command line."""

import re
from datetime import UTC, datetime, timedelta

from monedula.cli.running import UsageError

Place = int | str | datetime
"""An offset (if negative, counted from the end), `"earliest"`, `"latest"`, or a time."""

_NAMES = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}
_AGO = re.compile(r"(?:-(\d+)|(\d+))\s*(s|m|h|d)(\s*ago)?")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def place_of(text: str, option: str) -> Place:
    """The position that `--from` or `--to` gives.

    Raises:
        UsageError: if the text is not a position; the message lists the valid forms.
    """
    if text in _NAMES:
        return _NAMES[text]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    time = _time_of(text)
    if time is None:
        raise UsageError(
            f"{option} {text}: expected an offset (42; -10: ten before the end), earliest, latest, a time such as "
            "2026-11-21T10:00 or 2026-11-21T10:00:00Z, '15m ago' (s, m, h, d), or @ and milliseconds since 1970"
        )
    return time


def partitions_of(texts: list[str] | None) -> list[int]:
    """The partitions given as `0`, `0,2` or `0-3`.

    Raises:
        UsageError: if a part is neither a number nor a valid range.
    """
    found: list[int] = []
    for part in ",".join(texts or ()).split(",") if texts else ():
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if span is None:
            raise UsageError(f"--partition {part}: expected a number, or several such as 0,2 or 0-3")
        first = int(span[1])
        last = int(span[2] or first)
        if not first <= last < 1 << 31 or last - first > 100_000:
            raise UsageError(f"--partition {part}: there are no such partitions")
        found.extend(range(first, last + 1))
    return list(dict.fromkeys(found))


def _time_of(text: str) -> datetime | None:
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None and (ago[1] is not None) != (ago[4] is not None):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[3]]: int(ago[1] or ago[2])})
        if re.fullmatch(r"@\d+", text):
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(text[1:]))
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None

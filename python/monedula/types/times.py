"""Times as text: one parser for Python and for the command line."""

import re
from datetime import UTC, datetime, timedelta

TIME_TEXTS = (
    "2026-11-21T10:00 (local time), 2026-11-21T10:00:00Z, '15m ago' (s, m, h, d, w), 'today', 'yesterday', "
    "or '@' and milliseconds since 1970"
)
"""The texts that name a time, for messages."""

EXPECTED_TIME = f"an aware datetime, or a text: {TIME_TEXTS}"
"""Accepted forms of a time, for messages."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGO = re.compile(r"(?:-(\d+)\s*([a-z]+)|(\d+)\s*([a-z]+)\s+ago)")
_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
    **dict.fromkeys(("w", "week", "weeks"), timedelta(weeks=1)),
}
_DAYS_BACK = {"today": 0, "yesterday": 1}


def time_of(text: str) -> datetime | None:
    """Parse the text of a time; `None` if it is none.

    "yesterday" and "today" are the beginning of that day, in local time. A time without a zone is local time.
    """
    try:
        if text in _DAYS_BACK:
            day = datetime.now().date() - timedelta(days=_DAYS_BACK[text])
            return datetime(day.year, day.month, day.day).astimezone()
        ago = _AGO.fullmatch(text)
        if ago is not None:
            unit = _UNITS.get(ago[2] or ago[4])
            return None if unit is None else datetime.now(UTC) - int(ago[1] or ago[3]) * unit
        if re.fullmatch(r"@\d+", text):
            return EPOCH + timedelta(milliseconds=int(text[1:]))
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None

"""The time zone of a session, which texts of times are in that name none."""

import os
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_SETTING = "spark.sql.session.timeZone"


def session_zone() -> str | None:
    """The zone that the session was given, in a task; `None` if it was given none, or on the driver.

    Spark gives a task the settings that the session has set. The session's zone without a setting is that of the
    driver.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.getLocalProperty(_SETTING) if context is not None else None


def time_zone_here() -> str:
    """The name of this machine's time zone, by the rules of the C library; UTC if it has no name."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        _, _, named = os.path.realpath("/etc/localtime").partition("zoneinfo/")
    try:
        ZoneInfo(named)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return "UTC"
    return named

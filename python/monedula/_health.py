"""Failing brokers: the error of a wait without records, and the time since which they fail."""

from datetime import UTC, datetime, timedelta
from typing import Any

from monedula.types.json_dict import JsonDict

_BLIP = 15.0
"""Seconds: longer than the election of a new leader takes (`broker.session.timeout.ms` is 9 s by default)."""

_ONE_OF_MANY = 5.0
"""A `poll` with a shorter timeout, in seconds, is one of many, and an empty batch of it is no end."""


def patience(timeout: float, is_end: bool) -> float:
    """Seconds for which a client must have been failing, so that a wait that ended without records raises.

    Args:
        timeout: the timeout of the wait, in seconds.
        is_end: whether the wait ends an iteration, which says that there are no more records.
    """
    if is_end or timeout >= _ONE_OF_MANY:
        # The last answer may have come in the first moments of the wait.
        return min(max(timeout - 1.0, 1.0), _BLIP)
    return _BLIP


def late_flush(timeout: float | None, last_error: str | None) -> dict[str, Any]:
    """Arguments of the error of a `flush()` that ended while records still waited for room."""
    because = "" if last_error is None else f"; the last attempt: {last_error}"
    message = f"flush() did not end within {timeout} s: records still wait for room{because}"
    return {"message": message, "retriable": True, "last_error": last_error}


def with_since(health: dict[str, Any]) -> JsonDict[str, Any]:
    """Add `failing_since`, in UTC, to what a client says of its health."""
    seconds = health["failing_for"]
    since = None if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    return JsonDict({**health, "failing_since": since})

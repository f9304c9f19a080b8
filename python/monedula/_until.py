"""`UntilLoop`: a loop that ends once each partition is read up to the end that its log had, or up to a time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from monedula._monedula import ConsumerCore
from monedula.errors import ArgumentError, UnknownTopicError
from monedula.partitions import timestamp_ms
from monedula.times import EXPECTED_TIME, time_of

Until = str | datetime
"""Where a loop ends: `"latest"`, or a time: an aware datetime, or a text such as `"today"` or `"1h ago"`."""

SLICE_SECONDS = 0.05
"""How long a loop waits for records before it looks again whether it is at its end."""


class UntilLoop:
    """A loop with `until`. It begins when it is first asked for its next step, and ends with `end()`.

    Args:
        core: the consumer's core.
        until: the argument of the user.

    Raises:
        ArgumentError: if `until` is neither `"latest"` nor a time.
    """

    def __init__(self, core: ConsumerCore, until: Until) -> None:
        self._core = core
        self._timestamp = _timestamp(until)
        self._number: int | None = None

    def reached(self) -> bool:
        """Whether everything is read."""
        if self._number is None:
            self._number = self._core.begin_until(self._timestamp)
        return self._core.until_reached()

    def end(self) -> None:
        """Read on without an end."""
        number, self._number = self._number, None
        if number is not None:
            self._core.end_until(number)


def check_topics(group: Mapping[str, Any] | None) -> None:
    """Raise if topics that were to be read do not exist: a job over a mistyped topic has not done its work.

    Args:
        group: the membership, as in `health()`.

    Raises:
        UnknownTopicError: with the topics.
    """
    if group is None:
        return
    unknown = group["unknown_topics"]
    if unknown:
        names = f"topics {', '.join(unknown)} do" if len(unknown) > 1 else f"topic {unknown[0]} does"
        message = f"group {group['group_id']}: the {names} not exist; the other topics are read to the end"
        raise UnknownTopicError(message, topic=unknown[0], group=group["group_id"])
    if group["unmatched_for"] is not None:
        message = f"group {group['group_id']}: no topic matches the pattern that it subscribed to"
        raise UnknownTopicError(message, group=group["group_id"])


def _timestamp(until: object) -> int | None:
    if until == "latest":
        return None
    if isinstance(until, datetime) or (isinstance(until, str) and time_of(until) is not None):
        return timestamp_ms(until)
    raise ArgumentError(f"until={until!r}: expected 'latest', or a time: {EXPECTED_TIME}")

"""`UntilLoop`: a loop that ends once each partition is read up to the end that its log had, or up to a time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from monedula._arguments import seconds, timestamp_ms
from monedula._monedula import ConsumerCore
from monedula.consumer._dead_letters import SLICE_SECONDS, RefusedRecords
from monedula.errors import ArgumentError, UnknownTopicError
from monedula.types.partitions import Until
from monedula.types.times import EXPECTED_TIME, time_of


class UntilLoop:
    """A loop with `until`. It begins when it is first asked for its next step, and ends with `end()`."""

    def __init__(self, core: ConsumerCore, dead_letters: RefusedRecords, until: Until) -> None:
        self._core = core
        self._refused = dead_letters
        self._timestamp = _timestamp(until)
        self._number: int | None = None

    def reached(self) -> bool:
        if self._number is None:
            self._number = self._core.begin_until(self._timestamp)
        # The positions are behind a batch that waits for its dead letters, and nobody has its rows yet.
        return self._core.until_reached() and not self._refused.is_waiting()

    def slices(self, timeout: float | None) -> "Slices":
        """The waits for the next batch, of which each ends soon enough to look again.

        Args:
            timeout: seconds without a record after which the loop ends; `None` for never.
        """
        return Slices(self, None if timeout is None else seconds("timeout", timeout))

    def end(self) -> None:
        """Read on without an end."""
        number, self._number = self._number, None
        if number is not None:
            self._core.end_until(number)


class Slices:
    """Waits of a loop with `until` for its next batch: see `UntilLoop.slices`."""

    def __init__(self, loop: UntilLoop, left: float | None) -> None:
        self._loop = loop
        self._left = left
        self._is_last = False
        self._wait = 0.0

    def next(self) -> float:
        """Seconds to wait now; 0 at the end too, where a call finishes the last batch and runs callbacks."""
        self._is_last = self._left is not None and self._left <= 0
        is_over = self._is_last or self._loop.reached()
        self._wait = 0.0 if is_over else min(SLICE_SECONDS, self._left or SLICE_SECONDS)
        if self._left is not None:
            self._left -= self._wait
        return self._wait

    def is_over(self) -> bool:
        return self._is_last or (self._wait == 0.0 and self._loop.reached())


def check_topics(group: Mapping[str, Any] | None) -> None:
    """Raise if topics that were to be read do not exist: a job over a mistyped topic has not done its work."""
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
    raise ArgumentError.of("until", until, f"expected 'latest', or a time: {EXPECTED_TIME}")

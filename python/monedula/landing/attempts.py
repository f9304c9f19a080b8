"""`Attempts`: how often, and for how long, a table is asked again, and that this ends soon once the job stops."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

COMMIT_SECONDS = 60.0
"""The longest time in which attempts of a commit begin, and looks for the outcome of one without an answer."""
STOP_SECONDS = 10.0
"""The longest such time after `stop()`."""

_LONGEST_STOPPING_PAUSE_S = 1.0
_LOOK_S = 0.1


class Attempts:
    """Attempts of what a store or a catalog may refuse for a while, with pauses before them.

    Pauses differ by half from worker to worker, which otherwise meet again and again.
    """

    def __init__(self) -> None:
        # No Event: a signal handler that sets one may find its lock taken by the thread that it interrupts.
        self._is_stopping = False
        self._ends_at = float("inf")
        self._stops_at = float("inf")

    def stop(self) -> None:
        """End the pause of now, if there is one, and begin no attempt later than `STOP_SECONDS` from now."""
        if not self._is_stopping:
            self._stops_at = monotonic() + STOP_SECONDS
            self._is_stopping = True

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Begin no attempt within this block later than `COMMIT_SECONDS` from now, also of steps within steps."""
        self._ends_at = monotonic() + COMMIT_SECONDS
        try:
            yield
        finally:
            self._ends_at = float("inf")

    def after(self, pauses_s: Sequence[float]) -> Iterator[None]:
        """Iterate once after each of these pauses, at least once, for as long as there is time."""
        for number, pause in enumerate(pauses_s):
            left = min(self._ends_at, self._stops_at) - monotonic()
            if number and left <= 0:
                return
            self._pause(min(pause * random.uniform(0.5, 1.5), max(left, 0.0)))
            yield

    def _pause(self, seconds: float) -> None:
        if self._is_stopping:
            seconds = min(seconds, _LONGEST_STOPPING_PAUSE_S)
        was_stopping, ends_at = self._is_stopping, monotonic() + seconds
        while self._is_stopping == was_stopping and (left := ends_at - monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))

"""`JobConsumer`: the group member of a landing job, which keeps the records that cannot be decoded for it."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from monedula._monedula import Batch, Operation, PendingCallback
from monedula.consumer._dead_letters import Letter, WaitingBatch
from monedula.consumer._read_until import UntilLoop
from monedula.consumer.sync import Consumer
from monedula.errors import KafkaError, KafkaTimeoutError, WakeupError
from monedula.types.partitions import Until

_R = TypeVar("_R")

_LOOK_SECONDS = 0.2
_TOPIC_IDS_SECONDS = 60.0
_TOPIC_IDS_SLICE_SECONDS = 5.0
"""After so long the same is asked again: this call cannot be ended by `stop()`."""


class JobConsumer(Consumer):
    """A consumer that hands out the records that cannot be decoded, if their topic of dead letters is `KEPT`."""

    KEPT = "_error"
    """A name that stands for the table itself."""

    _figures: Callable[[], dict[str, float]] | None = None
    _keeps_bad = False
    _bad: deque[Letter]
    _is_stopping = False
    _dead_letters = 0

    def show(self, figures: Callable[[], dict[str, float]]) -> None:
        """Have `metrics()` return the figures of the job too."""
        self._figures = figures

    def metrics(self) -> dict[str, float]:
        """The figures of the consumer and of its job."""
        return {**super().metrics(), **({} if self._figures is None else self._figures())}

    def stop(self) -> None:
        """End the current wait, and all later ones for answers about topics and offsets, with `WakeupError`."""
        self._is_stopping = True
        self.wakeup()

    def _outcome(self, operation: "Operation[_R]") -> _R:
        try:
            while not operation.wait(_LOOK_SECONDS):
                self._check_going_on()
        except BaseException:
            operation.cancel()
            raise
        return operation.result()

    def _check_going_on(self) -> None:
        if self._is_stopping:
            raise WakeupError("the job was stopped while brokers were asked")

    def keep_bad(self) -> None:
        """Hand such records out by `take_bad`, in place of writing them to a topic."""
        self._keeps_bad, self._bad = True, deque()

    def take(self, timeout: float) -> Batch:
        """Return the next batch, or an empty one after `timeout`; callbacks that are due run inside."""
        return self._next(_MAX_ROWS, _MAX_BYTES, 0.1, timeout)

    def take_bad(self) -> list[Letter]:
        """Return the records of the last batch that cannot be decoded."""
        if not self._keeps_bad:
            return []
        letters = list(self._bad)
        self._bad.clear()
        return letters

    def take_dead_letters(self) -> int:
        """Return how many dead letters were written since the last call."""
        written, self._dead_letters = self._dead_letters, 0
        return written

    def generation(self) -> int | None:
        """The generation of the membership; `None` while this is no member."""
        try:
            return self._member.metadata()[1]
        except KafkaError:
            return None

    def until(self, until: Until) -> UntilLoop:
        """Begin a loop that ends where the log ends now, or at a time."""
        return UntilLoop(self._core, self._refused, until)

    def topic_ids(self, topics: list[str]) -> dict[str, tuple[str, int]]:
        """The id of each topic that exists, and how many partitions it has."""
        ends_at = monotonic() + _TOPIC_IDS_SECONDS
        while True:
            try:
                _, known = self._core.describe(topics, _TOPIC_IDS_SLICE_SECONDS)
            except KafkaTimeoutError:
                self._check_going_on()
                if monotonic() >= ends_at:
                    raise
            else:
                return {name: (told[0], len(told[3])) for name, told in known.items() if told[2] is None}

    def _put_aside(
        self, waiting: WaitingBatch, timeout: float | None, holder: int | None
    ) -> Batch | PendingCallback | None:
        if not self._keeps_bad:
            before = list(waiting.letters)
            try:
                return super()._put_aside(waiting, timeout, holder)
            finally:
                self._dead_letters += len(set(before).difference(waiting.letters))
        callback = self._core.poll_callbacks(0.0, holder)
        if callback is not None:
            self._refused.put_back(waiting)
            self._member.abandon(waiting.batch)
            return callback
        waiting.forget(self._core.revoked_partitions(waiting.batch))
        if self._core.claim(waiting.batch, holder):
            self._bad.extend(waiting.letters)
            return waiting.batch
        return None


_MAX_ROWS = 100_000
_MAX_BYTES = 16 << 20

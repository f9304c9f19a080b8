"""`JobConsumer`: the group member of a landing job, which keeps the records that cannot be decoded for it."""

from collections import deque
from collections.abc import Callable

from monedula._monedula import Batch, PendingCallback
from monedula.consumer._dead_letters import Letter, WaitingBatch
from monedula.consumer._read_until import UntilLoop
from monedula.consumer.sync import Consumer
from monedula.errors import KafkaError
from monedula.types.partitions import Until


class JobConsumer(Consumer):
    """A consumer that hands out the records that cannot be decoded, if their topic of dead letters is `KEPT`."""

    KEPT = "_error"
    """A name that stands for the table itself."""

    _figures: Callable[[], dict[str, float]] | None = None
    _keeps_bad = False
    _bad: deque[Letter]

    def show(self, figures: Callable[[], dict[str, float]]) -> None:
        """Have `metrics()` return the figures of the job too."""
        self._figures = figures

    def metrics(self) -> dict[str, float]:
        """The figures of the consumer and of its job."""
        return {**super().metrics(), **({} if self._figures is None else self._figures())}

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

    def generation(self) -> int | None:
        """The generation of the membership; `None` while this is no member."""
        try:
            return self._member.metadata()[1]
        except KafkaError:
            return None

    def until(self, until: Until) -> UntilLoop:
        """Begin a loop that ends where the log ends now, or at a time."""
        return UntilLoop(self._core, self._refused, until)

    def topic_ids(self, topics: list[str], timeout: float | None) -> dict[str, tuple[str, int]]:
        """The id of each topic that exists, and how many partitions it has."""
        _, known = self._core.describe(topics, timeout)
        return {name: (told[0], len(told[3])) for name, told in known.items() if told[2] is None}

    def _put_aside(
        self, waiting: WaitingBatch, timeout: float | None, holder: int | None
    ) -> Batch | PendingCallback | None:
        if not self._keeps_bad:
            return super()._put_aside(waiting, timeout, holder)
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
